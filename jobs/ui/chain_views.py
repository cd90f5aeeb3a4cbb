"""Handles the forms on the page of a job that add and remove chains, which start one job after another."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from jobs.models import Job
from jobs.ui.pages import page
from jobs.verbs import chains
from nodes.errors import NotDone, Unknown
from nodes.web.pages import user_with_permission


@page
@require_POST
def add(request: HttpRequest, job_id: int) -> HttpResponse:
    """Add a chain: the job with this name starts after the job of the page has ended well."""
    made_by = user_with_permission(request, chains.MAY_CHAIN)
    name = request.POST.get("successor", "").strip()
    successor = Job.objects.filter(name=name).first() if "\0" not in name else None
    if successor is None:
        messages.warning(request, _("No job has the name %(name)s.") % {"name": name or "“”"})
        return redirect("job", job_id)
    try:
        chains.add(job_id, successor.pk, overlap=request.POST.get("overlap", ""), made_by=made_by)
    except Unknown:
        raise
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        said = _("Job %(name)s starts after this job has ended well.") % {"name": successor.name}
        messages.success(request, said)
    return redirect("job", job_id)


@page
@require_POST
def remove(request: HttpRequest, job_id: int, chain_id: int) -> HttpResponse:
    """Remove a chain."""
    made_by = user_with_permission(request, chains.MAY_CHAIN)
    try:
        chains.remove(chain_id, made_by=made_by)
    except Unknown as unknown:
        messages.warning(request, str(unknown))
    else:
        messages.success(request, _("The chain was removed."))
    return redirect("job", job_id)
