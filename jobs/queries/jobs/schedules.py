"""Jobs that start by a schedule, in the order of their next starts."""

import datetime as dt
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from jobs.lifecycle.job import Phase, StartMethod
from jobs.lifecycle.schedule import Window, last_opening_of, next_openings
from jobs.models import Job
from nodes.lifecycle import CLUSTER_SCOPE

# Largest number of schedules on the page. The schedules that are checked next are shown.
MOST: Final = 200
# Number of coming starts of each schedule.
STARTS: Final = 5


class SkipReason(enum.StrEnum):
    """The reason for which a window started no run."""

    PAUSED = "paused"
    STILL_RUNS = "still_runs"
    NO_MANAGER = "no_manager"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The latest window that started no run for one reason."""

    at: dt.datetime
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A job with a schedule. `coming` are its next openings with their windows, even if the schedule is paused."""

    id: int
    name: str
    status: str
    runs: bool
    method: StartMethod
    windows: Sequence[Window]
    coming: Sequence[tuple[dt.datetime, Window]]
    skipped: Sequence[Skipped]
    paused_at: dt.datetime | None
    paused_by: str


@dataclass(frozen=True, slots=True)
class ScheduleList:
    lines: Sequence[ScheduleLine]
    has_more: bool


def list_schedules(*, now: dt.datetime) -> ScheduleList:
    """
    Return the jobs with a schedule, the next start first. Jobs with a paused schedule, or without a next start, come
    last.
    """
    found = list(islice(_in_order_of_checks(), MOST + 1))
    lines = [_line(job, now=now) for job in found[:MOST]]
    lines.sort(
        key=lambda line: (
            line.paused_at is not None,
            not line.coming,
            line.coming[0][0] if line.coming else now,
            line.name,
        )
    )
    return ScheduleList(lines, has_more=len(found) > MOST)


def read_next_starts(*, now: dt.datetime) -> list[ScheduleLine]:
    """Return the waiting jobs that start next, the next one first."""
    waiting = Job.objects.exclude(start_method=StartMethod.MANUAL).prefetch_related("windows")
    soonest = waiting.filter(
        node_scope=CLUSTER_SCOPE, phase=Phase.INACTIVE, schedule_paused_at=None, schedule_due_at__isnull=False
    ).order_by("schedule_due_at", "id")[:STARTS]
    lines = [_line(job, now=now) for job in soonest]
    return sorted((line for line in lines if line.coming), key=lambda line: (line.coming[0][0], line.name))


def _in_order_of_checks() -> Iterator[Job]:
    """
    Yield running jobs with a schedule, then waiting jobs in the order of their next checks. Each query reads an index.
    """
    scheduled = (
        Job.objects.exclude(start_method=StartMethod.MANUAL)
        .filter(node_scope=CLUSTER_SCOPE)
        .prefetch_related("windows")
    )
    waiting = scheduled.filter(phase=Phase.INACTIVE)
    yield from scheduled.exclude(phase=Phase.INACTIVE).order_by("id")[: MOST + 1]
    yield from waiting.filter(schedule_due_at=None).order_by("id")[: MOST + 1]
    yield from waiting.filter(schedule_due_at__isnull=False).order_by("schedule_due_at", "id")[: MOST + 1]


def _line(job: Job, *, now: dt.datetime) -> ScheduleLine:
    windows = [window.times for window in job.windows.all()]
    return ScheduleLine(
        id=job.pk,
        name=job.name,
        status=job.status,
        runs=job.phase != Phase.INACTIVE,
        method=StartMethod(job.start_method),
        windows=windows,
        coming=list(islice(next_openings(windows, after=now), STARTS)),
        skipped=_skipped(job, windows, now=now),
        paused_at=job.schedule_paused_at,
        paused_by=job.schedule_paused_by,
    )


def _skipped(job: Job, windows: Sequence[Window], *, now: dt.datetime) -> list[Skipped]:
    """
    Return the windows that started no run, the newest first, at most one for each reason.

    A window that opened during a pause, or during a run that still lasts, counts only if it opened after the last
    change of the schedule.
    """
    found = []
    if job.missed_window_at is not None:
        found.append(Skipped(job.missed_window_at, SkipReason.NO_MANAGER))
    if job.schedule_paused_at is not None and job.phase == Phase.INACTIVE:
        since = max(job.schedule_paused_at, job.waits_since)
        if at := last_opening_of(windows, after=since, until=now):
            found.append(Skipped(at, SkipReason.PAUSED))
    if job.phase != Phase.INACTIVE and job.start_method == StartMethod.WINDOW_BEGIN and job.started_at is not None:
        since = max(job.started_at, job.schedule_checked_at)
        if at := last_opening_of(windows, after=since, until=now):
            found.append(Skipped(at, SkipReason.STILL_RUNS))
    return sorted(found, key=lambda skipped: skipped.at, reverse=True)
