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

# The counters say how each lane stands, so no document is read. Limits are looked up for the shown
# hosts only, as stuffing reckons them: the strictest of the policies that running jobs brought.
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
), by_bin AS (
    SELECT lane.bin_id, min(lane.ready_at) AS ready_at, count(*) OVER () AS hosts,
           coalesce(sum(pending), 0)::bigint AS pending, coalesce(sum(active), 0)::bigint AS active,
           coalesce(sum(done), 0)::bigint AS done, coalesce(sum(failed), 0)::bigint AS failed
      FROM counted JOIN jobs_lane AS lane ON lane.id = counted.lane_id
     GROUP BY lane.bin_id
     ORDER BY active DESC, pending DESC, done DESC, lane.bin_id
     LIMIT %(shown)s
)
SELECT bin.name, by_bin.pending, by_bin.active, by_bin.done, by_bin.failed, by_bin.ready_at, by_bin.hosts,
       bin.back_off_until, bin.open_requests, bin."interval",
       coalesce(lim.requests, 2), greatest(coalesce(lim.gap, 1), bin."interval")
  FROM by_bin JOIN jobs_bin AS bin ON bin.id = by_bin.bin_id
  LEFT JOIN LATERAL (
       SELECT min(policy.open_requests) AS requests, max(policy.min_gap) AS gap
         FROM jobs_binlimit AS binlimit
         JOIN jobs_throttlepolicy AS policy ON policy.id = binlimit.policy_id
         JOIN jobs_job AS job ON job.id = binlimit.job_id AND (job.phase <> 'inactive' OR job.id = %(job)s)
        WHERE binlimit.bin_id = bin.id) AS lim ON true
 ORDER BY by_bin.active DESC, by_bin.pending DESC, by_bin.done DESC, bin.name
"""


@dataclass(frozen=True, slots=True)
class CodeCount:
    """So many documents of this run ended with this result code."""

    code: str
    outcome: Outcome
    count: int


@dataclass(frozen=True, slots=True)
class HostLine:
    """
    One host (bin) as this job sees it. `gap` is in seconds, at most `requests` are open at a time;
    `robots_delay` is the part of the gap that its robots.txt asked for.
    """

    name: str
    pending: int
    active: int
    done: int
    failed: int
    ready_at: dt.datetime | None
    back_off_until: dt.datetime | None
    open_requests: int
    robots_delay: float
    requests: int
    gap: float


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


def read_job_page(job_id: int) -> JobPage | None:
    """Read the page of a job; None when there is no such job (any more)."""
    job = Job.objects.select_related("repository").prefetch_related("outputs", "windows").filter(pk=job_id).first()
    if job is None:
        return None
    (line,) = job_lines([job])
    hosts, hosts_in_all = _read_hosts(job)
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


def _read_hosts(job: Job) -> tuple[list[HostLine], int]:
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
    lines = [
        HostLine(
            name=name,
            pending=pending,
            active=active,
            done=done,
            failed=failed,
            ready_at=ready_at,
            back_off_until=back_off_until,
            open_requests=open_requests,
            robots_delay=robots_delay,
            requests=requests,
            gap=gap,
        )
        for (
            name, pending, active, done, failed, ready_at, _, back_off_until, open_requests, robots_delay, requests, gap,
        ) in rows
    ]  # fmt: skip
    return lines, rows[0][6] if rows else 0


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
