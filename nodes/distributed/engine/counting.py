"""Prometheus metrics of distributed jobs: `DistributedJobManager(…, observers=[CountingObserver(node_id)])`."""

import datetime as dt
import threading
from collections.abc import Sequence
from typing import Final

from nodes.assignment.pools import WorkItem
from nodes.distributed.engine import metrics as djm
from nodes.distributed.engine.manager import DistributedJobManager
from nodes.distributed.engine.observer import Observer, Work

_POOLS: Final = {kind: kind.value.replace("-", "_") for kind in Work}


def show_standing(manager: DistributedJobManager) -> None:
    """
    Export two metrics of a manager's node at each scrape: whether it is a member, and whether it is the main node.
    """
    djm.MEMBER.follow(lambda: manager.status().is_member, manager.node)
    djm.MAIN.follow(lambda: manager.status().leadership is not None, manager.node)


class CountingObserver(Observer):
    """Counts events of one node for its metrics. `node` is the id of its manager."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._lock = threading.Lock()
        # By job, the items of each run that waits until it is due.
        self._waiting: dict[str, set[frozenset[str]]] = {}

    def started(self, node: str, jobs: Sequence[str], *, took: dt.timedelta) -> None:
        djm.INIT.observe(took.total_seconds(), node)
        self._count_schedule(jobs=len(jobs), others=1)

    def closed(self, node: str, *, took: dt.timedelta) -> None:
        djm.CLOSE.observe(took.total_seconds(), node)
        with self._lock:
            self._waiting.clear()
        self._count_schedule(jobs=0, others=0)
        self._count_waiting()

    def work_begun(self, kind: Work) -> None:
        djm.POOL_ACTIVE[_POOLS[kind]].change(1, self._node)

    def work_ended(self, kind: Work, *, took: dt.timedelta, failed: bool) -> None:
        djm.POOL_ACTIVE[_POOLS[kind]].change(-1, self._node)
        djm.POOL_RUNS[_POOLS[kind]].observe(took.total_seconds(), self._node)
        djm.POOL_FAILURES[_POOLS[kind]].add(failed, self._node)

    def rebalanced(self, *, moved: int) -> None:
        djm.MOVED.add(moved, self._node)

    def plan_refused(self, why: str) -> None:
        djm.REFUSED_PLANS.add(1, self._node)

    def pool_checked(self, job: str, *, items: int, problem: str) -> None:
        djm.POOL_ITEMS.set(items, self._node, job)
        djm.POOL_PROBLEM.set(bool(problem), self._node, job)

    def share_taken_up(self, job: str, items: frozenset[str]) -> None:
        djm.SHARE.set(len(items), self._node, job)
        with self._lock:
            # Groups with items of the earlier share no longer wait. Groups of the new share may already be scheduled.
            self._waiting[job] = {waiting for waiting in self._waiting.get(job, set()) if waiting <= items}
        self._count_waiting()

    def scheduled(self, job: str, items: frozenset[str], *, due_in: dt.timedelta) -> None:
        with self._lock:
            # An item waits in one group only, so its earlier group no longer counts.
            others = {waiting for waiting in self._waiting.get(job, set()) if waiting.isdisjoint(items)}
            self._waiting[job] = others | {items}
        self._count_waiting()

    def run_begun(self, job: str, items: frozenset[str]) -> None:
        with self._lock:
            self._waiting.get(job, set()).discard(items)
        self._count_waiting()
        djm.POOL_ACTIVE[djm.SCHEDULER].change(1, self._node)
        djm.metrics_of(job).active.change(1, self._node, job)

    def run_ended(self, job: str, items: frozenset[str], *, took: dt.timedelta, failure: BaseException | None) -> None:
        djm.POOL_ACTIVE[djm.SCHEDULER].change(-1, self._node)
        djm.POOL_RUNS[djm.SCHEDULER].observe(took.total_seconds(), self._node)
        djm.POOL_FAILURES[djm.SCHEDULER].add(failure is not None, self._node)
        djm.RUNS.add(1, self._node, job, "ok" if failure is None else "failed")
        of_job = djm.metrics_of(job)
        of_job.active.change(-1, self._node, job)
        of_job.runs.observe(took.total_seconds(), self._node, job)

    def run_delayed(self, item: WorkItem, holder: str) -> None:
        djm.DELAYED_RUNS.add(1, self._node, item.job)

    def lock_lost(self, item: WorkItem) -> None:
        djm.LOST_LOCKS.add(1, self._node, item.job)

    def _count_schedule(self, *, jobs: int, others: int) -> None:
        djm.SCHEDULED["check_work_pool"].set(jobs, self._node)
        for pool in ("cleaning_task", "PersistentExpiringLockManager"):
            djm.SCHEDULED[pool].set(others, self._node)

    def _count_waiting(self) -> None:
        with self._lock:
            waiting = sum(map(len, self._waiting.values()))
        djm.SCHEDULED[djm.SCHEDULER].set(waiting, self._node)
