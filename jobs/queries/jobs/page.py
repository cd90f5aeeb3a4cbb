"""The content of a job's page: the progress of its run, its failures, and its hosts."""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from jobs.checks.job_options import INTERVALS
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import TRANSITIONS, Kind, StartMethod
from jobs.lifecycle.job import Window as Place
from jobs.lifecycle.schedule import Window, next_opening_of
from jobs.models import Charge, Job, JobEvent, Outcome, ScheduleWindow
from jobs.partitions.merged import Silent
from jobs.queries.charges import read_charges
from jobs.queries.cluster.failing_groups import FailingGroup, read_failing_groups
from jobs.queries.hosts.lines import HostStatus, read_host_statuses
from jobs.queries.hosts.waiting import narrow
from jobs.queries.jobs.facts import job_seen, read_changes, read_cluster, read_next_ready_at
from jobs.queries.jobs.forecast import RunForecast, read_forecast
from jobs.queries.jobs.freshness import Freshness, read_freshness
from jobs.queries.jobs.lines import JobLine, read_job_line
from jobs.queries.jobs.pipeline import Tree, read_tree
from jobs.queries.partitions import read_silent
from jobs.queue.sql.low_water import LOWEST_DELTA, LOWEST_TURN
from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.forecast import Queue
from jobs.verdicts.hosts import judge_host
from jobs.verdicts.jobs import HostOfJob, judge_job

# Hosts on the page, the busiest first, and hosts that are counted at most.
_HOSTS_SHOWN: Final = 50
_HOSTS_COUNTED: Final = 1_000
# Hosts of each kind among which the busiest are searched.
_EXAMINED: Final = 100
_SEEDS_EXAMINED: Final = 200
_EVENTS_SHOWN: Final = 30
# Newest events of the job among which the transitions of its run are searched.
_EVENTS_EXAMINED: Final = 100
_SEEDS_SHOWN: Final = 20

_CODES: Final = f"""
SELECT outcome, code, sum(amount)::bigint AS amount
  FROM (SELECT measure, stage, outcome, code, amount FROM jobs_jobcounter WHERE job_id = %(job)s AND run_no = %(run)s
         UNION ALL
        SELECT measure, stage, outcome, code, amount FROM jobs_counterdelta
          WHERE job_id = %(job)s AND run_no = %(run)s AND id >= {LOWEST_DELTA}) AS both_
 WHERE measure = 'stage' AND stage = %(done)s
 GROUP BY outcome, code
HAVING sum(amount) > 0
 ORDER BY amount DESC, code
"""

_KINDS_OF_MOVES: Final = frozenset(row.kind for row in TRANSITIONS.values())

# Hosts with the most claimed or waiting documents have an open turn, or a lane that is ready first or went to sleep
# last. Some of each kind are found by an index, and only their counts are read. The counters have these, so no
# document is read.
_HOSTS: Final = f"""
WITH seeds AS MATERIALIZED (
    SELECT id FROM jobs_seed WHERE job_id = %(job)s ORDER BY id LIMIT {_SEEDS_EXAMINED}
), served AS (
    SELECT turn.bin_id FROM jobs_turn AS turn
      JOIN jobs_lane AS lane ON lane.id = turn.lane_id
      JOIN jobs_seed AS seed ON seed.id = lane.seed_id AND seed.job_id = %(job)s
     WHERE turn.closed_at IS NULL AND turn.id >= {LOWEST_TURN}
     ORDER BY turn.documents DESC, turn.id LIMIT {_EXAMINED}
), ready AS (
    SELECT lane.bin_id
      FROM seeds CROSS JOIN (VALUES (true), (false)) AS ahead(is_ahead)
     CROSS JOIN LATERAL (SELECT bin_id, ready_at FROM jobs_lanestate
                          WHERE seed_id = seeds.id AND is_ahead = ahead.is_ahead AND ready_at IS NOT NULL
                          ORDER BY ready_at LIMIT {_EXAMINED}) AS lane
     ORDER BY lane.ready_at LIMIT {_EXAMINED}
), asleep AS (
    SELECT lane.bin_id
      FROM seeds
     CROSS JOIN LATERAL (SELECT bin_id, served_at FROM jobs_lanestate
                          WHERE seed_id = seeds.id AND ready_at IS NULL
                          ORDER BY served_at DESC NULLS LAST LIMIT {_EXAMINED}) AS lane
     ORDER BY lane.served_at DESC NULLS LAST LIMIT {_EXAMINED}
), lanes AS MATERIALIZED (
    SELECT lane.id, lane.bin_id
      FROM (SELECT bin_id FROM served UNION SELECT bin_id FROM ready UNION SELECT bin_id FROM asleep) AS examined
      JOIN jobs_lane AS lane ON lane.bin_id = examined.bin_id
      JOIN jobs_seed AS seed ON seed.id = lane.seed_id AND seed.job_id = %(job)s
), counted AS (
    SELECT lanes.bin_id, counter.stage, counter.outcome, counter.amount
      FROM lanes CROSS JOIN LATERAL (
           SELECT stage, outcome, amount FROM jobs_counter
            WHERE job_id = %(job)s AND run_no = %(run)s AND lane_id = lanes.id AND measure = 'stage') AS counter
     UNION ALL
    SELECT lanes.bin_id, delta.stage, delta.outcome, delta.amount
      FROM jobs_counterdelta AS delta JOIN lanes ON lanes.id = delta.lane_id
     WHERE delta.job_id = %(job)s AND delta.run_no = %(run)s AND delta.id >= {LOWEST_DELTA} AND delta.measure = 'stage'
)
SELECT bin_id,
       coalesce(sum(amount) FILTER (WHERE stage = %(pending)s), 0)::bigint AS pending,
       coalesce(sum(amount) FILTER (WHERE stage = %(active)s), 0)::bigint AS active,
       coalesce(sum(amount) FILTER (WHERE stage = %(done)s), 0)::bigint AS done,
       coalesce(sum(amount) FILTER (WHERE stage = %(done)s AND outcome = %(failed)s), 0)::bigint AS failed
  FROM counted
 GROUP BY bin_id
 ORDER BY active DESC, pending DESC, done DESC, bin_id
 LIMIT {_HOSTS_SHOWN}
"""
# Lanes, since a host has one for each seed: above the limit it is enough to know that there are more.
_KNOWN_HOSTS: Final = f"""
SELECT count(*), count(DISTINCT bin_id)
  FROM (SELECT lane.bin_id FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
         WHERE seed.job_id = %(job)s LIMIT {_HOSTS_COUNTED + 1}) AS known
"""


@dataclass(frozen=True, slots=True)
class CodeCount:
    """The number of documents of this run that ended with this result code."""

    code: str
    outcome: Outcome
    count: int


@dataclass(frozen=True, slots=True)
class HostLine:
    """One host, the verdict on this job's documents there, and their numbers."""

    host: HostStatus
    verdict: Verdict
    pending: int
    active: int
    done: int
    failed: int

    @property
    def at_workers(self) -> int:
        """
        Return the unbegun documents at workers; an estimate if jobs share the host: the job's part of all of them.
        """
        every = self.host.in_progress
        return math.ceil(self.host.known.waiting_at_workers * self.active / every) if every else 0


@dataclass(frozen=True, slots=True)
class SeedLine:
    """A seed with its first addresses and its policy; `owner` is the manager that stuffs it."""

    urls: Sequence[str]
    urls_in_all: int
    policy: str
    owner: str


@dataclass(frozen=True, slots=True)
class EventLine:
    id: int
    at: dt.datetime
    made_by: str
    message: str


@dataclass(frozen=True, slots=True)
class MoveLine:
    """A transition of the run: the state that it led to, and the time of the next one, None for the last."""

    id: int
    at: dt.datetime
    made_by: str
    message: str
    to: str
    until: dt.datetime | None


@dataclass(frozen=True, slots=True)
class JobTimes:
    """The schedule of a job and its intervals: `intervals` by their column, only set ones."""

    kind: Kind
    intervals: Mapping[str, dt.timedelta]
    start_method: StartMethod
    windows: Sequence[Window]
    window_ends_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """The state of a job. `known_hosts` counts all its hosts, and is a lower limit if there `are_more_hosts`."""

    job: JobLine
    verdict: Verdict
    codes: Sequence[CodeCount]
    hosts: Sequence[HostLine]
    known_hosts: int
    are_more_hosts: bool
    events: Sequence[EventLine]
    # Transitions of the run, the newest first.
    moves: Sequence[MoveLine]
    failing: Sequence[FailingGroup]
    # The waiting time of its documents by cause, in document-seconds of the last minutes.
    charges: Mapping[Cause, float]
    forecast: RunForecast | None
    freshness: Freshness
    # Partitions whose last figures are old.
    silent: Sequence[Silent]

    @property
    def closed_hosts(self) -> Sequence[str]:
        """Return the names of the shown hosts that are stopped, denied or closed by a rule while documents wait there."""
        if not self.job.runs or self.job.hold is not None:
            return []
        return [line.host.name for line in self.hosts if line.pending and line.host.allowed_starts_per_second == 0]


@dataclass(frozen=True, slots=True)
class JobSetUp:
    """
    The settings of a job, which its open page does not read again.

    `has_more_seeds` if the job has more seeds than are shown.
    """

    seeds: Sequence[SeedLine]
    has_more_seeds: bool
    repository: str
    outputs: Sequence[str]
    connector: str
    specification: Mapping[str, Any]
    max_documents: int | None
    priority: int
    when: JobTimes
    hop_limits: Mapping[str, int]
    # The pipeline; None without stages.
    tree: Tree | None
    access_rules: int


def read_job_page(job_id: int, *, now: dt.datetime) -> JobPage | None:
    """Read the page of a job; None if it does not exist."""
    job = read_job_line(job_id, now=now)
    if job is None:
        return None
    hosts = read_hosts_of(job, now=now)
    known_hosts, are_more_hosts = (len(hosts), False) if len(hosts) < _HOSTS_SHOWN else _count_hosts(job)
    of_hosts = [HostOfJob(host.verdict, host.pending + host.at_workers, host.active) for host in hosts]
    events = list(JobEvent.objects.filter(job_id=job.id).order_by("-id")[:_EVENTS_EXAMINED])
    return JobPage(
        job=job,
        verdict=_judge(job, of_hosts, now=now),
        codes=_read_codes(job),
        hosts=hosts,
        known_hosts=known_hosts,
        are_more_hosts=are_more_hosts,
        events=[EventLine(event.pk, event.at, event.made_by, event.message) for event in events[:_EVENTS_SHOWN]],
        moves=_moves(job, events),
        failing=read_failing_groups(job_id=job.id),
        charges=read_charges(Charge.Subject.JOB, job.id, now=now) if job.runs else {},
        forecast=read_forecast(job, queues_of(hosts), now=now),
        freshness=read_freshness(job.id) or Freshness(),
        silent=read_silent(now=now),
    )


def queues_of(hosts: Iterable[HostLine]) -> list[Queue]:
    """Return the queues of a job at its hosts, with the rates that the hosts allow."""
    return [Queue(host.pending + host.active, host.host.allowed_starts_per_second) for host in hosts]


def _moves(job: JobLine, events: Sequence[JobEvent]) -> list[MoveLine]:
    """Return the transitions among the newest events of a job that belong to its run, the newest first."""
    moves: list[MoveLine] = []
    for event in events:
        if job.started_at is None or event.at < job.started_at:
            break
        if event.kind in _KINDS_OF_MOVES:
            until = moves[-1].at if moves else None
            moves.append(
                MoveLine(event.pk, event.at, event.made_by, event.message, str(event.detail.get("to", "")), until)
            )
    return moves


def _judge(job: JobLine, hosts: Sequence[HostOfJob], *, now: dt.datetime) -> Verdict:
    """Return the verdict on a job; if it waits for a window, with the moment at which the window opens."""
    changes = read_changes([job.id]) if job.runs else {}
    seen = job_seen(
        job.state,
        reason=job.reason,
        change=changes.get(job.id),
        latest=job.latest,
        archive_hold=job.archive_hold,
        archive_held_since=job.archive_held_since,
        move_hold=job.move_hold,
        opens_at=_opens_at(job, now=now),
    )
    cluster = read_cluster(job.node_scope, now=now)
    return judge_job(
        seen,
        cluster,
        waiting=job.counts.pending,
        in_progress=job.counts.active,
        hosts=hosts,
        next_due_at=None if job.counts.waiting or job.hold is not None else read_next_ready_at([job.id]),
    )


def _opens_at(job: JobLine, *, now: dt.datetime) -> dt.datetime | None:
    if job.state.window == Place.INSIDE:
        return None
    windows = [window.times for window in ScheduleWindow.objects.filter(job_id=job.id)]
    coming = next_opening_of(windows, after=now)
    return coming[0] if coming else None


def read_set_up(job_id: int) -> JobSetUp | None:
    """Read how a job is set up; None if it does not exist."""
    job = Job.objects.select_related("repository").prefetch_related("outputs", "windows").filter(pk=job_id).first()
    if job is None:
        return None
    seeds = _read_seeds(job)
    return JobSetUp(
        seeds=seeds[:_SEEDS_SHOWN],
        has_more_seeds=len(seeds) > _SEEDS_SHOWN,
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
        tree=read_tree(job) if job.pipeline else None,
        access_rules=len(job.access_rules),
    )


def _read_codes(job: JobLine) -> list[CodeCount]:
    with connection.cursor() as cursor:
        cursor.execute(_CODES, {"job": job.id, "run": job.run_no, "done": Stage.DONE})
        return [
            CodeCount(code=code, outcome=Outcome(outcome), count=count) for outcome, code, count in cursor.fetchall()
        ]


def read_hosts_of(job: JobLine, *, now: dt.datetime) -> list[HostLine]:
    """Read the busiest hosts of a job."""
    facts = {
        "job": job.id,
        "run": job.run_no,
        "pending": Stage.PENDING,
        "active": Stage.ACTIVE,
        "done": Stage.DONE,
        "failed": Outcome.FAILED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_HOSTS, facts)
        counts = {bin_id: documents for bin_id, *documents in cursor.fetchall()}
    lines = read_host_statuses(list(counts), now=now)
    # At a host of several jobs, workers or managers may be missing for one of them only.
    shared = {
        line.id: line.known
        for line in lines
        if job.runs and (line.waiting, line.in_progress) != tuple(counts[line.id][:2])
    }
    own = narrow(shared, job_id=job.id)
    return [
        HostLine(line, judge_host(own[line.id], now=now) if line.id in own else line.verdict, *counts[line.id])
        for line in lines
    ]


def _count_hosts(job: JobLine) -> tuple[int, bool]:
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN_HOSTS, {"job": job.id})
        lanes, hosts = cursor.fetchone()
    return min(hosts, _HOSTS_COUNTED), lanes > _HOSTS_COUNTED


def _read_seeds(job: Job) -> list[SeedLine]:
    """Return the first seeds, and one more if there are others. A seed may have very many addresses."""
    seeds = job.seeds.filter(removed_at=None).order_by("id")
    rows = seeds.values_list("urls__0_5", "urls__len", "policy__name", "group__owner__name")[: _SEEDS_SHOWN + 1]
    return [SeedLine(urls, in_all or 0, policy or "", owner or "") for urls, in_all, policy, owner in rows]
