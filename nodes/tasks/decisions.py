"""Decisions of the recruiter: which worker gets which task, and which workers are lost. Arithmetic only."""

import datetime as dt
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

# The group of a worker that takes tasks of every group.
ANY: Final = "*"
# Largest number of workers of one group that get a task in one cycle. The next cycle follows immediately.
MOST_A_GROUP: Final = 42


@dataclass(frozen=True, slots=True)
class FreeWorker:
    """A worker of the roster without a task."""

    id: UUID
    work_on: str


@dataclass(frozen=True, slots=True)
class DueTask:
    """A task that is due and has no worker."""

    id: int
    group: str
    scheduled_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Assignment:
    """Decision: this worker gets this task."""

    task: int
    worker: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """
    A worker as the recruiter sees it.

    `is_gone` is True if its process is known to have ended: it ran on the machine of the recruiter.
    """

    id: UUID
    silence: dt.timedelta
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Retire:
    """Decision: this worker leaves the roster. The reason is a sentence for people."""

    worker: UUID
    reason: str


def groups_wanted(workers: Iterable[FreeWorker]) -> dict[str, int]:
    """Return the number of due tasks of each group that are needed to decide; `*` stands for any group."""
    wanted: defaultdict[str, int] = defaultdict(int)
    for worker in workers:
        wanted[worker.work_on] = min(MOST_A_GROUP, wanted[worker.work_on] + 1)
    # The workers of groups may take the oldest tasks before a worker for any group gets its turn.
    if ANY in wanted:
        wanted[ANY] = sum(wanted.values())
    return dict(wanted)


def assign(workers: Sequence[FreeWorker], tasks: Iterable[DueTask]) -> list[Assignment]:
    """
    Return the assignments of tasks to workers: each task at most once, each worker at most one.

    Within a group the oldest due task goes first. Workers of one group come before workers of all groups, so that the
    latter stay free for other groups.
    """
    waiting: defaultdict[str, deque[DueTask]] = defaultdict(deque)
    for task in sorted({task.id: task for task in tasks}.values(), key=_order):
        waiting[task.group].append(task)
    given: defaultdict[str, int] = defaultdict(int)
    assigned: list[Assignment] = []
    for worker in sorted(workers, key=lambda worker: worker.work_on == ANY):
        queues = [waiting[worker.work_on]] if worker.work_on != ANY else list(waiting.values())
        queue = min(filter(None, queues), key=lambda queue: _order(queue[0]), default=None)
        if queue is not None and given[worker.work_on] < MOST_A_GROUP:
            given[worker.work_on] += 1
            assigned.append(Assignment(task=queue.popleft().id, worker=worker.id))
    return assigned


def _order(task: DueTask) -> tuple[dt.datetime, int]:
    return task.scheduled_at, task.id


def retire(workers: Iterable[WorkerSeen], *, dead_after: dt.timedelta) -> list[Retire]:
    """Return the workers that are lost: their process has ended, or they were silent for longer than `dead_after`."""
    lost = []
    for worker in workers:
        if worker.is_gone:
            lost.append(Retire(worker.id, "its process has ended"))
        elif worker.silence > dead_after:
            lost.append(Retire(worker.id, f"it was silent for {worker.silence.total_seconds():.0f} s"))
    return lost
