"""The lists over all jobs: jobs, their runs, and their schedules."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from jobs.lifecycle.job import Phase, RunEnd, StartMethod
from jobs.lifecycle.schedule import opening_in_words
from jobs.lifecycle.schedule_text import window_in_words
from jobs.models import Job
from jobs.queries.few_choices import offer_few
from jobs.queries.jobs.lines import job_lines
from jobs.queries.jobs.runs import MARKS, RUNNING, RunFilter, RunKey, RunLine, RunMark, list_runs, mark_runs
from jobs.queries.jobs.schedules import MOST, ScheduleLine, list_schedules
from jobs.ui import screens
from jobs.ui.pages import page
from jobs.verbs import schedules as schedule_verbs
from jobs.verbs.control import MAY_CONTROL
from jobs.words.explanations import explain_end
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.models.words import named_with, words_in
from nodes.web import formats
from nodes.web.pages import name_of_who_may

_JOBS_A_PAGE: Final = 50
# Each row of the grid has up to 30 links.
_ROWS_OF_GRID: Final = 30
_TONES: Final[Mapping[str, str]] = {
    RunEnd.FINISHED: "indexed",
    RunEnd.HELD: "excluded",
    RunEnd.DOCUMENT_LIMIT: "excluded",
    RunEnd.ABORTED: "gone",
    RunEnd.ERROR: "failed",
}
# The key to the colours of the grid.
_RESULTS_BY_TONE: Final = {
    "indexed": gettext_lazy("finished"),
    "working": gettext_lazy("running"),
    "excluded": gettext_lazy("stopped at a limit, or removals held back"),
    "gone": gettext_lazy("aborted"),
    "failed": gettext_lazy("failed"),
}
# Effects of a window that opens while a run lasts.
_OVERLAPS: Final = {
    StartMethod.WINDOW_BEGIN: gettext_lazy("Skip: a window that opens during a run starts nothing."),
    StartMethod.WINDOW_INSIDE: gettext_lazy("Repeat: after a run, the job starts again while a window is open."),
}


class JobFilterForm(forms.Form):
    """The filters of the list of jobs, as parameters of its address."""

    use_required_attribute = False

    name = forms.CharField(required=False, max_length=200, label=gettext_lazy("Words of the name"))
    phase = forms.ChoiceField(
        choices=[
            ("", gettext_lazy("all")),
            ("running", gettext_lazy("running")),
            ("idle", gettext_lazy("not running")),
        ],
        required=False,
        label=gettext_lazy("State"),
    )
    after = forms.CharField(required=False, max_length=200, widget=forms.HiddenInput)

    def as_query(self) -> dict[str, str]:
        return {name: self.cleaned_data[name] for name in ("name", "phase") if self.cleaned_data[name]}


class RunFilterForm(forms.Form):
    """The filters of the list of runs, as parameters of its address."""

    use_required_attribute = False

    job = forms.ModelChoiceField(
        Job.objects.all(), required=False, label=gettext_lazy("Job"), empty_label=gettext_lazy("all jobs")
    )
    end = forms.ChoiceField(
        choices=[
            ("", gettext_lazy("any")),
            (RUNNING, gettext_lazy("running")),
            *((end.value, explain_end(end)) for end in RunEnd),
        ],
        required=False,
        label=gettext_lazy("Result"),
    )
    after = forms.RegexField(r"^[0-9]{1,17}\.[0-9]{1,18}$", required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_few(self.fields["job"], chosen=[self.data.get("job", "")])  # type: ignore[arg-type]  # a choice of rows

    def as_filter(self) -> RunFilter:
        """Return the filter of a valid form."""
        wanted = self.cleaned_data
        return RunFilter(job_id=wanted["job"].pk if wanted["job"] else None, end=wanted["end"], after=self._key())

    def as_query(self) -> dict[str, str]:
        wanted = self.cleaned_data
        job = {"job": str(wanted["job"].pk)} if wanted["job"] else {}
        return job | ({"end": wanted["end"]} if wanted["end"] else {})

    def _key(self) -> RunKey | None:
        micros, _point, number = self.cleaned_data["after"].partition(".")
        if not number:
            return None
        return RunKey(dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=int(micros)), int(number))


@page
@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    """Show all jobs by name, a page at a time."""
    now = read_clock()
    shown, context = _page_of_jobs(request, size=_JOBS_A_PAGE)
    marks = mark_runs([job.pk for job in shown])
    rows = [{**screens.job_row(line, now=now), "marks": _marks(marks[line.id])} for line in job_lines(shown, now=now)]
    return render(request, "ui/jobs.html", {**context, "screen": {"jobs": rows}, "has_marks": True})


@page
@require_safe
def run_grid(request: HttpRequest) -> HttpResponse:
    """Show the last runs of each job as a row of cells, the jobs by name."""
    shown, context = _page_of_jobs(request, size=_ROWS_OF_GRID)
    marks = mark_runs([job.pk for job in shown])
    rows = [
        {"key": job.pk, "job": job.name, "address": reverse("job", args=[job.pk]), "marks": _marks(marks[job.pk])}
        for job in shown
    ]
    return render(request, "ui/run_grid.html", {**context, "rows": rows, "tones": _RESULTS_BY_TONE, "most": MARKS})


def _page_of_jobs(request: HttpRequest, *, size: int) -> tuple[list[Job], dict[str, Any]]:
    """Return the jobs of one page of a list by name, and the form and the links of that list."""
    form = JobFilterForm(request.GET)
    found = list(_jobs_of(form)[: size + 1])
    shown = found[:size]
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        if len(found) > size:
            context["next_query"] = urlencode({**form.as_query(), "after": shown[-1].name})
        context["first_query"] = urlencode(form.as_query()) or "all" if form.cleaned_data["after"] else ""
    return shown, context


def _marks(marks: Sequence[RunMark]) -> list[Mapping[str, str]]:
    return [_mark(mark, marks) for mark in marks]


def _mark(mark: RunMark, others: Sequence[RunMark]) -> Mapping[str, str]:
    """Return a mark: its colour is the result, its size the share of the documents of the largest run."""
    most = max(other.documents for other in others)
    result = explain_end(mark.run_end) if mark.is_over else _("running")
    is_failed = 0 < mark.documents == mark.failed
    return {
        "address": reverse("run", args=[mark.id]),
        "tone": ("failed" if is_failed else _TONES.get(mark.run_end, "quiet")) if mark.is_over else "working",
        "size": str(1 + round(7 * mark.documents / most)) if most else "1",
        "says": _("run %(run)d: %(result)s, %(n)s documents")
        % {
            "run": mark.run_no,
            "result": _("%(result)s, all failed") % {"result": result} if is_failed else result,
            "n": formats.number(mark.documents),
        },
        "started": f"{mark.started_at.astimezone(dt.UTC):%Y-%m-%d %H:%M}",
    }


def _jobs_of(form: JobFilterForm) -> "QuerySet[Job]":
    jobs = Job.objects.order_by("name")
    if not form.is_valid():
        return jobs
    wanted = form.cleaned_data
    if words := words_in(wanted["name"]):
        jobs = named_with(jobs, words)
    if wanted["phase"] == "running":
        jobs = jobs.exclude(phase=Phase.INACTIVE)
    elif wanted["phase"] == "idle":
        jobs = jobs.filter(phase=Phase.INACTIVE)
    return jobs.filter(name__gt=wanted["after"]) if wanted["after"] else jobs


@page
@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """Show the runs of all jobs, the newest first."""
    now = read_clock()
    form = RunFilterForm(request.GET)
    wanted = form.as_filter() if form.is_valid() else RunFilter()
    found = list_runs(wanted)
    context: dict[str, Any] = {"form": form, "rows": [run_row(line, now=now) for line in found.lines]}
    if form.is_valid():
        if found.next_key is not None:
            context["next_query"] = urlencode({**form.as_query(), "after": _written(found.next_key)})
        context["first_query"] = urlencode(form.as_query()) or "all" if wanted.after is not None else ""
    return render(request, "ui/runs.html", context)


@page
@require_safe
def schedules(request: HttpRequest) -> HttpResponse:
    """Show the jobs with a schedule, the next start first."""
    now = read_clock()
    found = list_schedules(now=now)
    context = {
        "rows": [_schedule_row(line, now=now) for line in found.lines],
        "more": _("Only the %(n)d schedules that are checked next are shown.") % {"n": MOST} if found.has_more else "",
    }
    return render(request, "ui/schedules.html", context)


@page
@require_POST
def pause_schedule(request: HttpRequest) -> HttpResponse:
    """Pause the schedule of a job, or all of them."""
    return _change_schedules(request, one=schedule_verbs.pause, every=schedule_verbs.pause_all, said=_("Paused"))


@page
@require_POST
def resume_schedule(request: HttpRequest) -> HttpResponse:
    """Resume the schedule of a job, or all of them."""
    return _change_schedules(request, one=schedule_verbs.resume, every=schedule_verbs.resume_all, said=_("Resumed"))


def _change_schedules(
    request: HttpRequest, *, one: Callable[..., Job], every: Callable[..., int], said: str
) -> HttpResponse:
    made_by, now = name_of_who_may(request, MAY_CONTROL), read_clock()
    named = request.POST.get("job", "")
    try:
        if named == "all":
            messages.success(
                request, _("%(said)s schedules: %(n)d.") % {"said": said, "n": every(made_by=made_by, now=now)}
            )
        elif named.isdecimal() and len(named) < 19:
            job = one(int(named), made_by=made_by, now=now)
            messages.success(request, _("%(said)s: the schedule of %(job)s.") % {"said": said, "job": job.name})
    except NotDone as refused:
        messages.warning(request, str(refused))
    return redirect("schedules")


def _written(key: RunKey) -> str:
    return f"{int(key.started_at.timestamp() * 1_000_000)}.{key.id}"


def run_row(line: RunLine, *, now: dt.datetime) -> Mapping[str, object]:
    """Return a run in words."""
    counts = line.counts
    return {
        "key": line.id,
        "job": line.job_name,
        "address": reverse("job", args=[line.job_id]),
        "run": _("run %(run)d") % {"run": line.run_no},
        "run_address": reverse("run", args=[line.id]),
        "started": formats.moment(line.started_at, now=now),
        "by": line.started_by,
        "ended": formats.moment(line.ended_at, now=now) if line.ended_at else "",
        "took": formats.duration((line.ended_at or now) - line.started_at),
        "result": explain_end(line.run_end) if line.ended_at else _("running"),
        "tone": ("failed" if line.all_failed else _TONES.get(line.run_end, "quiet")) if line.ended_at else "working",
        "reason": line.reason,
        "processed": formats.number(counts.processed),
        "indexed": formats.number(counts.indexed),
        "failed": formats.number(counts.failed),
        "deleted": formats.number(counts.deleted),
        "size": formats.size(counts.bytes),
    }


def _schedule_row(line: ScheduleLine, *, now: dt.datetime) -> Mapping[str, object]:
    is_paused = line.paused_at is not None
    coming = [opening_in_words(opening, window) for opening, window in line.coming]
    return {
        "key": line.id,
        "job": line.name,
        "address": reverse("job", args=[line.id]),
        "status": line.status,
        "tone": "working" if line.runs else "quiet",
        "next": _("paused") if is_paused else coming[0] if coming else _("never"),
        "until": formats.time_until(line.coming[0][0], now=now) if line.coming and not is_paused else "",
        "later": () if is_paused else coming[1:],
        "windows": [window_in_words(window) for window in line.windows],
        "overlap": _OVERLAPS.get(line.method, ""),
        "missed": formats.moment(line.missed_at, now=now) if line.missed_at else "",
        "paused": formats.moment(line.paused_at, now=now) if line.paused_at else "",
        "paused_by": line.paused_by,
    }
