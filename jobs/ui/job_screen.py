"""The texts of the page of a job; see `nodes.web.screens` for the structure of a screen."""

import datetime as dt

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Guard
from jobs.models import Outcome
from jobs.partitions.this_partition import address_in, key_in
from jobs.queries.hosts.lines import HostStatus
from jobs.queries.jobs.hosts import HostLine
from jobs.queries.jobs.lines import JobLine
from jobs.queries.jobs.outputs import OutputLine
from jobs.queries.jobs.page import EventLine, JobPage
from jobs.queries.jobs.parts import CodeCount
from jobs.traps.quarantine import TRAP
from jobs.ui import job_diagram
from jobs.ui.job_rows import (
    button_row,
    counts_cells,
    documents_address,
    failed_seeds,
    job_row,
    job_tone,
    rate_cells,
    search_lag,
)
from jobs.ui.partitions_views import at_least
from jobs.verdicts.causes import Verdict
from jobs.words import charges, failing_groups, forecasts, freshness, verdicts
from jobs.words.codes import explain_code
from jobs.words.documents import document_state
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.translated_words import translated


def job_screen(page: JobPage, *, now: dt.datetime) -> Record:
    job = page.job
    failing = [code for code in page.codes if code.outcome == Outcome.FAILED]
    others = [code for code in page.codes if code.outcome != Outcome.FAILED]
    return {
        **job_row(job, now=now),
        **rate_cells(job.history),
        **counts_cells(job.counts),
        "at_least": at_least(page.silent, now=now),
        "says": " ".join(
            filter(None, (failed_seeds(job), verdicts.sentence(page.verdict, now=now, line=_example(page))))
        ),
        "remedy": _("Repair the cause, then start the job.") if job.last_run_failed else verdicts.remedy(page.verdict),
        "since": _since(page.verdict, now=now),
        "troubles": [failing_groups.row(group, now=now) for group in page.failing],
        "questions": [{"key": "removals", "address": reverse("job-removals", args=[job.id])}]
        if job.state.guard == Guard.WAITING
        else [],
        "removals": [button_row(row) for row in job.allowed if row.verb == "delete"],
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
        "outputs": [_output_row(output, now=now) for output in page.outputs],
        "slow_hosts": [freshness.slow_host_row(host) for host in page.freshness.slow_hosts],
        "failing": [_code_row(job, code) for code in failing],
        "may_send_back": any(code.outcome == Outcome.FAILED or code.code in {"DENIED", TRAP} for code in page.codes),
        "others": [_code_row(job, code) for code in others],
        "hosts": [_host_row(job, host, now=now) for host in page.hosts],
        **job_diagram.cells(page, tone=job_tone(job), now=now),
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
    # If the job itself is held, its documents wait at every host for this cause, whatever the verdict on the host is.
    verdict = job.hold or host.verdict
    # The verdict on a host does not apply to a job with no document there.
    is_asked = job.runs and (host.pending or host.active)
    return {
        "key": key_in(host.partition, line.id),
        "name": line.name,
        "partition": _("In partition %(name)s") % {"name": host.partition} if host.partition else "",
        "address": address_in(host.partition, reverse("host", args=[line.id])),
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


def _output_row(output: OutputLine, *, now: dt.datetime) -> Record:
    return {
        "key": str(output.id),
        "name": output.name,
        "connector": output.connector,
        "lag": search_lag(output.behind_since, now=now)
        if output.is_index
        else _("none: a document counts after it is written"),
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
