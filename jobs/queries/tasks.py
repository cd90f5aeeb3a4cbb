"""The content of the pages of background tasks: tasks of all partitions, in bounded lists."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from django.db.models import Q

from jobs.partitions import this_partition
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, Placed, Silent, merge_lines, read_everywhere
from nodes.errors import TooSlow
from nodes.tasks.models import ArchivedTask, Task, TaskWorker
from nodes.tasks.queries import (
    A_LIST,
    A_PAGE,
    A_SHORT_LIST,
    MOST_BUSY,
    MOST_TEMPLATES,
    MOST_WORKERS,
    Key,
    Listed,
    TaskFilter,
    TasksSeen,
    TemplateSeen,
    list_archived,
    list_scheduled,
    read_roster,
    read_tasks,
    read_templates,
)
from nodes.tasks.statistics import Statistics

T = TypeVar("T")

# Largest number of lists whose rows of other partitions are cached for open pages.
_LISTS_CACHED: Final = 100
# Numbers below and above the numbers of all tasks.
_FIRST: Final = -1
_LAST: Final = 2**63 - 1
_NEVER: Final = dt.datetime.max.replace(tzinfo=dt.UTC)
_ANY: Final = TaskFilter()
_NO_ROW: Final = Q(pk__in=())

_READ: Final[Mapping[str, Callable[[TaskFilter], Any]]] = {
    "tasks": lambda wanted: read_tasks(group=wanted.group),
    "scheduled": list_scheduled,
    "archived": list_archived,
    "templates": lambda _wanted: read_templates(),
    "workers": lambda _wanted: read_roster(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksEverywhere:
    """The first page of tasks. `statistics` has the statistics of each partition by its name; "" is this partition."""

    statistics: Mapping[str, Statistics]
    running: Sequence[Placed[Task]]
    due: Sequence[Placed[Task]]
    ended: Sequence[Placed[ArchivedTask]]
    slow: Sequence[Placed[ArchivedTask]]
    often_tried: Sequence[Placed[ArchivedTask]]
    silent: Sequence[Silent]


@dataclass(frozen=True, slots=True)
class ListedEverywhere:
    """A page of a list, as `Listed`."""

    tasks: Sequence[Placed[Any]] = ()
    next: Key | None = None
    is_cut: bool = False
    silent: Sequence[Silent] = ()


class TemplateKey(NamedTuple):
    """The last template on a page of the list. The next page continues after it."""

    urn: str
    partition: str = ""


class WorkerKey(NamedTuple):
    """The last task worker on a page of the list. The next page continues after it."""

    since: dt.datetime
    id: uuid.UUID
    partition: str = ""


@dataclass(frozen=True, slots=True)
class CountedEverywhere:
    """A page of a list, and the number of all rows. `has_next` is True if another page follows."""

    rows: Sequence[Placed[Any]]
    in_all: int
    silent: Sequence[Silent]
    has_next: bool = False


def read_tasks_everywhere(*, group: str = "", is_open: bool = False) -> TasksEverywhere:
    """
    Return the first page of tasks, of one group or of all groups. If a page is open (`is_open`), figures of other
    partitions may be some seconds old.
    """
    found: Merged[TasksSeen] = _find("tasks", TaskFilter(group=group), is_open=is_open)

    def newest(lines: Callable[[TasksSeen], Iterable[ArchivedTask]], most: int) -> list[Placed[ArchivedTask]]:
        return merge_lines(found, lines, key=lambda task: task.archived_at, is_downwards=True)[:most]

    return TasksEverywhere(
        statistics={name: part.statistics for name, part in _parts(found).items()},
        running=merge_lines(found, lambda part: part.running, key=_start)[:A_PAGE],
        due=merge_lines(found, lambda part: part.due, key=lambda task: task.scheduled_at)[:A_LIST],
        ended=newest(lambda part: part.ended, A_LIST),
        slow=newest(lambda part: part.slow, A_SHORT_LIST),
        often_tried=newest(lambda part: part.often_tried, A_SHORT_LIST),
        silent=found.silent,
    )


def read_scheduled_everywhere(
    wanted: TaskFilter, *, after: Key | None = None, is_open: bool = False
) -> ListedEverywhere:
    """
    Return a page of scheduled tasks: first the tasks with a worker, then waiting tasks by their dates.

    Raises:
        TooSlow: the statement would take too long.
    """
    found = _find_page("scheduled", list_scheduled, wanted, after=after, is_downwards=False, is_open=is_open)
    busy = merge_lines(found, lambda part: _busy(part.tasks), key=_start)
    waiting = merge_lines(found, lambda part: _waiting(part.tasks), key=lambda task: task.scheduled_at)
    shown = waiting[:A_PAGE]
    has_more = len(waiting) > A_PAGE or _has_next(found)
    is_cut = len(busy) > MOST_BUSY or any(part.is_cut for part in _parts(found).values())
    key = _key_of(shown[-1], shown[-1].line.scheduled_at) if has_more and shown else None
    return ListedEverywhere([*busy[:MOST_BUSY], *shown], key, is_cut, found.silent)


def read_archived_everywhere(
    wanted: TaskFilter, *, after: Key | None = None, is_open: bool = False
) -> ListedEverywhere:
    """
    Return a page of ended tasks, the last ended first.

    Raises:
        TooSlow: the statement would take too long.
    """
    found = _find_page("archived", list_archived, wanted, after=after, is_downwards=True, is_open=is_open)
    tasks: list[Placed[ArchivedTask]] = merge_lines(
        found, lambda part: part.tasks, key=lambda task: task.archived_at, is_downwards=True
    )
    shown = tasks[:A_PAGE]
    has_more = len(tasks) > A_PAGE or _has_next(found)
    key = _key_of(shown[-1], shown[-1].line.archived_at) if has_more and shown else None
    return ListedEverywhere(shown, key, silent=found.silent)


def read_templates_everywhere(*, after: TemplateKey | None = None, is_open: bool = False) -> CountedEverywhere:
    """Return a page of templates with their next runs, sorted by name, then by partition."""
    found: Merged[tuple[Sequence[TemplateSeen], int]]
    if after is None:
        found = _find("templates", _ANY, is_open=is_open)
    else:
        key = after

        def part(name: str) -> tuple[Sequence[TemplateSeen], int]:
            return read_templates(Q(urn__gte=key.urn) if name > key.partition else Q(urn__gt=key.urn))

        found = read_everywhere(lambda: part(""), part)
    rows = [Placed(one, name) for name, (seen, _in_all) in _parts(found).items() for one in seen]
    if found.others:
        rows.sort(key=lambda one: one.line.template.urn)
    return CountedEverywhere(rows[:MOST_TEMPLATES], _in_all(found), found.silent, len(rows) > MOST_TEMPLATES)


def read_roster_everywhere(*, after: WorkerKey | None = None, is_open: bool = False) -> CountedEverywhere:
    """Return a page of the task workers with their tasks, one partition after the other."""
    found: Merged[tuple[Sequence[TaskWorker], int]]
    if after is None:
        found = _find("workers", _ANY, is_open=is_open)
    else:
        key = after

        def part(name: str) -> tuple[Sequence[TaskWorker], int]:
            if name != key.partition:
                return read_roster(_NO_ROW if name < key.partition else Q())
            return read_roster(Q(since__gt=key.since) | Q(since=key.since, id__gt=key.id))

        found = read_everywhere(lambda: part(""), part)
    rows = [Placed(one, name) for name, (seen, _in_all) in _parts(found).items() for one in seen]
    return CountedEverywhere(rows[:MOST_WORKERS], _in_all(found), found.silent, len(rows) > MOST_WORKERS)


def sum_of_statistics(parts: Sequence[Statistics]) -> Statistics:
    """
    Return the statistics of several partitions together. In the averages, each partition has the weight of its number
    of ended tasks.
    """
    first, *others = parts
    if not others:
        return first
    return Statistics(
        at=first.at,
        group=first.group,
        queued=sum(part.queued for part in parts),
        running=sum(part.running for part in parts),
        postponed=sum(part.postponed for part in parts),
        zombies=sum(part.zombies for part in parts),
        workers=sum(part.workers for part in parts),
        throughput=sum(part.throughput for part in parts),
        averaged=sum(part.averaged for part in parts),
        latency=_average([(part.latency, part.averaged) for part in parts]),
        execution_time=_average([(part.execution_time, part.averaged) for part in parts]),
    )


def _average(parts: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in parts if value is not None and weight]
    weights = sum(weight for _value, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else None


def _find(what: str, wanted: TaskFilter, *, is_open: bool) -> Merged[Any]:
    """Read a list in all partitions; for an open page, answers of other partitions may be some seconds old."""
    read = _READ[what]
    if not is_open or not this_partition.control_name():
        return read_everywhere(lambda: read(wanted), lambda _name: read(wanted))
    own, cached = read(wanted), _cached(what, wanted).answers()
    return Merged(own) if cached is None else cached.with_own(own)


@lru_cache(maxsize=_LISTS_CACHED)
def _cached(what: str, wanted: TaskFilter) -> HeldAnswers[Any]:
    def read(_name: str) -> Any:
        try:
            return _READ[what](wanted)
        except TooSlow:
            # Silent partitions are not named again: the page named them when it was opened.
            return None

    return HeldAnswers(read)


def _find_page(
    what: str,
    read: Callable[..., Listed],
    wanted: TaskFilter,
    *,
    after: Key | None,
    is_downwards: bool,
    is_open: bool,
) -> Merged[Listed]:
    if after is None:
        return _find(what, wanted, is_open=is_open)

    def part(name: str) -> Listed:
        return read(wanted, after=key_in_partition(after, name, is_downwards=is_downwards))

    return read_everywhere(lambda: part(""), part)


def key_in_partition(after: Key, partition: str, *, is_downwards: bool) -> Key:
    """
    Return the key behind which a partition has the tasks of the next page.

    Tasks with the same date are sorted by partition, because task numbers mean nothing in another partition.
    """
    if partition == after.partition:
        return after
    has_shown_them = partition < after.partition
    return Key(after.at, _LAST if has_shown_them is not is_downwards else _FIRST, partition)


def _key_of(last: Placed[Any], at: dt.datetime) -> Key:
    return Key(at, last.line.pk, last.partition)


def _parts(found: Merged[T]) -> dict[str, T]:
    return {"": found.own, **dict(sorted(found.others.items()))}


def _has_next(found: Merged[Listed]) -> bool:
    return any(part.next is not None for part in _parts(found).values())


def _in_all(found: Merged[tuple[Sequence[Any], int]]) -> int:
    return sum(in_all for _seen, in_all in _parts(found).values())


def _start(task: Task) -> dt.datetime:
    return task.started_at or _NEVER


def _busy(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.worker_id is not None]


def _waiting(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.worker_id is None]
