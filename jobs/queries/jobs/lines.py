"""Jobs as lines of a list: their counts, rates and holds."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from jobs.lifecycle.job import JobState, Phase, RunEnd, allowed_transitions
from jobs.lifecycle.table import Owner, Transition
from jobs.models import Job
from jobs.queries.frequent_queries import FrequentQuery
from jobs.queries.hosts.latest_requests import read_latest_requests
from jobs.queries.jobs.counts import count_present_runs
from jobs.queries.jobs.facts import is_held, job_facts, read_changes, read_cluster
from jobs.queries.jobs.failed_seeds import read_failed_seeds
from jobs.queries.meter import METER, STEP, STEPS, metered, present, smoothed
from jobs.queue.counting.counters import RunCounts
from jobs.verdicts.causes import Verdict
from jobs.verdicts.jobs import hold_of
from jobs.verdicts.requests import Requests
from nodes.database.shared_results import cached_in_moment, kept

# Number of jobs on the first page: running jobs, then jobs that ran last.
JOBS_SHOWN: Final = 50
# Largest number of running jobs whose documents are added up.
JOBS_OBSERVED: Final = 200
# Time for which the chart keeps an ended job: the span of the chart.
_SHOWN_AFTER_THE_END: Final = dt.timedelta(seconds=STEP * STEPS)
# Columns of a job that a line shows, in the order of its fields, as `from_db` needs them. Large columns are not read.
_COLUMNS: Final = (
    *("id", "name", "node_scope", "phase", "pause", "window", "stop_request", "resuming", "seeding", "minimal"),
    *("connectors_ready", "guard", "run_no", "started_at", "ended_at", "run_end", "reason"),
    *("archive_hold", "archive_held_since", "move_hold"),
)


def _in_order(jobs: QuerySet[Job], *order: Any) -> QuerySet[Job, Any]:
    return jobs.order_by(*order).values_list(*_COLUMNS)


# Running jobs, the latest start first; then jobs that ran last. Each query reads an index.
_LATEST: Final = (Coalesce("started_at", "created_at").desc(), "id")
_RUNNING: Final = FrequentQuery(lambda: _in_order(Job.objects.exclude(phase=Phase.INACTIVE), *_LATEST)[:JOBS_SHOWN])
_INACTIVE: Final = FrequentQuery(lambda: _in_order(Job.objects.filter(phase=Phase.INACTIVE), *_LATEST)[:JOBS_SHOWN])
_OBSERVED: Final = FrequentQuery(lambda: _in_order(Job.objects.exclude(phase=Phase.INACTIVE), "-id")[:JOBS_OBSERVED])


@dataclass(frozen=True, slots=True)
class JobLine:
    """
    A job as a line of a list. `rate` is in documents a second, None until the counts were read twice.

    `failed_seeds` is the most frequent result code of an ended run without a seed that could be read, otherwise ''.
    `hold` is the cause that holds the whole job, or None. `latest` are its latest requests. `history` are the rates
    of the last minutes, empty for a job that ended before them.
    """

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
    hold: Verdict | None
    latest: Requests
    history: Sequence[float | None]
    failed_seeds: str
    archive_hold: str = ""
    archive_held_since: dt.datetime | None = None
    move_hold: int = 0

    @property
    def allowed(self) -> Sequence[Transition]:
        """Return the transitions that an operator may make now."""
        return allowed_transitions(self.state, owner=Owner.OPERATOR)

    @property
    def runs(self) -> bool:
        return self.state.phase != Phase.INACTIVE

    @property
    def all_failed(self) -> bool:
        """True if every document of the run failed."""
        return 0 < self.counts.processed == self.counts.failed

    @property
    def last_run_failed(self) -> bool:
        """True if the job has ended in an error, or if all its seeds or all its documents failed."""
        return not self.runs and (self.run_end == RunEnd.ERROR or self.all_failed or bool(self.failed_seeds))

    @property
    def average(self) -> float | None:
        """Return the documents per second over a run that has ended; None for a run that lasts."""
        if not self.started_at or not self.ended_at or self.ended_at <= self.started_at:
            return None
        return self.counts.processed / (self.ended_at - self.started_at).total_seconds()


def read_first_jobs(*, now: dt.datetime) -> list[JobLine]:
    """Read the jobs that a list shows first: running jobs, then jobs that ran last."""
    return job_lines(_first_jobs(), now=now)


@cached_in_moment
def _first_jobs() -> list[Job]:
    running = _jobs(_RUNNING)
    if len(running) == JOBS_SHOWN:
        return running
    return [*running, *_jobs(_INACTIVE)][:JOBS_SHOWN]


def _jobs(question: FrequentQuery) -> list[Job]:
    return [Job.from_db(DEFAULT_DB_ALIAS, _COLUMNS, row) for row in question.rows()]


def observe_rates(*, now: dt.datetime) -> None:
    """Record the counts of the newest running jobs, for the rates on the next page."""
    read_running_jobs(now=now)


def read_running_jobs(*, now: dt.datetime) -> list[JobLine]:
    """Read the newest running jobs, up to a limit."""
    return job_lines(_jobs(_OBSERVED), now=now)


def read_running_with(jobs: Sequence[JobLine], *, now: dt.datetime) -> tuple[list[JobLine], int]:
    """
    Return the running jobs among these jobs of a list, with further running jobs whose counts are observed, and the
    number of all running jobs.
    """
    running = [job for job in jobs if job.runs]
    if len(running) < JOBS_SHOWN:
        return running, len(running)
    known = {job.id: job for job in (*running, *read_running_jobs(now=now))}
    if len(known) < JOBS_OBSERVED:
        return list(known.values()), len(known)
    return list(known.values()), max(len(known), Job.objects.exclude(phase=Phase.INACTIVE).count())


def read_job_lines(job_ids: Iterable[int], *, now: dt.datetime) -> list[JobLine]:
    """Return these jobs with their counts, in this order. Unknown jobs are left out."""
    wanted = list(job_ids)
    found = Job.objects.only(*_COLUMNS).in_bulk(wanted) if wanted else {}
    return job_lines([found[job_id] for job_id in wanted if job_id in found], now=now)


def read_job_line(job_id: int, *, now: dt.datetime) -> JobLine | None:
    """Return one job with its counts; None if it does not exist."""
    known: JobLine | None = kept("jobs").get(job_id)
    if known is not None:
        return known
    return next(iter(job_lines(Job.objects.only(*_COLUMNS).filter(pk=job_id), now=now)), None)


def job_lines(jobs: Iterable[Job], *, now: dt.datetime) -> list[JobLine]:
    """Return jobs with their counts, and record the counts for the rates."""
    rows = list(jobs)
    known: dict[int, JobLine] = kept("jobs")
    known.update((line.id, line) for line in _count([job for job in rows if job.pk not in known], now=now))
    return [known[job.pk] for job in rows]


def _count(jobs: Sequence[Job], *, now: dt.datetime) -> list[JobLine]:
    counts = count_present_runs(job.pk for job in jobs) if jobs else {}
    running = [job for job in jobs if job.phase != Phase.INACTIVE]
    changes = read_changes([job.pk for job in running if is_held(job.state)])
    latest = read_latest_requests(now=now) if running else None
    clusters = {scope: read_cluster(scope, now=now) for scope in {job.node_scope for job in running}}
    failed_seeds = read_failed_seeds(job for job in jobs if job.phase == Phase.INACTIVE)
    lines = []
    for job in jobs:
        of_run = counts[job.pk]
        METER.observe(metered(job.pk), of_run.processed, series=job.run_no)
        runs = job.phase != Phase.INACTIVE
        is_recent = runs or (job.ended_at is not None and now - job.ended_at < _SHOWN_AFTER_THE_END)
        history = smoothed(METER.history(metered(job.pk))) if is_recent else []
        seen = job_facts(
            job.state,
            reason=job.reason,
            change=changes.get(job.pk),
            latest=latest.of(job.pk) if latest else Requests(),
            archive_hold=job.archive_hold,
            archive_held_since=job.archive_held_since,
            move_hold=job.move_hold,
        )
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
                rate=present(history) if runs else None,
                history=history,
                archive_hold=job.archive_hold,
                archive_held_since=job.archive_held_since,
                move_hold=job.move_hold,
                hold=hold_of(seen, clusters[job.node_scope]) if runs else None,
                latest=seen.latest,
                failed_seeds=failed_seeds.get(job.pk, ""),
            )
        )
    return lines
