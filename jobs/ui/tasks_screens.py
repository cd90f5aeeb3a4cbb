"""
The texts of the lists of background tasks of all partitions; see `nodes.web.screens` for the structure of a screen.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from jobs.partitions import this_partition
from jobs.partitions.merged import Placed
from jobs.partitions.this_partition import addresses_in, key_in
from jobs.queries.tasks import CountedEverywhere, ListedEverywhere, TasksEverywhere, sum_of_statistics
from nodes.tasks.pages.screens import (
    ended_row,
    numbers_of_tasks,
    running_row,
    scheduled_row,
    template_row,
    warning_about_tasks,
    worker_row,
)
from nodes.tasks.queries import MOST_BUSY
from nodes.web import formats
from nodes.web.screens import Record

T = TypeVar("T")

# Cells of the first page that are counts. Only counts get "at least" if a partition does not answer.
_COUNTS = ("queued_count", "running_count", "postponed_count", "zombies_count", "workers_count", "throughput")


def tasks_screen(seen: TasksEverywhere, *, now: dt.datetime) -> Record:
    numbers = numbers_of_tasks(sum_of_statistics(list(seen.statistics.values())))
    if seen.silent:
        numbers = {**numbers, **{name: _("at least %(n)s") % {"n": numbers[name]} for name in _COUNTS}}
    return {
        **numbers,
        "warning": _warnings(seen),
        "running": _rows(seen.running, running_row, now=now),
        "due": _rows(seen.due, scheduled_row, now=now),
        "ended": _rows(seen.ended, ended_row, now=now),
        "slow": _rows(seen.slow, ended_row, now=now),
        "often": _rows(seen.often_tried, ended_row, now=now),
    }


def scheduled_screen(listed: ListedEverywhere, *, now: dt.datetime) -> Record:
    cut = _("Only the first %(n)d tasks with a worker are shown. Choose a group for the others.") % {"n": MOST_BUSY}
    return {"tasks": _rows(listed.tasks, scheduled_row, now=now), "cut": cut if listed.is_cut else ""}


def archived_screen(listed: ListedEverywhere, *, now: dt.datetime) -> Record:
    return {"tasks": _rows(listed.tasks, ended_row, now=now)}


def roster_screen(found: CountedEverywhere, *, now: dt.datetime, is_first: bool = True) -> Record:
    return {"workers": _rows(found.rows, worker_row, now=now), "more": _more(found) if is_first else ""}


def templates_screen(found: CountedEverywhere, *, now: dt.datetime, is_first: bool = True) -> Record:
    return {"templates": _rows(found.rows, template_row, now=now), "more": _more(found) if is_first else ""}


def _more(found: CountedEverywhere) -> str:
    return formats.more(found.in_all - len(found.rows))


def _warnings(seen: TasksEverywhere) -> str:
    """Return a warning for each partition in which no worker takes due tasks."""
    found = {name: warning_about_tasks(statistics) for name, statistics in seen.statistics.items()}
    own = this_partition.control_name()
    return " ".join(f"{name or own}: {said}" if own else said for name, said in found.items() if said)


def _rows(lines: Sequence[Placed[T]], row: Callable[..., Record], *, now: dt.datetime) -> list[Record]:
    return [_row(one, row, now=now) for one in lines]


def _row(one: Placed[Any], row: Callable[..., Record], *, now: dt.datetime) -> Record:
    with addresses_in(one.partition):
        made = row(one.line, now=now)
    partition = _("In partition %(name)s") % {"name": one.partition} if one.partition else ""
    return {**made, "key": key_in(one.partition, made["key"]), "partition": partition}
