"""The page that explains one address: the gates in order, in each job that knows it."""

import uuid
from collections.abc import Callable
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.explain.actions import MAY_EDIT_JOB
from jobs.explain.all_partitions import explain_everywhere
from jobs.explain.screens import address_of, explained_screen
from jobs.models import Seed
from jobs.ui.partitions_views import silent_partitions
from jobs.verbs import documents, seed_lists
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotDone, Refused, Unknown
from nodes.permissions import May
from nodes.web.pages import page_for, user_with_permission

page: Final = page_for("jobs.view_queueitem")
# Largest number of digits in the number of a job.
_DIGITS: Final = 18


@page
@require_safe
def explained(request: HttpRequest) -> HttpResponse:
    """Show the form. If it was sent with an address, also show the gates of this address."""
    asked = {"url": request.GET.get("url", ""), "job": request.GET.get("job", "")}
    context: dict[str, object] = {"asked": asked, "problems": {}}
    if "url" in request.GET:
        now = read_clock()
        try:
            answer = explain_everywhere(asked["url"], job_id=_number(asked["job"]), now=now)
        except Invalid as invalid:
            context["problems"] = invalid.problems
        except Unknown as unknown:
            context["problems"] = {"job": [str(unknown)]}
        else:
            context["screen"] = explained_screen(answer.found, may=_may(request), now=now)
            context["partition"] = answer.partition
            context["silent"] = silent_partitions(answer.silent, now=now)
    return render(request, "explain/explained.html", context)


@page
@require_POST
def fetch_again(request: HttpRequest) -> HttpResponse:
    """Make the document of a form due immediately."""
    name = user_with_permission(request, documents.MAY_FETCH)
    return _change(
        request,
        lambda job, document: documents.fetch_again(job, document=document, made_by=name, now=read_clock()),
        done=_("%(url)s is due now. If the job is not running, start it."),
    )


@page
@require_POST
def forget(request: HttpRequest) -> HttpResponse:
    """Remove the document of a form from the queue."""
    name = user_with_permission(request, documents.MAY_FORGET)
    return _change(
        request,
        lambda job, document: documents.forget(job, document=document, made_by=name, now=read_clock()),
        done=_("%(url)s is forgotten."),
    )


@page
@require_POST
def add_seed(request: HttpRequest) -> HttpResponse:
    """Add an address to the last seed of a job."""
    name = user_with_permission(request, MAY_EDIT_JOB)
    url, job_id = request.POST.get("url", ""), _id_in(request.POST.get("job", ""))
    seed = Seed.objects.filter(job=job_id, removed_at=None).order_by("pk").last() if job_id is not None else None
    if seed is None:
        raise Http404(_("This job has no seed. Reload the page."))
    try:
        seed_lists.change_addresses(seed.pk, text=url, append=True, made_by=name, now=read_clock())
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(
            request,
            _("%(url)s is a seed of %(job)s now. Each run reads it.") % {"url": url.strip(), "job": seed.job.name},
        )
    return redirect(address_of(url, job=job_id))


def _change(request: HttpRequest, change: Callable[[int, uuid.UUID], documents.Changed], *, done: str) -> HttpResponse:
    """Change the document of a form, and return to its explanation."""
    job_id = _id_in(request.POST.get("job", ""))
    try:
        document = uuid.UUID(hex=request.POST.get("document", ""))
    except ValueError:
        document = None
    if job_id is None or document is None:
        raise Http404(_("This document does not exist. Reload the page."))
    try:
        url = change(job_id, document).identifier
    except Refused as refused:
        url = request.POST.get("url", "")
        messages.warning(request, str(refused))
    else:
        messages.success(request, done % {"url": url})
    return redirect(address_of(url, job=job_id))


def _id_in(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return int(text) if is_number else None


def _may(request: HttpRequest) -> May:
    user: Any = request.user
    return user.has_perm  # type: ignore[no-any-return]


def _number(text: str) -> int | None:
    """Return the number of a job; None without one."""
    if not text:
        return None
    found = _id_in(text)
    if found is None:
        raise Invalid({"job": [_("This must be the number of a job.")]})
    return found
