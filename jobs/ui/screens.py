"""The pages of the crawl in words; see `nodes.web.screens` for the structure of a screen."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.attention.lines import AttentionLine
from jobs.attention.rows import rows as rows_of_attention
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Guard, Phase
from jobs.lifecycle.table import Transition
from jobs.models import Outcome
from jobs.queries.hosts.lines import HostStatus
from jobs.queries.jobs.lines import JobLine
from jobs.queries.jobs.page import CodeCount, EventLine, HostLine, JobPage
from jobs.queries.jobs.schedules import ScheduleLine
from jobs.queries.meter import MEAN_OF, STEP, STEPS
from jobs.queries.overview import OverviewPage
from jobs.queue.counting.counters import RunCounts
from jobs.traps.quarantine import TRAP
from jobs.ui import job_diagram
from jobs.ui.nodes_screen import node_row
from jobs.ui.partitions_views import at_least
from jobs.ui.progress_screen import progress_screen
from jobs.verdicts.causes import Cause, Verdict, is_of_job
from jobs.words import charges, failing_groups, forecasts, freshness, verdicts
from jobs.words.codes import explain_code
from jobs.words.documents import document_state
from jobs.words.explanations import explain_end
from nodes.lifecycle import NodeKind
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.words import translated

# Coordinates of the rate chart, which the style sheet stretches.
_WIDTH: Final = 300
_HEIGHT: Final = 60
# Width of the bar of states, for all documents.
_BAR: Final = 1000
# Actions in a list of jobs. A job's own page offers all.
_OFTEN: Final = {"start", "pause", "resume", "abort"}
_SHARES: Final = ("indexed", "unchanged", "excluded", "failed", "active")


def overview_screen(page: OverviewPage, attention: Iterable[AttentionLine], *, now: dt.datetime) -> Record:
    return {
        "attention": rows_of_attention(attention, now=now),
        **_headline(page, now=now),
        **_picture(page.history),
        **_counts(page.totals),
        "at_least": at_least(page.silent, now=now),
        "rate": formats.rate(page.rate if page.verdict.is_running else 0.0),
        "rate_says": _("documents per second"),
        "states": _("Documents of the active runs") if page.verdict.is_running else _("Documents of the last runs"),
        "jobs_running": formats.number(sum(job.runs for job in page.jobs)),
        "managers": formats.number(sum(node.kind == NodeKind.MANAGER for node in page.nodes)),
        "workers": formats.number(sum(node.kind == NodeKind.WORKER for node in page.nodes)),
        "search_lag": search_lag(page.search_behind_since, now=now),
        "jobs": sorted((job_row(job, now=now) for job in page.jobs), key=lambda row: row["tone"] != "failed"),
        **progress_screen(page.progress, now=now),
        **charges.cells(page.charges),
        "next_starts": [_start_row(line, now=now) for line in page.next_starts],
        "nodes": [node_row(node, now=now) for node in page.nodes],
    }


def _start_row(line: ScheduleLine, *, now: dt.datetime) -> Record:
    starts_at = line.coming[0][0]
    return {
        "key": str(line.id),
        "name": line.name,
        "address": reverse("job", args=[line.id]),
        "at": formats.moment(starts_at, now=now),
        "in": formats.time_until(starts_at, now=now),
    }


def job_screen(page: JobPage, *, now: dt.datetime) -> Record:
    job = page.job
    failing = [code for code in page.codes if code.outcome == Outcome.FAILED]
    others = [code for code in page.codes if code.outcome != Outcome.FAILED]
    return {
        **job_row(job, now=now),
        **_picture(job.history),
        **_counts(job.counts),
        "at_least": at_least(page.silent, now=now),
        "says": " ".join(
            filter(None, (_failed_seeds(job), verdicts.sentence(page.verdict, now=now, line=_example(page))))
        ),
        "remedy": _("Repair the cause, then start the job.") if job.last_run_failed else verdicts.remedy(page.verdict),
        "since": _since(page.verdict, now=now),
        "troubles": [failing_groups.row(group, now=now) for group in page.failing],
        "questions": [{"key": "removals", "address": reverse("job-removals", args=[job.id])}]
        if job.state.guard == Guard.WAITING
        else [],
        "removals": [_button(row) for row in job.allowed if row.verb == "delete"],
        "rate": formats.rate(job.rate if job.runs else job.average),
        "rate_says": _("documents per second") if job.runs else _("documents per second, on average"),
        "size": formats.size(job.counts.bytes),
        "left": _time_left(page, now=now),
        "forecast": forecasts.sentence(page.forecast, closed=page.closed_hosts, now=now),
        "share": formats.share(job.counts.processed, job.counts.processed + job.counts.waiting),
        **charges.cells(page.charges),
        "hosts_in_all": _known_hosts(page),
        "hosts_hidden": _hidden_hosts(page),
        "freshness": [freshness.goal_row(line) for line in page.freshness.goals],
        "slow_hosts": [freshness.slow_host_row(host) for host in page.freshness.slow_hosts],
        "failing": [_code_row(job, code) for code in failing],
        "may_send_back": any(code.outcome == Outcome.FAILED or code.code in {"DENIED", TRAP} for code in page.codes),
        "others": [_code_row(job, code) for code in others],
        "hosts": [_host_row(job, host, now=now) for host in page.hosts],
        **job_diagram.cells(page, tone=_job_tone(job), now=now),
        "events": [_event_row(event, now=now) for event in page.events],
    }


def _example(page: JobPage) -> HostStatus | None:
    """Return a host that the verdict on the job is about; None if the verdict is about the whole job."""
    if page.job.hold is not None:
        return None
    return next((host.host for host in page.hosts if host.verdict.cause == page.verdict.cause), None)


def _since(verdict: Verdict, *, now: dt.datetime) -> str:
    since = verdict.failing.failing_since if verdict.failing else verdict.since
    return _("Since %(moment)s UTC.") % {"moment": formats.moment(since, now=now)} if since else ""


def search_lag(behind_since: dt.datetime | None, *, now: dt.datetime) -> str:
    """Return the lag of the search index behind the crawl."""
    if behind_since is None:
        return _("up to date")
    return _("%(duration)s behind") % {"duration": formats.duration(now - behind_since)}


# --- Parts of several pages ----------------------------------------------------------------------


def _counts(counts: RunCounts) -> Record:
    whole = counts.processed + counts.waiting
    bar: dict[str, object] = {}
    at = 0.0
    for name in _SHARES:
        width = _BAR * getattr(counts, name) / whole if whole else 0.0
        # A few documents of very many must still be visible.
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


def _picture(history: Sequence[float | None]) -> Record:
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
    """Return the time from a step of the chart until now."""
    span = dt.timedelta(seconds=(STEPS - first) * STEP)
    return formats.duration(span) if first else _("%(minutes)d minutes") % {"minutes": round(span.total_seconds() / 60)}


def job_row(job: JobLine, *, now: dt.datetime) -> dict[str, object]:
    counts = job.counts
    return {
        "key": str(job.id),
        "name": job.name,
        "address": reverse("job", args=[job.id]),
        "actions_address": reverse("job-transition", args=[job.id]),
        "status": translated(job.status),
        "tone": _job_tone(job),
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
        "actions": [_button(row) for row in job.allowed if row.verb in _OFTEN],
    }


def _why(job: JobLine, *, now: dt.datetime) -> str:
    """Return the reason for which the job waits or fails, for a line of a list."""
    if job.hold is not None and job.hold.cause not in {Cause.STARTING, Cause.ENDING}:
        return verdicts.sentence(job.hold, now=now)
    if job.runs and job.latest.is_failing:
        return verdicts.failures(job.latest)
    return job.reason or _failed_seeds(job)


def _failed_seeds(job: JobLine) -> str:
    return _("No seed could be read (%(code)s).") % {"code": job.failed_seeds} if job.failed_seeds else ""


def _job_tone(job: JobLine) -> str:
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


def _button(row: Transition) -> Record:
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


# --- The overview --------------------------------------------------------------------------------


def _headline(page: OverviewPage, *, now: dt.datetime) -> Record:
    """Return the verdict on the crawl: a headline, and the number of hosts by cause."""
    crawl = page.verdict
    verdict, tone = crawl.verdict, verdicts.tone(crawl.verdict)
    if not crawl.is_running:
        headline, detail = _("No job is running"), _("Start a job, or create one.")
    elif verdict.cause in _STAND_STILL:
        headline, detail = _("No progress"), verdicts.sentence(verdict, now=now)
    elif verdict.failing is not None:
        headline, detail = _("Failing"), f"{verdicts.failures(verdict.failing)} {_queue(page)}"
    elif crawl.is_moving:
        headline, tone, detail = _moving(page), "working", _queue(page)
    elif verdict.cause == Cause.NOT_DUE and not crawl.hosts:
        headline, tone, detail = _("No document is due"), "waiting", verdicts.sentence(verdict, now=now)
    elif is_of_job(verdict.cause):
        brief = verdicts.brief(verdict)
        headline, detail = f"{brief[:1].upper()}{brief[1:]}", verdicts.sentence(verdict, now=now)
    else:
        headline, tone, detail = _("Waiting"), "waiting", _queue(page)
    return {"headline": headline, "headline_detail": detail, "headline_tone": tone}


def _moving(page: OverviewPage) -> str:
    """Return the rate, and the cause that holds most hosts."""
    said = _("Moving: %(rate)s/s") % {"rate": formats.rate(page.rate)}
    cause, number = next(iter((page.verdict.hosts or {}).items()), (None, 0))
    if cause is None:
        return said
    held = f"{verdicts.cause_in_brief(cause)} {page.policies.get(cause, '')}".rstrip()
    hosts = ngettext("%(n)s host %(held)s", "%(n)s hosts %(held)s", number) % {
        "n": formats.number(number),
        "held": held,
    }
    return f"{said}; {hosts}"


# Verdicts that hold the whole crawl until an operator acts.
_STAND_STILL: Final = {Cause.NO_MANAGER, Cause.NO_WORKER, Cause.DISK}


def _queue(page: OverviewPage) -> str:
    """Return the number of documents that wait and are in progress, and of hosts by cause."""
    crawl = page.verdict
    said = _("%(waiting)s waiting, %(active)s in progress.") % {
        "waiting": formats.number(page.totals.pending),
        "active": formats.number(page.totals.active),
    }
    hosts = [(number, verdicts.cause_in_brief(cause)) for cause, number in (crawl.hosts or {}).items()]
    if crawl.failing_hosts:
        hosts.insert(0, (crawl.failing_hosts, _("failing")))
    if not hosts:
        return said
    listed = ", ".join(f"{formats.number(number)} {brief}" for number, brief in hosts)
    return f"{said} {_('Hosts: %(hosts)s.') % {'hosts': listed}}"


# --- A job ---------------------------------------------------------------------------------------


def _time_left(page: JobPage, *, now: dt.datetime) -> str:
    """Return the likely time until the end; the time at the present rate while there is no forecast."""
    job = page.job
    if page.forecast is not None:
        return formats.duration(page.forecast.likely - now)
    if not job.runs or job.hold is not None or not job.rate or not job.counts.waiting:
        return formats.UNKNOWN
    return formats.duration(dt.timedelta(seconds=job.counts.waiting / job.rate))


def _code_row(job: JobLine, code: CodeCount) -> Record:
    return {
        "key": f"{code.outcome:d} {code.code}",
        "code": code.code or formats.UNKNOWN,
        "meaning": explain_code(code.code),
        "outcome": str(code.outcome.label),
        "tone": document_state(stage=Stage.DONE, outcome=code.outcome, code=code.code, is_of_this_run=True)[1],
        "count": formats.number(code.count),
        "address": documents_address(job=job.id, code=code.code),
    }


def _host_row(job: JobLine, host: HostLine, *, now: dt.datetime) -> Record:
    line = host.host
    # A hold of the job holds its documents at every host.
    verdict = job.hold or host.verdict
    # The verdict on a host does not apply to a job with no document there.
    is_asked = job.runs and (host.pending or host.active)
    return {
        "key": str(line.id),
        "name": line.name,
        "address": reverse("host", args=[line.id]),
        "documents_address": documents_address(job=job.id, host=line.name),
        "pending": formats.number(host.pending),
        "active": formats.number(host.active),
        "done": formats.number(host.done),
        "failed": formats.number(host.failed),
        "failed_tone": "failed" if host.failed else "quiet",
        "pace": verdicts.allowed(line) if job.runs else "",
        "waits": verdicts.sentence(verdict, now=now, line=line) if is_asked else "",
        "tone": verdicts.tone(verdict) if is_asked else "quiet",
    }


def _known_hosts(page: JobPage) -> str:
    known = formats.number(page.known_hosts)
    return _("at least %(n)s") % {"n": known} if page.are_more_hosts else known


def _hidden_hosts(page: JobPage) -> str:
    hidden = page.known_hosts - len(page.hosts)
    if page.are_more_hosts:
        return _("and at least %(n)s more hosts") % {"n": formats.number(hidden)}
    if not hidden:
        return ""
    return ngettext("and %(n)s more host", "and %(n)s more hosts", hidden) % {"n": formats.number(hidden)}


def _event_row(event: EventLine, *, now: dt.datetime) -> Record:
    return {
        "key": str(event.id),
        "at": formats.moment(event.at, now=now),
        "who": event.made_by,
        "message": translated(event.message),
    }


def documents_address(**filters: str | int) -> str:
    """Return the address of the list of documents with these filters."""
    return f"{reverse('documents')}?{urlencode(filters)}"
