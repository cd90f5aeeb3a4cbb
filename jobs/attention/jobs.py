"""Failing jobs and hosts, and jobs that wait for an output or a connector."""

import datetime as dt
from typing import Final

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine, with_rest
from jobs.lifecycle.job import RunEnd
from jobs.queries.documents.search_lag import read_search_lag
from jobs.queries.hosts.latest_requests import read_latest_requests
from jobs.queries.jobs.lines import JobLine, read_first_jobs, read_job_lines
from jobs.queries.jobs.troubled import find_failed_runs, find_held
from jobs.state.disk_waits import read_wait
from jobs.verdicts.causes import Cause
from jobs.verdicts.requests import Requests
from nodes.web import formats

# Longest time for which a failed run is listed. It is no longer listed when the job runs again.
_LISTED: Final = dt.timedelta(days=7)
# Kinds of lines, by the cause that holds a job until a person repairs something.
_HOLDS: Final = {Cause.OUTPUT: "output_refuses", Cause.CONNECTOR: "connector_missing"}
# Lag from which the search index is listed. A lag of seconds is normal while a crawl writes to it.
_INDEX_LAG: Final = dt.timedelta(minutes=2)


def failing_jobs(now: dt.datetime) -> list[AttentionLine]:
    """
    Return a line for each running job of which at least half of the latest requests failed, and for each job of which
    the last run failed.
    """
    jobs = read_first_jobs(now=now)
    listed = {job.id for job in jobs}
    running = read_latest_requests(now=now).failing_jobs if any(job.runs for job in jobs) else ()
    others = dict.fromkeys([*running, *find_failed_runs(now - _LISTED)])
    jobs = [*jobs, *read_job_lines([job_id for job_id in others if job_id not in listed], now=now)]
    found = [line for job in jobs if (line := _of_job(job, now=now)) is not None]
    return with_rest(found, subject=_("Jobs"), link=reverse("jobs"))


def failing_hosts(now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each host of running jobs at which at least half of the latest requests failed."""
    if not any(job.runs for job in read_first_jobs(now=now)):
        return []
    found = [
        AttentionLine(
            kind="host_fails",
            key=host,
            subject=host,
            sentence=_("%(failures)s Check the host. Until it works again, stop it or pause its jobs.")
            % {"failures": _failures(requests)},
            since=requests.failing_since,
            link=f"{reverse('hosts')}?{urlencode({'name': host})}",
        )
        for host, requests in read_latest_requests(now=now).failing_hosts
    ]
    return with_rest(found, subject=_("Hosts"), link=reverse("hosts"))


def held_jobs(now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each job that was paused because an output refused, and for each job without its connector."""
    jobs = read_job_lines(find_held(), now=now)
    return [
        line
        for cause, kind in _HOLDS.items()
        for line in with_rest(
            [
                AttentionLine(
                    kind=kind,
                    key=str(job.id),
                    subject=job.name,
                    sentence=_sentence_of_hold(job, cause),
                    since=job.hold.since,
                    link=reverse("job", args=[job.id]),
                )
                for job in jobs
                if job.hold is not None and job.hold.cause == cause
            ],
            subject=_("Jobs"),
            link=reverse("jobs"),
        )
    ]


def _sentence_of_hold(job: JobLine, cause: Cause) -> str:
    why = job.reason.rstrip(".")
    if cause == Cause.CONNECTOR:
        return _("The job cannot use a connector: %(why)s.") % {"why": why}
    if read_wait(job.reason) is not None:
        return _("An output or the archive refused: %(why)s.") % {"why": why}
    return _("An output refused, so the job was paused: %(why)s. Repair the output, then resume the job.") % {
        "why": why
    }


def late_outputs(now: dt.datetime) -> list[AttentionLine]:
    """Return a line for the search index if it is minutes behind the documents that were written to it."""
    behind_since = read_search_lag()
    if behind_since is None or now - behind_since < _INDEX_LAG:
        return []
    return [
        AttentionLine(
            kind="output_behind",
            key="search",
            subject=_("Search index"),
            sentence=_("The search index is behind: it lacks the text written since then. Check the workers."),
            since=behind_since,
            link=reverse("search"),
        )
    ]


def _of_job(job: JobLine, *, now: dt.datetime) -> AttentionLine | None:
    if job.runs:
        if not job.latest.is_failing:
            return None
        sentence = _("%(failures)s See which hosts fail.") % {"failures": _failures(job.latest)}
        since = job.latest.failing_since
    elif job.ended_at is not None and now - job.ended_at < _LISTED and job.last_run_failed:
        sentence = _("The last run of the job failed: %(why)s. Repair the cause, then start it again.") % {
            "why": _why_failed(job)
        }
        since = job.ended_at
    else:
        return None
    return AttentionLine(
        kind="job_fails",
        key=str(job.id),
        subject=job.name,
        sentence=sentence,
        since=since,
        link=reverse("job", args=[job.id]),
    )


def _why_failed(job: JobLine) -> str:
    if job.run_end == RunEnd.ERROR:
        return job.reason.rstrip(".") or _("it ended in an error")
    if job.failed_seeds:
        return _("no seed could be read (%(code)s)") % {"code": job.failed_seeds}
    return _("every document failed")


def _failures(requests: Requests) -> str:
    return _("%(failed)s of the last %(ended)s requests failed (%(code)s).") % {
        "failed": formats.number(requests.failed),
        "ended": formats.number(requests.ended),
        "code": requests.code,
    }
