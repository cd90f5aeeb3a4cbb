"""
Events of a manager of distributed jobs, for metrics, pages and logs.

All methods are empty here. A subclass overrides the methods that it needs. They are called from many threads, must
return soon, and cannot break anything: their exceptions are logged.
"""

import datetime as dt
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from time import monotonic

from nodes.assignment.pools import WorkItem

logger = logging.getLogger(__name__)


class Work(StrEnum):
    """The kinds of work of a manager besides the jobs themselves, by the names that DJM has for their pools."""

    REBALANCE = "rebalance"
    CLEANING = "cleaning-task"
    UPDATE_ASSIGNMENT = "update-assignment"
    CHECK_POOL = "check-work-pool"
    PROLONG_LOCKS = "PersistentExpiringLockManager"


class Observer:
    """Receives all events. Durations are by this process's clock."""

    def started(self, node: str, jobs: Sequence[str], *, took: dt.timedelta) -> None:
        """Called when the manager of this node works, with these jobs."""

    def closed(self, node: str, *, took: dt.timedelta) -> None:
        """Called when the manager of this node has closed."""

    def work_begun(self, kind: Work) -> None:
        """Called when work of this kind begins."""

    def work_ended(self, kind: Work, *, took: dt.timedelta, failed: bool) -> None:
        """Called when work of this kind has ended."""

    def rebalanced(self, *, moved: int) -> None:
        """Called when the main node has stored the assignment. `moved` items changed nodes."""

    def plan_refused(self, why: str) -> None:
        """Called when a strategy returned an invalid plan. The earlier assignment stays."""

    def cleaned(self, jobs: frozenset[str]) -> None:
        """Called when the main node has removed the pools of these jobs, which no member can execute."""

    def pool_checked(self, job: str, *, items: int, problem: str) -> None:
        """Called when a job's pool was read. `items` is the number of items in use. `problem` is '' after a success."""

    def share_taken_up(self, job: str, items: frozenset[str]) -> None:
        """Called when the node gets other items of a job. `items` is empty if the node no longer runs the job."""

    def scheduled(self, job: str, items: frozenset[str], *, due_in: dt.timedelta) -> None:
        """Called when a run of a job with these items becomes due in `due_in`."""

    def run_begun(self, job: str, items: frozenset[str]) -> None:
        """Called when a run of a job begins. Its items are locked."""

    def run_ended(self, job: str, items: frozenset[str], *, took: dt.timedelta, failure: BaseException | None) -> None:
        """Called when a run of a job has ended."""

    def run_delayed(self, item: WorkItem, holder: str) -> None:
        """
        Called when a run could not begin because `holder` has the lock of this item. `holder` is '' if it is unknown.
        """

    def lock_lost(self, item: WorkItem) -> None:
        """Called when the lock of a running item could not be extended. The run was told to stop."""


class ObserverGroup(Observer):
    """Passes events to several observers. An exception of one is logged, and the others are still called."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    @contextmanager
    def work(self, kind: Work) -> Iterator[None]:
        """Report the beginning and the end of the work in the block, and its failure."""
        began_at = monotonic()
        self.work_begun(kind)
        failed = True
        try:
            yield
            failed = False
        finally:
            self.work_ended(kind, took=dt.timedelta(seconds=monotonic() - began_at), failed=failed)

    def started(self, node: str, jobs: Sequence[str], *, took: dt.timedelta) -> None:
        self._call_each(lambda observer: observer.started(node, jobs, took=took))

    def closed(self, node: str, *, took: dt.timedelta) -> None:
        self._call_each(lambda observer: observer.closed(node, took=took))

    def work_begun(self, kind: Work) -> None:
        self._call_each(lambda observer: observer.work_begun(kind))

    def work_ended(self, kind: Work, *, took: dt.timedelta, failed: bool) -> None:
        self._call_each(lambda observer: observer.work_ended(kind, took=took, failed=failed))

    def rebalanced(self, *, moved: int) -> None:
        self._call_each(lambda observer: observer.rebalanced(moved=moved))

    def plan_refused(self, why: str) -> None:
        self._call_each(lambda observer: observer.plan_refused(why))

    def cleaned(self, jobs: frozenset[str]) -> None:
        self._call_each(lambda observer: observer.cleaned(jobs))

    def pool_checked(self, job: str, *, items: int, problem: str) -> None:
        self._call_each(lambda observer: observer.pool_checked(job, items=items, problem=problem))

    def share_taken_up(self, job: str, items: frozenset[str]) -> None:
        self._call_each(lambda observer: observer.share_taken_up(job, items))

    def scheduled(self, job: str, items: frozenset[str], *, due_in: dt.timedelta) -> None:
        self._call_each(lambda observer: observer.scheduled(job, items, due_in=due_in))

    def run_begun(self, job: str, items: frozenset[str]) -> None:
        self._call_each(lambda observer: observer.run_begun(job, items))

    def run_ended(self, job: str, items: frozenset[str], *, took: dt.timedelta, failure: BaseException | None) -> None:
        self._call_each(lambda observer: observer.run_ended(job, items, took=took, failure=failure))

    def run_delayed(self, item: WorkItem, holder: str) -> None:
        self._call_each(lambda observer: observer.run_delayed(item, holder))

    def lock_lost(self, item: WorkItem) -> None:
        self._call_each(lambda observer: observer.lock_lost(item))

    def _call_each(self, what: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                what(observer)
            except Exception:
                logger.exception("an observer of distributed jobs failed")
