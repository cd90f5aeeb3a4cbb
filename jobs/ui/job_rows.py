"""Parts of several pages: the row of a job, the bar of its documents, and the chart of a rate."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from jobs.lifecycle.job import Guard, Phase
from jobs.lifecycle.table import Transition
from jobs.queries.jobs.lines import JobLine
from jobs.queries.meter import MEAN_OF, STEP, STEPS
from jobs.queue.counting.counters import RunCounts
from jobs.verdicts.causes import Cause
from jobs.words import verdicts
from jobs.words.explanations import explain_end
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.translated_words import translated

# Width and height of the rate chart, in units of SVG. The style sheet stretches the chart.
_WIDTH: Final = 300
_HEIGHT: Final = 60
# Width of the bar of states, in units of SVG. The whole bar stands for all documents.
_BAR: Final = 1000
# Verbs that a list of jobs offers. A job's own page offers all verbs.
_OFTEN: Final = {"start", "pause", "resume", "abort"}
_SHARES: Final = ("indexed", "unchanged", "excluded", "failed", "active")


def job_row(job: JobLine, *, now: dt.datetime) -> dict[str, object]:
    counts = job.counts
    return {
        "key": str(job.id),
        "name": job.name,
        "address": reverse("job", args=[job.id]),
        "actions_address": reverse("job-transition", args=[job.id]),
        "status": translated(job.status),
        "tone": job_tone(job),
        "manifoldcf": job.manifoldcf_status,
        "reason": _why(job, now=now),
        "run": _run_in_words(job, now=now),
        "processed": formats.number(counts.processed),
        "waiting": formats.number(counts.pending),
        "failed": formats.number(counts.failed),
        "indexed": formats.number(counts.indexed + counts.unchanged),
        "rate": formats.rate(job.rate),
        "progress": str(counts.processed),
        "whole_amount": str(max(1, counts.processed + counts.waiting)),
        "actions": [button_row(row) for row in job.allowed if row.verb in _OFTEN],
    }


def _why(job: JobLine, *, now: dt.datetime) -> str:
    """Return the reason why the job waits or has failed, for a line of a list."""
    if job.hold is not None and job.hold.cause not in {Cause.STARTING, Cause.ENDING}:
        return verdicts.sentence(job.hold, now=now)
    if job.runs and job.latest.is_failing:
        return verdicts.failures(job.latest)
    return job.reason or failed_seeds(job)


def failed_seeds(job: JobLine) -> str:
    return _("No seed could be read (%(code)s).") % {"code": job.failed_seeds} if job.failed_seeds else ""


def job_tone(job: JobLine) -> str:
    state = job.state
    if state.phase == Phase.INACTIVE:
        if state.guard == Guard.WAITING:
            return "failed"
        return "failed" if job.last_run_failed else "quiet"
    if job.latest.is_failing:
        return "failed"
    if state.is_halted:
        return "excluded"
    if not state.connectors_ready:
        return "failed"
    return "working" if state.phase == Phase.ACTIVE else "waiting"


def button_row(row: Transition) -> Record:
    return {
        "key": row.verb,
        "label": translated(row.label),
        "tone": "primary" if row.verb in {"start", "resume"} else "plain",
    }


def _run_in_words(job: JobLine, *, now: dt.datetime) -> str:
    if not job.started_at:
        return _("never run")
    facts = {"run": job.run_no, "started": formats.moment(job.started_at, now=now), "end": explain_end(job.run_end)}
    if job.runs or not job.ended_at:
        facts["duration"] = formats.duration(now - job.started_at)
        return _("run %(run)d, for %(duration)s") % facts
    facts["duration"] = formats.duration(job.ended_at - job.started_at)
    if not facts["end"]:
        return _("run %(run)d, started %(started)s, took %(duration)s") % facts
    return _("run %(run)d, started %(started)s, %(end)s after %(duration)s") % facts


def counts_cells(counts: RunCounts) -> Record:
    whole = counts.processed + counts.waiting
    bar: dict[str, object] = {}
    at = 0.0
    for name in _SHARES:
        width = _BAR * getattr(counts, name) / whole if whole else 0.0
        # A part has a least width, so that a few documents among very many are visible.
        bar[f"{name}_at"], bar[f"{name}_width"] = f"{at:.1f}", f"{max(width, 4.0) if width else 0:.1f}"
        at += width
    return {
        "processed": formats.number(counts.processed),
        "waiting": formats.number(counts.pending),
        "active": formats.number(counts.active),
        "indexed": formats.number(counts.indexed),
        "unchanged": formats.number(counts.unchanged),
        "failed": formats.number(counts.failed),
        "excluded": formats.number(counts.excluded),
        "deleted": formats.number(counts.deleted),
        "whole": formats.number(whole),
        **bar,
    }


def rate_cells(history: Sequence[float | None]) -> Record:
    known = [(step, rate) for step, rate in enumerate(history) if rate is not None]
    peak = max((rate for _step, rate in known), default=0.0)
    scale = (_HEIGHT - 2) / peak if peak else 0.0
    width = _WIDTH / (STEPS - 1)
    points = [f"{step * width:.1f},{_HEIGHT - 1 - rate * scale:.1f}" for step, rate in known]
    first = known[0][0] * width if known else 0.0
    last = known[-1][0] * width if known else 0.0
    return {
        "line": " ".join(points),
        "area": " ".join([f"{first:.1f},{_HEIGHT}", *points, f"{last:.1f},{_HEIGHT}"]),
        "picture": _("the last %(span)s, at most %(peak)s (means of %(seconds)d s)")
        % {"span": _span(known[0][0]), "peak": formats.rate(peak), "seconds": MEAN_OF}
        if known
        else _("no rate is known yet"),
    }


def _span(first: int) -> str:
    """Return the duration from a step of the chart until now, in words."""
    span = dt.timedelta(seconds=(STEPS - first) * STEP)
    return formats.duration(span) if first else _("%(minutes)d minutes") % {"minutes": round(span.total_seconds() / 60)}


def search_lag(behind_since: dt.datetime | None, *, now: dt.datetime) -> str:
    """Return the time by which the search index is behind the crawl, in words."""
    if behind_since is None:
        return _("up to date")
    return _("%(duration)s behind") % {"duration": formats.duration(now - behind_since)}


def documents_address(**filters: str | int) -> str:
    """Return the address of the list of documents with these filters."""
    return f"{reverse('documents')}?{urlencode(filters)}"
