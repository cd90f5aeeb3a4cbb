"""The page of operations on many documents of a job: the filter, the preview, and operations with their progress."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.bulk import other_partitions, verbs
from jobs.bulk.screens import operations_screen, operations_topic
from jobs.models import Job
from jobs.queue.chosen_documents import Operation
from jobs.ui.partitions_views import silent_partitions
from jobs.words.documents import STATE_WORDS
from nodes.database.clock import read_clock
from nodes.errors import NotDone, Unknown
from nodes.permissions import May
from nodes.web import formats
from nodes.web.pages import page_for, user_with_permission
from nodes.web.translated_words import translated

page: Final = page_for("jobs.view_job")


@page
@require_safe
def operations(request: HttpRequest, job_id: int) -> HttpResponse:
    """Show the form, the preview of its filter, and the operations of the job."""
    job = _job(job_id)
    asked = {name: request.GET.get(name, "").strip() for name in ("operation", *verbs.FIELDS)}
    preview, problem = None, ""
    if asked["operation"]:
        filter_: dict[str, Any] = {name: asked[name] for name in verbs.FIELDS}
        for name in ("codes", "documents"):
            filter_[name] = asked[name].replace(",", " ").split()
        if asked["fetched_before"] and asked["fetched_before"][-1:].isdigit() and "+" not in asked["fetched_before"]:
            # A browser sends a moment without a time zone. Times on pages are in UTC.
            filter_["fetched_before"] += "+00:00"
        try:
            preview = verbs.preview(asked["operation"], job.pk, filter_, may=_may(request))
        except NotDone as refused:
            problem = str(refused)
    context = {
        "job": job,
        "asked": asked,
        "operations": [
            (one.value, translated(verbs.EFFECTS[one])) for one in Operation if _may(request)(verbs.PERMISSIONS[one])
        ],
        "states": STATE_WORDS.items(),
        "chosen": len(asked["documents"].split(",")) if asked["documents"] else 0,
        "preview": preview,
        "number": formats.number(preview.documents) if preview else "",
        "effect": translated(verbs.EFFECTS[preview.operation]) if preview else "",
        "problem": problem,
        "silent": silent_partitions(preview.silent, now=read_clock()) if preview else [],
        "screen": operations_screen(job.pk),
        "topic": operations_topic(job.pk),
    }
    return render(request, "bulk/operations.html", context)


@page
@require_POST
def start(request: HttpRequest, job_id: int) -> HttpResponse:
    """Schedule the operation of a preview."""
    name = user_with_permission(request, "jobs.control_job")
    try:
        made = verbs.start(request.POST.get("token"), may=_may(request), made_by=name)
    except NotDone as refused:
        messages.warning(request, str(refused))
        # The page shows a new preview of the same filter.
        return redirect(f"{reverse('job-bulk', args=[job_id])}?{request.POST.get('asked', '')}")
    messages.success(request, _("Task %(id)d is scheduled.") % {"id": made.task})
    return redirect("job-bulk", job_id)


@page
@require_POST
def cancel(request: HttpRequest, job_id: int, operation_id: int) -> HttpResponse:
    """End an operation."""
    name = user_with_permission(request, "jobs.control_job")
    try:
        other_partitions.cancel_all(operation_id, may=_may(request), made_by=name)
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(request, _("Operation %(id)d ends after its present chunk.") % {"id": operation_id})
    return redirect("job-bulk", job_id)


def _job(job_id: int) -> Job:
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise Unknown("job", job_id)
    return job


def _may(request: HttpRequest) -> May:
    user: Any = request.user
    return user.has_perm  # type: ignore[no-any-return]
