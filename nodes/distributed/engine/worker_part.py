"""
The work of every node: it is a member, publishes the pools of its jobs, and runs the items assigned to it.

The thread that takes up shares also beats, so a node whose thread hangs loses its membership. This thread never waits
for a job: other threads run the jobs, and ask them for their pools.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from nodes.coordination.names import checked_pools
from nodes.coordination.port import Coordination, CoordinationError, NotMember, Unreachable
from nodes.distributed.engine.execution import JobOnNode
from nodes.distributed.engine.observer import ObserverGroup, Work
from nodes.distributed.engine.pools import KnownPool
from nodes.distributed.engine.schedule import back_off
from nodes.distributed.engine.sharing import change_of
from nodes.distributed.engine.switches import Switches
from nodes.distributed.engine.tuning import Tuning
from nodes.distributed.engine.wakeup import WakeUp
from nodes.life.trust_window import seconds_since_boot

logger = logging.getLogger(__name__)

# Interval at which a thread that reads a pool checks whether its period has changed (seconds).
_CHECK_INTERVAL: Final = 1.0


class WorkerPart:
    """A thread that beats and takes up shares, and for each job a thread that reads its pool."""

    def __init__(
        self,
        coordination: Coordination,
        jobs: Mapping[str, JobOnNode],
        *,
        tuning: Callable[[], Tuning],
        switches: Callable[[], Switches],
        observer: ObserverGroup,
        beat_every: dt.timedelta,
    ) -> None:
        self._coordination = coordination
        self._jobs = jobs
        self._tuning = tuning
        self._switches = switches
        self._observer = observer
        self._beat_every = beat_every.total_seconds()
        self._wake_up = WakeUp()
        self._closing = threading.Event()
        self._is_joined = False
        self._joins_in_a_row = 0
        self._lock = threading.Lock()
        self._pools = {job: KnownPool() for job in jobs}
        # Pools that are not yet published to the cluster.
        self._unreported: set[str] = set()
        self._threads = [
            threading.Thread(target=self._run, name=f"worker part of {coordination.node}", daemon=True),
            *(
                threading.Thread(target=self._check_pool_periodically, args=(job,), name=f"pool of {job}", daemon=True)
                for job in jobs
            ),
        ]

    def wake(self) -> None:
        self._wake_up.wake()

    def pool_of(self, job: str) -> KnownPool:
        with self._lock:
            return self._pools[job]

    def start(self) -> None:
        """
        Read the pools of all jobs, become a member, and start the threads.

        Raises:
            CoordinationError: the store does not answer, or refuses the connection.
        """
        for job in self._jobs:
            self._read_pool(job)
        self._join()
        for thread in self._threads:
            thread.start()

    def close(self, *, within: dt.timedelta) -> bool:
        """Tell all runs to stop, wait for them at most this time, and leave the cluster. Return True if all ended."""
        deadline = seconds_since_boot() + within.total_seconds()
        self._closing.set()
        for job in self._jobs.values():
            job.close()
        left = [
            name
            for name, job in self._jobs.items()
            if not job.wait(dt.timedelta(seconds=max(0.0, deadline - seconds_since_boot())))
        ]
        for name in left:
            logger.error("job %s has not ended within %g s", name, within.total_seconds())
        self._wake_up.close()
        if self._threads[0].ident is not None:
            self._threads[0].join()
        try:
            self._coordination.leave()
        except CoordinationError as error:
            logger.warning("node %s could not leave its cluster: %s", self._coordination.node, error)
        return not left

    # --- Shares ----------------------------------------------------------------------------------

    def _run(self) -> None:
        last_beat_at = seconds_since_boot()
        while not self._wake_up.is_closing:
            was_woken = self._wake_up.wait(last_beat_at + self._beat_every - seconds_since_boot())
            try:
                if not was_woken or seconds_since_boot() - last_beat_at >= self._beat_every:
                    last_beat_at = seconds_since_boot()
                    self._beat()
                self._take_up()
            except NotMember as error:
                logger.warning("%s", error)
                self._is_joined = False
                # Beat and join again in the next pass. Until then no node has the former items of this node.
                last_beat_at = float("-inf")
            except Unreachable as error:
                logger.warning("node %s cannot reach its cluster: %s", self._coordination.node, error)
            except CoordinationError as error:
                logger.error("node %s cannot work: %s", self._coordination.node, error)  # noqa: TRY400  # the message is complete
            except Exception:
                logger.exception("the worker's part of node %s failed", self._coordination.node)

    def _beat(self) -> None:
        if self._is_joined:
            self._coordination.beat()
            self._joins_in_a_row = 0
        elif not self._closing.is_set():
            self._join()

    def _join(self) -> None:
        """
        Become a member, or join again after another process took the name.

        Two processes of one name would displace each other endlessly, so each further join waits longer.
        """
        if self._joins_in_a_row:
            logger.warning(
                "node %s joins again; if this goes on, another process may have its name", self._coordination.node
            )
            self._closing.wait(min(back_off(self._joins_in_a_row).total_seconds(), self._beat_every * 6))
        with self._lock:
            pools = {job: pool.items for job, pool in self._pools.items()}
            self._unreported.clear()
        self._coordination.join(pools)
        self._joins_in_a_row += 1
        self._is_joined = True

    def _take_up(self) -> None:
        if not self._is_joined or self._closing.is_set():
            return
        self._report_pools()
        assigned = self._coordination.mine()
        switches = self._switches()
        wanted = {job: items for job, items in assigned.items() if job in self._jobs and not switches.disables(job)}
        change = change_of({name: job.items for name, job in self._jobs.items()}, wanted)
        if not change.ends and not change.begins:
            return
        with self._observer.work(Work.UPDATE_ASSIGNMENT):
            for job in sorted(change.ends):
                self._jobs[job].take_up(frozenset())
            for job, items in change.begins.items():
                self._jobs[job].take_up(items)

    # --- Pools -----------------------------------------------------------------------------------

    def _check_pool_periodically(self, job: str) -> None:
        asked_at = seconds_since_boot()
        failures = 1 if self.pool_of(job).problem else 0
        while not self._closing.is_set():
            wait = asked_at + self._seconds_to_next_read(job, failures) - seconds_since_boot()
            if wait > 0:
                self._closing.wait(min(wait, _CHECK_INTERVAL))
                continue
            asked_at = seconds_since_boot()
            self._read_pool(job)
            failures = failures + 1 if self.pool_of(job).problem else 0

    def _seconds_to_next_read(self, job: str, failures: int) -> float:
        """
        Return the seconds until a pool is read again. After a failed read, a pool without a check period is read again,
        too.
        """
        try:
            period = self._jobs[job].job.pool_check_period().total_seconds()
        except (Exception, SystemExit):
            logger.exception("job %s did not return the interval at which its pool is checked", job)
            period = 0.0
        if period > 0:
            return period
        return back_off(failures).total_seconds() if failures else float("inf")

    def _read_pool(self, job: str) -> None:
        """Read the pool of a job. Use this pool, or after a failure the last good pool for the time in the tuning."""
        before = self.pool_of(job)
        with self._observer.work(Work.CHECK_POOL):
            known = self._known_after(job, before)
        if known.problem and known.problem != before.problem:
            logger.error("failed to access the work pool of job %s: %s", job, known.problem)
        with self._lock:
            self._pools[job] = known
            if known.items != before.items:
                self._unreported.add(job)
        self._observer.pool_checked(job, items=len(known.items), problem=known.problem)
        if known.items != before.items:
            self.wake()

    def _known_after(self, job: str, before: KnownPool) -> KnownPool:
        now = seconds_since_boot()
        try:
            items = checked_pools({job: _collection_of_names(self._jobs[job].job.work_pool())})[job]
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the status shows any exception of a user's job
            problem = f"{type(error).__name__}: {error}"
            return before.after_failure(problem, keep=self._tuning().keep_failed_pool, now=now)
        return before.after_success(items, now=now)

    def _report_pools(self) -> None:
        with self._lock:
            unreported = {job: self._pools[job].items for job in self._unreported}
        for job, items in unreported.items():
            if self._coordination.change_pool(job, items):
                logger.info("job %s has %d items now", job, len(items))
            with self._lock:
                if self._pools[job].items == items:
                    self._unreported.discard(job)


def _collection_of_names(items: Collection[str]) -> Collection[str]:
    """Return the items. Raise TypeError for a string, because its letters would become items."""
    if isinstance(items, str | bytes):
        raise TypeError(f"a pool is a set of names, and not the text {items!r}")
    return items
