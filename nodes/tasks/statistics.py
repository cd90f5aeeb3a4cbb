"""Statistics of background tasks, by group and at a moment."""

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Avg, Case, Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Value, When

from nodes.database.clock import read_clock
from nodes.tasks.models import EXECUTION, IS_SLOW, ArchivedTask, Task, TaskWorker

# Age from which a due task counts as a zombie: probably no worker takes tasks of its group.
ZOMBIE_AFTER: Final = dt.timedelta(days=1)
_THROUGHPUT: Final = dt.timedelta(minutes=1)
_AVERAGES: Final = dt.timedelta(hours=1)
_RECENT: Final = dt.timedelta(days=1)

_LATENCY: Final = ExpressionWrapper(F("last_started_at") - F("last_due_at"), output_field=DurationField())


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """
    The numbers of one moment.

    `queued` tasks are due and wait, `postponed` ones are not due yet, `zombies` have been due for more than a day.
    `throughput` counts the tasks that ended in the last minute. The averages (seconds) are those of `averaged` tasks, which
    ended in the last hour, and None if no task ended.
    """

    at: dt.datetime
    group: str
    queued: int
    running: int
    postponed: int
    zombies: int
    workers: int
    throughput: int
    averaged: int
    latency: float | None
    execution_time: float | None


def read_statistics(*, group: str = "", at: dt.datetime | None = None) -> Statistics:
    """Return the statistics of a group, or of all, at a moment; now without one."""
    moment = read_clock() if at is None else at
    scheduled = Task.objects.filter(group=group) if group else Task.objects.all()
    archived = ArchivedTask.objects.filter(group=group) if group else ArchivedTask.objects.all()
    waits = Q(started_at=None)
    counts = scheduled.aggregate(
        running=Count("pk", filter=~waits),
        postponed=Count("pk", filter=waits & Q(scheduled_at__gt=moment)),
        queued=Count("pk", filter=waits & Q(scheduled_at__lte=moment, scheduled_at__gt=moment - ZOMBIE_AFTER)),
        zombies=Count("pk", filter=waits & Q(scheduled_at__lte=moment - ZOMBIE_AFTER)),
    )
    ended = archived.filter(archived_at__gt=moment - _THROUGHPUT, archived_at__lte=moment).count()
    averages = archived.filter(
        archived_at__gt=moment - _AVERAGES, archived_at__lte=moment, last_started_at__isnull=False
    ).aggregate(averaged=Count("pk"), latency=Avg(_LATENCY), execution_time=Avg(EXECUTION))
    return Statistics(
        at=moment,
        group=group,
        **counts,
        workers=TaskWorker.objects.filter(work_on__in=(group, "*")).count() if group else TaskWorker.objects.count(),
        throughput=ended,
        averaged=averages["averaged"],
        latency=_seconds(averages["latency"]),
        execution_time=_seconds(averages["execution_time"]),
    )


def slow_tasks(*, limit: int = 20, group: str = "") -> QuerySet[ArchivedTask]:
    """Return tasks of the last day that ran for more than five seconds, the last ended first."""
    return _recent(group).filter(IS_SLOW).order_by("-archived_at")[:limit]


def tasks_often_tried(*, limit: int = 20, group: str = "") -> QuerySet[ArchivedTask]:
    """Return tasks of the last day that needed several attempts, the last ended first."""
    return _recent(group).filter(attempts__gt=1).order_by("-archived_at")[:limit]


def _recent(group: str) -> QuerySet[ArchivedTask]:
    recent = ArchivedTask.objects.filter(archived_at__gt=read_clock() - _RECENT)
    return recent.filter(group=group) if group else recent


def count_scheduled() -> dict[tuple[str, ...], int]:
    """Return the numbers of scheduled tasks by (group, state)."""
    now = read_clock()
    state = Case(
        When(started_at__isnull=False, then=Value("running")),
        When(scheduled_at__gt=now, then=Value("postponed")),
        When(scheduled_at__gt=now - ZOMBIE_AFTER, then=Value("queued")),
        default=Value("zombie"),
    )
    counted = Task.objects.values_list("group", state).annotate(number=Count("pk")).order_by()
    return {(group, name): number for group, name, number in counted}


def count_workers() -> dict[tuple[str, ...], int]:
    """Return the numbers of workers by the group of their tasks."""
    counted = TaskWorker.objects.values_list("work_on").annotate(number=Count("pk")).order_by()
    return {(work_on,): number for work_on, number in counted}


def count_ended() -> dict[tuple[str, ...], int]:
    """Return the numbers of tasks that ended in the last minute, by (group, reason)."""
    recent = ArchivedTask.objects.filter(archived_at__gt=read_clock() - _THROUGHPUT)
    counted = recent.values_list("group", "why").annotate(number=Count("pk")).order_by()
    return {(group, why): number for group, why, number in counted}


def _seconds(duration: Any) -> float | None:
    return None if duration is None else float(duration.total_seconds())
