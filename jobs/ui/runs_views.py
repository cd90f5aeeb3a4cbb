"""The lists of all jobs, and of the runs of all jobs."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import lazy
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from jobs.lifecycle.job import Phase, RunEnd
from jobs.models import Job
from jobs.queries.few_choices import offer_few
from jobs.queries.jobs.all_partitions import job_lines_everywhere
from jobs.queries.jobs.runs import MARKS, RUNNING, RunFilter, RunKey, RunLine, RunMark, list_runs, mark_runs
from jobs.queries.partitions import read_silent
from jobs.ui.job_rows import job_row
from jobs.ui.pages import page
from jobs.ui.partitions_views import at_least
from jobs.words.explanations import explain_end
from nodes.database.clock import read_clock
from nodes.models.word_search import named_with, words_in
from nodes.web import formats
from nodes.web.filters import FilterForm

_JOBS_A_PAGE: Final = 50
# Number of rows on a page of the grid. A row has up to 30 links, so more rows would make the page slow.
_ROWS_OF_GRID: Final = 30
# The colour of each result.
TONES: Final[Mapping[str, str]] = {
    RunEnd.FINISHED: "indexed",
    RunEnd.HELD: "excluded",
    RunEnd.DOCUMENT_LIMIT: "excluded",
    RunEnd.ABORTED: "gone",
    RunEnd.ERROR: "failed",
}
# The legend of the grid: the result that each colour stands for.
_RESULTS_BY_TONE: Final = {
    "indexed": gettext_lazy("finished"),
    "working": gettext_lazy("running"),
    "excluded": gettext_lazy("stopped at a limit, or removals held back"),
    "gone": gettext_lazy("aborted"),
    "failed": gettext_lazy("failed"),
}


class JobFilterForm(FilterForm):
    """The filters of the list of jobs, as parameters of its address."""

    name = forms.CharField(required=False, max_length=200, label=gettext_lazy("Words in the name"))
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


class RunFilterForm(FilterForm):
    """The filters of the list of runs, as parameters of its address."""

    job = forms.ModelChoiceField(
        Job.objects.all(), required=False, label=gettext_lazy("Job"), empty_label=gettext_lazy("all jobs")
    )
    end = forms.ChoiceField(
        choices=[
            ("", gettext_lazy("any")),
            (RUNNING, gettext_lazy("running")),
            *((end.value, lazy(explain_end, str)(end)) for end in RunEnd),
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
    """Show one page of the list of jobs, sorted by name."""
    now = read_clock()
    shown, context = _page_of_jobs(request, size=_JOBS_A_PAGE)
    marks = mark_runs([job.pk for job in shown])
    rows = [
        {**job_row(line, now=now), "marks": _marks(marks[line.id])} for line in job_lines_everywhere(shown, now=now)
    ]
    context |= {"at_least": at_least(read_silent(now=now), now=now)}
    return render(request, "ui/jobs.html", {**context, "screen": {"jobs": rows}, "has_marks": True})


@page
@require_safe
def run_grid(request: HttpRequest) -> HttpResponse:
    """Show the last runs of each job as a row of cells. Jobs are sorted by name."""
    shown, context = _page_of_jobs(request, size=_ROWS_OF_GRID)
    marks = mark_runs([job.pk for job in shown])
    rows = [
        {"key": job.pk, "job": job.name, "address": reverse("job", args=[job.pk]), "marks": _marks(marks[job.pk])}
        for job in shown
    ]
    return render(request, "ui/run_grid.html", {**context, "rows": rows, "tones": _RESULTS_BY_TONE, "most": MARKS})


def _page_of_jobs(request: HttpRequest, *, size: int) -> tuple[list[Job], dict[str, Any]]:
    """Return the jobs of one page of a list that is sorted by name, and the form and the links of this list."""
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
    """
    Return the mark of a run. The colour shows the result. The size shows the documents in relation to the largest run.
    """
    most = max(other.documents for other in others)
    result = explain_end(mark.run_end) if mark.is_over else _("running")
    is_failed = 0 < mark.documents == mark.failed
    return {
        "address": reverse("run", args=[mark.id]),
        "tone": ("failed" if is_failed else TONES.get(mark.run_end, "quiet")) if mark.is_over else "working",
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
    context: dict[str, Any] = {
        "form": form,
        "rows": [run_row(line, now=now) for line in found.lines],
        "at_least": at_least(next((line.silent for line in found.lines if line.silent), ()), now=now),
    }
    if form.is_valid():
        if found.next_key is not None:
            context["next_query"] = urlencode({**form.as_query(), "after": _written(found.next_key)})
        context["first_query"] = urlencode(form.as_query()) or "all" if wanted.after is not None else ""
    return render(request, "ui/runs.html", context)


def _written(key: RunKey) -> str:
    return f"{int(key.started_at.timestamp() * 1_000_000)}.{key.id}"


def run_row(line: RunLine, *, now: dt.datetime) -> Mapping[str, object]:
    """Return the texts of the row of a run."""
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
        "tone": ("failed" if line.all_failed else TONES.get(line.run_end, "quiet")) if line.ended_at else "working",
        "reason": line.reason,
        "processed": formats.number(counts.processed),
        "indexed": formats.number(counts.indexed),
        "failed": formats.number(counts.failed),
        "deleted": formats.number(counts.deleted),
        "size": formats.size(counts.bytes),
    }
