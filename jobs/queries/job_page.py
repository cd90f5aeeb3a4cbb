"""What one job's page shows: where its run stands, what failed, and how each host is doing."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Kind, StartMethod
from jobs.lifecycle.schedule import Window
from jobs.models import Job, JobEvent, Outcome
from jobs.queries.bin_lines import BinLine, read_bin_lines
from jobs.queries.meter import METER
from jobs.queries.overview import JobLine, job_lines
from jobs.terms import INTERVALS

# Busiest first; the rest is counted.
_HOSTS_SHOWN: Final = 50
_EVENTS_SHOWN: Final = 30

_CODES: Final = """
SELECT outcome, code, sum(amount)::bigint AS amount
  FROM (SELECT measure, stage, outcome, code, amount FROM jobs_counter WHERE job_id = %(job)s AND run_no = %(run)s
         UNION ALL
        SELECT measure, stage, outcome, code, amount FROM jobs_counterdelta WHERE job_id = %(job)s AND run_no = %(run)s) AS both_
 WHERE measure = 'stage' AND stage = %(done)s
 GROUP BY outcome, code
HAVING sum(amount) > 0
 ORDER BY amount DESC, code
"""

# The counters say how each lane stands, so no document is read. What limits the shown hosts is read of them only.
_HOSTS: Final = """
WITH counted AS (
    SELECT lane_id,
           sum(amount) FILTER (WHERE stage = %(pending)s) AS pending,
           sum(amount) FILTER (WHERE stage = %(active)s) AS active,
           sum(amount) FILTER (WHERE stage = %(done)s) AS done,
           sum(amount) FILTER (WHERE stage = %(done)s AND outcome = %(failed)s) AS failed
      FROM (SELECT lane_id, measure, stage, outcome, amount
              FROM jobs_counter WHERE job_id = %(job)s AND run_no = %(run)s
             UNION ALL
            SELECT lane_id, measure, stage, outcome, amount
              FROM jobs_counterdelta WHERE job_id = %(job)s AND run_no = %(run)s) AS both_
     WHERE measure = 'stage'
     GROUP BY lane_id
)
SELECT lane.bin_id, coalesce(sum(pending), 0)::bigint AS pending, coalesce(sum(active), 0)::bigint AS active,
       coalesce(sum(done), 0)::bigint AS done, coalesce(sum(failed), 0)::bigint AS failed, count(*) OVER () AS hosts
  FROM counted JOIN jobs_lane AS lane ON lane.id = counted.lane_id
 GROUP BY lane.bin_id
 ORDER BY active DESC, pending DESC, done DESC, lane.bin_id
 LIMIT %(shown)s
"""


@dataclass(frozen=True, slots=True)
class CodeCount:
    """So many documents of this run ended with this result code."""

    code: str
    outcome: Outcome
    count: int


@dataclass(frozen=True, slots=True)
class HostLine:
    """One host (bin), and how many documents this job has there."""

    bin: BinLine
    pending: int
    active: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class SeedLine:
    """A seed and what limits it; `owner` is the manager that stuffs it."""

    urls: Sequence[str]
    policy: str
    owner: str


@dataclass(frozen=True, slots=True)
class EventLine:
    id: int
    at: dt.datetime
    made_by: str
    message: str


@dataclass(frozen=True, slots=True)
class JobTimes:
    """When a job runs, and how often it comes back: `intervals` by their column, only those that are set."""

    kind: Kind
    intervals: Mapping[str, dt.timedelta]
    start_method: StartMethod
    windows: Sequence[Window]
    window_ends_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class JobPage:
    job: JobLine
    history: Sequence[float | None]
    codes: Sequence[CodeCount]
    hosts: Sequence[HostLine]
    hosts_in_all: int
    seeds: Sequence[SeedLine]
    repository: str
    outputs: Sequence[str]
    connector: str
    specification: Mapping[str, Any]
    max_documents: int | None
    priority: int
    when: JobTimes
    hop_limits: Mapping[str, int]
    events: Sequence[EventLine]


def read_job_page(job_id: int, *, now: dt.datetime) -> JobPage | None:
    """Read the page of a job; None when there is no such job (any more)."""
    job = Job.objects.select_related("repository").prefetch_related("outputs", "windows").filter(pk=job_id).first()
    if job is None:
        return None
    (line,) = job_lines([job])
    hosts, hosts_in_all = _read_hosts(job, now=now)
    return JobPage(
        job=line,
        history=METER.history(job.pk),
        codes=_read_codes(job),
        hosts=hosts,
        hosts_in_all=hosts_in_all,
        seeds=_read_seeds(job),
        repository=job.repository.name,
        outputs=[output.name for output in job.outputs.all()],
        connector=job.repository.connector,
        specification=job.specification,
        max_documents=job.max_documents,
        priority=job.priority,
        when=JobTimes(
            kind=Kind(job.kind),
            intervals={name: span for name in INTERVALS if (span := getattr(job, name)) is not None},
            start_method=StartMethod(job.start_method),
            windows=[window.times for window in job.windows.all()],
            window_ends_at=job.window_ends_at,
        ),
        hop_limits=job.hop_limits,
        events=[
            EventLine(id=event.pk, at=event.at, made_by=event.made_by, message=event.message)
            for event in JobEvent.objects.filter(job=job).order_by("-id")[:_EVENTS_SHOWN]
        ],
    )


def _read_codes(job: Job) -> list[CodeCount]:
    with connection.cursor() as cursor:
        cursor.execute(_CODES, {"job": job.pk, "run": job.run_no, "done": Stage.DONE})
        return [
            CodeCount(code=code, outcome=Outcome(outcome), count=count) for outcome, code, count in cursor.fetchall()
        ]


def _read_hosts(job: Job, *, now: dt.datetime) -> tuple[list[HostLine], int]:
    facts = {
        "job": job.pk,
        "run": job.run_no,
        "pending": Stage.PENDING,
        "active": Stage.ACTIVE,
        "done": Stage.DONE,
        "failed": Outcome.FAILED,
        "shown": _HOSTS_SHOWN,
    }
    with connection.cursor() as cursor:
        cursor.execute(_HOSTS, facts)
        rows = cursor.fetchall()
    counts = {bin_id: documents for bin_id, *documents, _ in rows}
    lines = [HostLine(line, *counts[line.id]) for line in read_bin_lines(list(counts), now=now)]
    return lines, rows[0][-1] if rows else 0


def _read_seeds(job: Job) -> list[SeedLine]:
    seeds = job.seeds.filter(removed_at=None).select_related("policy", "group__owner").order_by("id")
    return [
        SeedLine(
            urls=seed.urls,
            policy=seed.policy.name if seed.policy else "",
            owner=seed.group.owner.name if seed.group and seed.group.owner else "",
        )
        for seed in seeds
    ]
