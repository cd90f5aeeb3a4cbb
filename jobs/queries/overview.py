"""What the first page shows: is it moving, and if not, why not."""

import datetime as dt
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from jobs.lifecycle.job import JobState, Phase, allowed_transitions
from jobs.lifecycle.table import Owner, Transition
from jobs.models import Job, SearchDocument
from jobs.queries.attention.lines import AttentionLine
from jobs.queries.attention.sources import read_attention
from jobs.queries.counts import add_up, count_present_runs
from jobs.queries.meter import METER, add_histories
from jobs.queries.moment import kept
from jobs.queries.nodes_page import NodeLine, read_live_nodes
from jobs.queries.standing import Standing
from jobs.queue.counters import RunCounts
from nodes.lifecycle import NodeKind

# The first lane of each seed, in the order of its index: however many wait behind it, they are not read.
_NEXT_READY: Final = """
SELECT min(lane.ready_at)
  FROM (SELECT id FROM jobs_seed WHERE job_id = ANY(%(jobs)s) LIMIT %(seeds)s) AS seed
 CROSS JOIN (VALUES (true), (false)) AS ahead(is_ahead)
 CROSS JOIN LATERAL (SELECT ready_at FROM jobs_lanestate
                      WHERE seed_id = seed.id AND is_ahead = ahead.is_ahead AND ready_at IS NOT NULL
                      ORDER BY ready_at LIMIT 1) AS lane
"""
# Jobs on the first page: those that run, then those that ran last.
_JOBS_SHOWN: Final = 50
_JOBS_OBSERVED: Final = 200
# What a line tells of a job (what it crawls may be large), in the order of its fields, which `from_db` goes by.
_COLUMNS: Final = (
    *("id", "name", "node_scope", "phase", "pause", "window", "stop_request", "resuming", "seeding", "minimal"),
    *("connectors_ready", "guard", "run_no", "started_at", "ended_at", "run_end", "reason"),
)


def _told(jobs: QuerySet[Job], *order: Any) -> QuerySet[Job, Any]:
    return jobs.order_by(*order).values_list(*_COLUMNS)


# Those that run, the last one that was started first; then those that ran last. Each part has its index.
_LATEST: Final = (Coalesce("started_at", "created_at").desc(), "id")
_RUNNING: Final = Standing(lambda: _told(Job.objects.exclude(phase=Phase.INACTIVE), *_LATEST)[:_JOBS_SHOWN])
_AT_REST: Final = Standing(lambda: _told(Job.objects.filter(phase=Phase.INACTIVE), *_LATEST)[:_JOBS_SHOWN])
_OBSERVED: Final = Standing(lambda: _told(Job.objects.exclude(phase=Phase.INACTIVE), "-id")[:_JOBS_OBSERVED])
_NOT_FOUND_YET: Final = Standing(
    lambda: SearchDocument.objects.filter(vector=None).order_by("written_at").values_list("written_at")[:1]
)
# Seeds of jobs that run whose lanes are looked at for what waits.
_SEEDS: Final = 200


class Movement(enum.StrEnum):
    """What a glance at the cluster says, most urgent reason first."""

    IDLE = "idle"
    NO_MANAGER = "no manager"
    NO_WORKER = "no worker"
    PAUSED = "paused"
    MOVING = "moving"
    ANSWERS = "waiting for answers"
    HOSTS = "waiting for hosts"
    DUE = "waiting for documents to be due"
    SETTLING = "settling"


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job as a line of a list. `rate` is in documents a second, None when nobody has watched yet."""

    id: int
    name: str
    state: JobState
    status: str
    manifoldcf_status: str
    reason: str
    run_no: int
    run_end: str
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    node_scope: str
    counts: RunCounts
    rate: float | None

    @property
    def allowed(self) -> Sequence[Transition]:
        """What an operator may do with it now."""
        return allowed_transitions(self.state, owner=Owner.OPERATOR)

    @property
    def runs(self) -> bool:
        return self.state.phase != Phase.INACTIVE

    @property
    def average(self) -> float | None:
        """Documents a second over a run that has ended."""
        if not self.started_at or not self.ended_at or self.ended_at <= self.started_at:
            return None
        return self.counts.processed / (self.ended_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """
    `totals` and `history` are of the jobs that run; of the last runs of all when none does. `in_motion` are only those that neither pause nor
    wait for a window, and `next_ready_at` is when the first waiting lane of one may hand something out. `search_behind_since` is when the oldest text was written
    that cannot be found yet.
    """

    attention: Sequence[AttentionLine]
    movement: Movement
    jobs: Sequence[JobLine]
    totals: RunCounts
    in_motion: RunCounts
    rate: float | None
    history: Sequence[float | None]
    nodes: Sequence[NodeLine]
    next_ready_at: dt.datetime | None
    search_behind_since: dt.datetime | None


def read_overview(*, now: dt.datetime) -> OverviewPage:
    """Read the page, in a handful of queries whatever the size of the crawl."""
    jobs = job_lines(_first_jobs())
    running = [job for job in jobs if job.runs]
    totals = add_up(job.counts for job in running or jobs)
    rates = [job.rate for job in running if job.rate is not None]
    rate = sum(rates) if rates else None
    nodes = read_live_nodes()
    moving = [job for job in running if not job.state.rests]
    in_motion = add_up(job.counts for job in moving)
    next_ready_at = _next_ready_at([job.id for job in moving])
    return OverviewPage(
        attention=read_attention(now=now),
        movement=_judge(
            running,
            nodes=[node for node in nodes if not node.is_silent(now=now)],
            in_motion=in_motion,
            rate=rate,
            is_due=next_ready_at is None or next_ready_at <= now,
        ),
        jobs=jobs,
        totals=totals,
        in_motion=in_motion,
        rate=rate,
        history=add_histories(METER.history(job.id) for job in running),
        nodes=nodes,
        next_ready_at=next_ready_at,
        search_behind_since=read_search_lag(),
    )


def _first_jobs() -> list[Job]:
    running = _jobs(_RUNNING)
    if len(running) == _JOBS_SHOWN:
        return running
    return [*running, *_jobs(_AT_REST)][:_JOBS_SHOWN]


def _jobs(question: Standing) -> list[Job]:
    return [Job.from_db(DEFAULT_DB_ALIAS, _COLUMNS, row) for row in question.rows()]


def observe_rates() -> None:
    """Remember how far running jobs are, for the rates that a page shows next: of more than are shown, the newest."""
    job_lines(_jobs(_OBSERVED))


def read_job_line(job_id: int) -> JobLine | None:
    """One job with its counts; None when there is no such job (any more)."""
    known: JobLine | None = kept("jobs").get(job_id)
    if known is not None:
        return known
    return next(iter(job_lines(Job.objects.only(*_COLUMNS).filter(pk=job_id))), None)


def job_lines(jobs: Iterable[Job]) -> list[JobLine]:
    """Return jobs with their counts; what is counted here is remembered for the rates."""
    rows = list(jobs)
    known: dict[int, JobLine] = kept("jobs")
    known.update((line.id, line) for line in _count([job for job in rows if job.pk not in known]))
    return [known[job.pk] for job in rows]


def _count(jobs: Sequence[Job]) -> list[JobLine]:
    counts = count_present_runs(job.pk for job in jobs) if jobs else {}
    lines = []
    for job in jobs:
        of_run = counts[job.pk]
        METER.observe(job.pk, of_run.processed, series=job.run_no)
        runs = job.phase != Phase.INACTIVE
        lines.append(
            JobLine(
                id=job.pk,
                name=job.name,
                state=job.state,
                status=job.status,
                manifoldcf_status=job.manifoldcf_status,
                reason=job.reason,
                run_no=job.run_no,
                run_end=job.run_end,
                started_at=job.started_at,
                ended_at=job.ended_at,
                node_scope=job.node_scope,
                counts=of_run,
                rate=METER.rate(job.pk) if runs else None,
            )
        )
    return lines


def read_search_lag() -> dt.datetime | None:
    """When the oldest text was written that cannot be found yet; None when all can."""
    return next((written_at for (written_at,) in _NOT_FOUND_YET.rows()), None)


def _next_ready_at(jobs: Sequence[int]) -> dt.datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_READY, {"jobs": list(jobs), "seeds": _SEEDS})
        first: dt.datetime | None = cursor.fetchone()[0]
    return first


def _judge(
    running: Sequence[JobLine], *, nodes: Sequence[NodeLine], in_motion: RunCounts, rate: float | None, is_due: bool
) -> Movement:
    if not running:
        return Movement.IDLE
    kinds = {node.kind for node in nodes}
    if NodeKind.MANAGER not in kinds:
        return Movement.NO_MANAGER
    if NodeKind.WORKER not in kinds:
        return Movement.NO_WORKER
    if all(job.state.rests for job in running):
        return Movement.PAUSED
    if rate:
        return Movement.MOVING
    if in_motion.active:
        return Movement.ANSWERS
    if in_motion.pending:
        return Movement.HOSTS
    if not is_due:
        return Movement.DUE
    return Movement.SETTLING
