"""The pages of removals of a job, which wait for approval or can be restored, and the page of deleted jobs."""

from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from jobs.models import DeletedJob, Restoration
from jobs.queries.jobs.removals import OutputRemovals, Question, RunRemovals, read_removals_everywhere
from jobs.settings.table import KEEP_REMOVED
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
from jobs.verbs import restoring_everywhere as restoring
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused
from nodes.settings.running import current
from nodes.web import formats
from nodes.web.pages import user_with_permission

# Largest number of digits of a run number, and of deleted jobs on a page.
_LONGEST: Final = 10
_SHOWN: Final = 200

_STATES: Final = {
    "gone": gettext_lazy("no longer exists"),
    "empty": gettext_lazy("has no links in scope"),
    "redirects": gettext_lazy("redirects elsewhere"),
    "replaced": gettext_lazy("links to none of its earlier documents"),
    "changed": gettext_lazy("links to other documents"),
}


@page
@require_safe
def removals(request: HttpRequest, job_id: int) -> HttpResponse:
    found = read_removals_everywhere(job_id)
    if found is None:
        raise Http404(_("Job %(id)d does not exist.") % {"id": job_id})
    is_least = bool(found.silent)
    context = {
        "job": found.job,
        "silent": silent_partitions(found.silent, now=read_clock()),
        "question": found.question,
        "asked": _asked(found.question) if found.question else {},
        "next": reverse("job", args=[job_id]),
        "days": current()[KEEP_REMOVED],
        "runs": [{"run_no": run.run_no, **_counted(run, is_least=is_least)} for run in found.runs],
        "outputs": [
            {"id": one.output_id, "name": one.output, "why": _order_in_words(one), **_counted(one, is_least=is_least)}
            for one in found.outputs
        ],
        "restorations": [_restoration_in_words(one) for one in found.restorations],
    }
    return render(request, "ui/removals.html", context)


@page
@require_POST
def restore(request: HttpRequest, job_id: int) -> HttpResponse:
    """Restore the removals of a run."""
    name = user_with_permission(request, "jobs.control_job")
    run = request.POST.get("run", "")
    output = request.POST.get("output", "")
    asked: Any = {"made_by": name, "now": read_clock()}
    try:
        if output.isdecimal() and len(output) < _LONGEST:
            restoring.restore_output(job_id, int(output), **asked).checked()
            said = _("Workers are restoring the output.")
        else:
            if not run.isdecimal() or len(run) >= _LONGEST:
                raise Http404(_("This action does not exist. Reload the page."))
            wanted = restoring.restore(job_id, run_no=int(run), **asked).checked()
            said = _("Workers are restoring the removals of run %(run)d.") % {"run": wanted[0].run_no}
    except (Refused, Invalid) as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(request, said)
    return redirect("job-removals", job_id)


@page
@require_safe
def deleted_jobs(request: HttpRequest) -> HttpResponse:
    now = read_clock()
    found = list(DeletedJob.objects.defer("rows").order_by("-deleted_at")[: _SHOWN + 1])
    rows = [{"id": one.pk, "name": one.name, "at": formats.moment(one.deleted_at, now=now)} for one in found[:_SHOWN]]
    more = _("Only the newest %(n)s are shown.") % {"n": formats.number(_SHOWN)} if len(found) > _SHOWN else ""
    return render(request, "ui/deleted_jobs.html", {"jobs": rows, "more": more, "days": current()[KEEP_REMOVED]})


@page
@require_POST
def restore_deleted(request: HttpRequest, job_id: int) -> HttpResponse:
    """Restore a deleted job."""
    name = user_with_permission(request, "jobs.delete_job")
    try:
        asked = restoring.restore_deleted(job_id, made_by=name, now=read_clock())
    except Refused as refused:
        messages.warning(request, str(refused))
        return redirect("deleted-jobs")
    for problem in asked.problems:
        messages.warning(request, problem)
    messages.success(request, _("The job is restored. Workers are restoring its documents."))
    return redirect("job", job_id)


def _counted(removed: RunRemovals | OutputRemovals, *, is_least: bool) -> dict[str, object]:
    counted = formats.number(removed.documents)
    return {
        "documents": _("at least %(n)s") % {"n": counted} if removed.is_least or is_least else counted,
        "at": formats.moment(removed.last_at, now=read_clock()),
    }


def _order_in_words(removed: OutputRemovals) -> str:
    return _("removed from the job") if removed.was_taken_away else _("cleared")


def _restoration_in_words(one: Restoration) -> str:
    facts = {
        "who": one.asked_by,
        "run": one.run_no,
        "at": formats.moment(one.asked_at, now=read_clock()),
        "n": formats.number(one.restored),
        "unread": formats.number(one.unread),
        "why": one.refused,
    }
    if one.output_id is None:
        said = _("%(at)s: %(who)s restored the removals of run %(run)d. Restored documents: %(n)s.") % facts
    else:
        said = _("%(at)s: %(who)s restored an output. Restored documents: %(n)s.") % facts
    if one.partition:
        said = _("Partition %(name)s: %(said)s") % {"name": one.partition, "said": said}
    if one.unread:
        said += (
            " "
            + _("The texts of %(unread)s more documents are not stored. The next run fetches these documents again.")
            % facts
        )
    if one.refused:
        return said + " " + _("An output refused: %(why)s") % facts
    return said if one.ended_at else said + " " + _("The restoration is in progress.")


def _asked(question: Question) -> dict[str, object]:
    """Return the question whether to remove documents, in words."""
    now = read_clock()
    return {
        "at": formats.moment(question.asked_at, now=now),
        "leaving": formats.number(question.leaving),
        "every": formats.number(question.leaving + question.staying),
        "share": formats.share(question.leaving, question.leaving + question.staying),
        "parents": [
            {**parent, "became": _STATES.get(parent["state"], parent["state"])}
            for parent in (question.parents or question.seeds)
        ],
    }
