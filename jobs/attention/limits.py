"""
Lines about runs that take long, and about running jobs that process no document. A rule of notifications sets the limit
of each.
"""

import datetime as dt
from collections.abc import Mapping

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine, Severity
from jobs.models import Job
from jobs.queries.jobs.running import read_running_jobs
from nodes.web import formats


def long_runs(now: dt.datetime, *, limit: dt.timedelta) -> list[AttentionLine]:
    """Return a line for each run that takes longer than the limit. Runs of continuous jobs do not count."""
    sentence = _("Run %(run)d of job %(job)s takes longer than %(limit)s. See what limits it.")
    return [
        _line(
            "runs_long",
            job,
            sentence % {"run": job.run_no, "job": job.name, "limit": formats.duration(limit)},
            since=job.started_at,
        )
        for job in read_running_jobs()
        if job.started_at and now - job.started_at > limit and job.kind != "continuous"
    ]


def quiet_jobs(now: dt.datetime, *, limit: dt.timedelta, last: Mapping[int, dt.datetime]) -> list[AttentionLine]:
    """Return a line for each running job whose last processed document (`last`) is older than the limit."""
    sentence = _("Job %(job)s is running and processed no document for %(limit)s. See what limits it.")
    return [
        _line("no_documents", job, sentence % {"job": job.name, "limit": formats.duration(limit)}, since=last[job.pk])
        for job in read_running_jobs()
        if job.state.may_be_stuffed and job.pk in last and now - last[job.pk] > limit
    ]


def _line(kind: str, job: Job, sentence: str, *, since: dt.datetime | None) -> AttentionLine:
    return AttentionLine(
        kind=kind,
        key=str(job.pk),
        subject=job.name,
        sentence=sentence,
        since=since,
        link=reverse("job", args=[job.pk]),
        severity=Severity.WARNING,
    )
