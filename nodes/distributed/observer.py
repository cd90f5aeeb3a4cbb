"""
What a manager of distributed jobs tells of its work, for metrics, pages and logs.

All methods do nothing here; whoever wants to know something overrides it. They are called from many threads, must return
soon, and cannot break anything: what one raises is logged.
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
    """The kinds of work of a manager besides the jobs themselves, by the names that the original has for their pools."""

    REBALANCE = "rebalance"
    CLEANING = "cleaning-task"
    UPDATE_ASSIGNMENT = "update-assignment"
    CHECK_POOL = "check-work-pool"
    PROLONG_LOCKS = "PersistentExpiringLockManager"


class Observer:
    """Told of everything; durations are of this process's clock."""

    def started(self, node: str, jobs: Sequence[str], *, took: dt.timedelta) -> None:
        """The manager of this node works, with these jobs."""

    def closed(self, node: str, *, took: dt.timedelta) -> None:
        """The manager of this node has closed."""

    def work_begun(self, kind: Work) -> None:
        """Something of this kind begins."""

    def work_ended(self, kind: Work, *, took: dt.timedelta, failed: bool) -> None:
        """It has ended."""

    def rebalanced(self, *, moved: int) -> None:
        """The main has written who does what; so many items came to another node."""

    def plan_refused(self, why: str) -> None:
        """A strategy came to what cannot be; what was assigned before stays."""

    def cleaned(self, jobs: frozenset[str]) -> None:
        """The main has forgotten the pools of these jobs, which no member can do."""

    def pool_checked(self, job: str, *, items: int, problem: str) -> None:
        """A job was asked for its pool: what counts now has so many items. `problem` is empty where all went well."""

    def share_taken_up(self, job: str, items: frozenset[str]) -> None:
        """The node does these items of a job from now on; none: it does the job no more."""

    def scheduled(self, job: str, items: frozenset[str], *, due_in: dt.timedelta) -> None:
        """A job will run with these items in so long."""

    def run_begun(self, job: str, items: frozenset[str]) -> None:
        """A run of a job begins; its items are locked."""

    def run_ended(self, job: str, items: frozenset[str], *, took: dt.timedelta, failure: BaseException | None) -> None:
        """It has ended."""

    def run_put_off(self, item: WorkItem, holder: str) -> None:
        """A run could not begin, since somebody has this item in hand; `holder` is empty where nobody can tell who."""

    def lock_lost(self, item: WorkItem) -> None:
        """The lock of an item of a run in hand could not be prolonged; the run was told to stop."""


class Telling(Observer):
    """Tells several observers; one that fails is logged, and keeps no other from being told."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    @contextmanager
    def work(self, kind: Work) -> Iterator[None]:
        """Tell of something that is done meanwhile."""
        began_at = monotonic()
        self.work_begun(kind)
        failed = True
        try:
            yield
            failed = False
        finally:
            self.work_ended(kind, took=dt.timedelta(seconds=monotonic() - began_at), failed=failed)

    def started(self, node: str, jobs: Sequence[str], *, took: dt.timedelta) -> None:
        self._tell(lambda observer: observer.started(node, jobs, took=took))

    def closed(self, node: str, *, took: dt.timedelta) -> None:
        self._tell(lambda observer: observer.closed(node, took=took))

    def work_begun(self, kind: Work) -> None:
        self._tell(lambda observer: observer.work_begun(kind))

    def work_ended(self, kind: Work, *, took: dt.timedelta, failed: bool) -> None:
        self._tell(lambda observer: observer.work_ended(kind, took=took, failed=failed))

    def rebalanced(self, *, moved: int) -> None:
        self._tell(lambda observer: observer.rebalanced(moved=moved))

    def plan_refused(self, why: str) -> None:
        self._tell(lambda observer: observer.plan_refused(why))

    def cleaned(self, jobs: frozenset[str]) -> None:
        self._tell(lambda observer: observer.cleaned(jobs))

    def pool_checked(self, job: str, *, items: int, problem: str) -> None:
        self._tell(lambda observer: observer.pool_checked(job, items=items, problem=problem))

    def share_taken_up(self, job: str, items: frozenset[str]) -> None:
        self._tell(lambda observer: observer.share_taken_up(job, items))

    def scheduled(self, job: str, items: frozenset[str], *, due_in: dt.timedelta) -> None:
        self._tell(lambda observer: observer.scheduled(job, items, due_in=due_in))

    def run_begun(self, job: str, items: frozenset[str]) -> None:
        self._tell(lambda observer: observer.run_begun(job, items))

    def run_ended(self, job: str, items: frozenset[str], *, took: dt.timedelta, failure: BaseException | None) -> None:
        self._tell(lambda observer: observer.run_ended(job, items, took=took, failure=failure))

    def run_put_off(self, item: WorkItem, holder: str) -> None:
        self._tell(lambda observer: observer.run_put_off(item, holder))

    def lock_lost(self, item: WorkItem) -> None:
        self._tell(lambda observer: observer.lock_lost(item))

    def _tell(self, what: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                what(observer)
            except Exception:
                logger.exception("an observer of distributed jobs failed")
