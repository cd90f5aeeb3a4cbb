"""The content of the pages of background tasks. Each list is bounded, however many tasks there are."""

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from django.db import connection, transaction
from django.db.models import Model, Q, QuerySet
from django.db.utils import OperationalError
from psycopg.errors import QueryCanceled

from nodes.database.clock import read_clock
from nodes.errors import Invalid, TooSlow
from nodes.tasks import verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from nodes.tasks.schedules import next_moments, read_schedule
from nodes.tasks.statistics import Statistics, read_statistics, slow_tasks, tasks_often_tried

_T = TypeVar("_T", bound=Model)

A_PAGE: Final = 50
# Largest number of tasks with a tag that counts as rare.
_RARE: Final = 2_000
# Largest numbers of tasks with a worker, of templates and of workers that a page shows.
MOST_BUSY: Final = 100
MOST_TEMPLATES: Final = 100
MOST_WORKERS: Final = 100
# Numbers of lines in the long and in the short lists on the first page of tasks.
A_LIST: Final = 10
A_SHORT_LIST: Final = 5
# The first page begins at any key, so it needs no condition.
_ALL: Final = Q()
# Longest time of a statement (milliseconds). If few of very many tasks pass a filter, the search may take longer.
_STATEMENT_TIMEOUT: Final = 5_000
# Upper limit of the numbers of tasks: the column holds only lower ones.
_NUMBERS: Final = 2**63
MADE_OF_TEMPLATE: Final = "template"

STATES: Final[dict[str, dict[str, Any]]] = {
    "waiting": {"worker": None},
    "assigned": {"worker__isnull": False, "started_at": None},
    "running": {"started_at__isnull": False},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Conditions of a list of tasks; an empty field means no condition. `why` and `since` apply to ended tasks only."""

    group: str = ""
    kind: str = ""
    tag: str = ""
    state: str = ""
    why: str = ""
    since: dt.datetime | None = None

    def condition(self) -> Q:
        """Return the condition of these filters."""
        named = {"group": self.group, "kind": self.kind, "why": self.why, "archived_at__gte": self.since}
        wanted = Q(**{name: value for name, value in named.items() if value})
        if self.tag:
            wanted &= verbs.tagged(self.tag)
        return wanted & Q(**STATES[self.state]) if self.state else wanted


class Key(NamedTuple):
    """The place of a task in its list: its date, its number, and the other partition that has it."""

    at: dt.datetime
    number: int
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """
    A page of a list. `next` is the key of its last task; None if no page follows. If `is_cut`, more tasks have a worker
    than the page shows.
    """

    tasks: Sequence[Any]
    next: Key | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksSeen:
    """The first page of tasks."""

    statistics: Statistics
    running: Sequence[Task]
    due: Sequence[Task]
    ended: Sequence[ArchivedTask]
    slow: Sequence[ArchivedTask]
    often_tried: Sequence[ArchivedTask]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSeen:
    """One task, scheduled or ended, with the numbers of its copies."""

    task: Task | ArchivedTask
    copies: Sequence[int]


@dataclass(frozen=True, slots=True)
class TemplateSeen:
    """A template with its next runs. It has no next run if another version of crawlctl stored its schedule."""

    template: TaskTemplate
    next_runs: Sequence[dt.datetime] = field(default_factory=tuple)


def scheduled(wanted: TaskFilter) -> QuerySet[Task]:
    """Return the scheduled tasks that pass a filter."""
    return Task.objects.filter(wanted.condition())


def archived(wanted: TaskFilter) -> QuerySet[ArchivedTask]:
    """Return the ended tasks that pass a filter."""
    return ArchivedTask.objects.filter(wanted.condition())


def read_tasks(*, group: str = "") -> TasksSeen:
    """Return the first page of tasks, of one group or of all."""
    of_group = Q(group=group) if group else Q()
    busy = _busy(Task.objects.filter(of_group)).filter(started_at__isnull=False)
    due = Task.objects.filter(of_group, worker=None).order_by("scheduled_at", "id")
    return TasksSeen(
        statistics=read_statistics(group=group),
        running=list(busy[:A_PAGE]),
        due=list(due[:A_LIST]),
        ended=list(ArchivedTask.objects.filter(of_group).order_by("-archived_at", "-id")[:A_LIST]),
        slow=list(slow_tasks(limit=A_SHORT_LIST, group=group)),
        often_tried=list(tasks_often_tried(limit=A_SHORT_LIST, group=group)),
    )


def list_scheduled(wanted: TaskFilter, *, after: Key | None = None) -> Listed:
    """
    Return a page of scheduled tasks: first the tasks with a worker, then the waiting ones by their dates.

    Raises:
        TooSlow: the statement would take too long.
    """
    with _patience():
        found = _narrowed(scheduled(wanted), wanted)
    waiting = found.filter(worker=None).order_by("scheduled_at", "id")
    with _patience():
        first = list(_busy(found)[: MOST_BUSY + 1]) if after is None else []
        if after is not None:
            waiting = waiting.extra(
                where=["(tasks_task.scheduled_at, tasks_task.id) > (%s, %s)"], params=[after.at, after.number]
            )
        rows = list(waiting[: A_PAGE + 1])
    shown = rows[:A_PAGE]
    key = Key(shown[-1].scheduled_at, shown[-1].pk) if len(rows) > A_PAGE else None
    return Listed([*first[:MOST_BUSY], *shown], key, is_cut=len(first) > MOST_BUSY)


def list_archived(wanted: TaskFilter, *, after: Key | None = None) -> Listed:
    """
    Return a page of ended tasks, the last ended first.

    Raises:
        TooSlow: the statement would take too long.
    """
    with _patience():
        found = _narrowed(archived(wanted), wanted).order_by("-archived_at", "-id")
    if after is not None:
        found = found.filter(archived_at__lte=after.at)
        found = found.extra(
            where=["(tasks_archivedtask.archived_at, tasks_archivedtask.id) < (%s, %s)"],
            params=[after.at, after.number],
        )
    with _patience():
        rows = list(found.defer("last_trace", "result")[: A_PAGE + 1])
    shown = rows[:A_PAGE]
    return Listed(shown, Key(shown[-1].archived_at, shown[-1].pk) if len(rows) > A_PAGE else None)


def count(chosen: QuerySet[Any], *, most: int) -> int:
    """
    Return the number of these tasks, or `most` + 1 if there are more than `most`.

    Raises:
        TooSlow: the statement would take too long.
    """
    with _patience():
        return chosen.order_by()[: most + 1].count()


def read_task(number: int) -> TaskSeen | None:
    """Return a task by its number; None if there is none, or if the cleaner has deleted it."""
    if number >= _NUMBERS:
        return None
    # A task may end between the two reads, but it never comes back from the archive.
    task = (
        Task.objects.filter(pk=number).select_related("worker").first()
        or ArchivedTask.objects.filter(pk=number).first()
    )
    if task is None:
        return None
    of_task = {"made_of": verbs.ARCHIVED, "made_of_urn": str(number)}
    copies = [
        *Task.objects.filter(**of_task).order_by("id").values_list("pk", flat=True)[:A_LIST],
        *ArchivedTask.objects.filter(**of_task).order_by("-id").values_list("pk", flat=True)[:A_LIST],
    ]
    return TaskSeen(task=task, copies=sorted(copies))


def read_templates(begin: Q = _ALL) -> tuple[Sequence[TemplateSeen], int]:
    """
    Return a page of templates by name, with their next runs, and the number of all templates.

    If another page follows, the last returned template is the first one of that page. `begin` is the condition of the
    page.
    """
    now = read_clock()
    seen = [see_template(one, now=now) for one in TaskTemplate.objects.filter(begin)[: MOST_TEMPLATES + 1]]
    return seen, TaskTemplate.objects.count() if begin or len(seen) > MOST_TEMPLATES else len(seen)


def see_template(template: TaskTemplate, *, now: dt.datetime) -> TemplateSeen:
    """Return a template with its next five runs."""
    try:
        return TemplateSeen(template, next_moments(read_schedule(template.schedule), after=now))
    except Invalid:
        return TemplateSeen(template)


def read_roster(begin: Q = _ALL) -> tuple[Sequence[TaskWorker], int]:
    """
    Return a page of workers with their tasks, the oldest first, and the number of all workers.

    If another page follows, the last returned worker is the first one of that page. `begin` is the condition of the
    page.
    """
    workers = list(TaskWorker.objects.select_related("task").filter(begin)[: MOST_WORKERS + 1])
    return workers, TaskWorker.objects.count() if begin or len(workers) > MOST_WORKERS else len(workers)


def _narrowed(found: QuerySet[_T], wanted: TaskFilter) -> QuerySet[_T]:
    """
    If the list is for a rare tag, return a query that selects its tasks by their numbers; otherwise return `found`.

    The planner does not know that a tag is rare, and would search all tasks in the order of the list.
    """
    if not wanted.tag:
        return found
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        rare = list(found.order_by().values_list("pk", flat=True)[: _RARE + 1])
        cursor.execute("SET LOCAL enable_seqscan = on")
    return found.filter(pk__in=rare) if len(rare) <= _RARE else found


def _busy(found: QuerySet[Task]) -> QuerySet[Task]:
    """Return the tasks with a worker, in the order of their starts."""
    return found.filter(worker__isnull=False).select_related("worker").order_by("started_at", "id")


@contextmanager
def _patience() -> Iterator[None]:
    """
    Limit the time of the statements of the block.

    Raises:
        TooSlow: a statement took too long.
    """
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(_STATEMENT_TIMEOUT)])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            sentence = (
                f"Too many tasks to look through in {_STATEMENT_TIMEOUT // 1000} seconds. Choose a group as well."
            )
            raise TooSlow(sentence) from None
        raise
