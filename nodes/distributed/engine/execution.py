"""
A job on one node, with the items assigned to it: its threads, and their end when the items move.

When its items change, the runs are told to stop. Threads for the new items wait until those runs have ended. Each item
keeps its own past, so that the schedule applies to the item in any group of items. The lock of an item shows the runs
of other nodes.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nodes.assignment.pools import WorkItem
from nodes.coordination.port import CoordinationError, LockSeen
from nodes.distributed.engine.context import JobContext
from nodes.distributed.engine.job import DistributedJob
from nodes.distributed.engine.locks import HeldLocks, RunLocks
from nodes.distributed.engine.observer import ObserverGroup
from nodes.distributed.engine.schedule import Past, Schedule, next_start, paced_from, past_of_group, ran_elsewhere
from nodes.distributed.engine.sharing import split
from nodes.distributed.engine.tuning import Tuning
from nodes.life.trust_window import seconds_since_boot

logger = logging.getLogger(__name__)

# Interval at which a waiting job is asked for its schedule, which may have changed (seconds).
_CHECK_INTERVAL: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """The objects that all jobs of a node share."""

    locks: HeldLocks
    observer: ObserverGroup
    tuning: Callable[[], Tuning]
    may_begin: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRuns:
    """
    The runs of a job on this node, in total since the manager began. Moments are by this node's clock.

    `problem` is the reason why the time of the next run is unknown, or ''.
    """

    items: frozenset[str] = frozenset()
    in_progress: int = 0
    runs: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    last_began_at: dt.datetime | None = None
    last_took: dt.timedelta | None = None
    last_failure: str = ""
    next_at: dt.datetime | None = None
    problem: str = ""


class JobOnNode:
    """One job on this node. Its items change over time."""

    def __init__(self, job_id: str, job: DistributedJob, node_context: NodeContext) -> None:
        self.job_id, self.job, self.node_context = job_id, job, node_context
        self._lock = threading.Lock()
        self._is_closed = False
        self._items: frozenset[str] = frozenset()
        self._pasts: dict[str, Past] = {}
        self._groups: list[_Group] = []
        self._ending: list[_Group] = []
        # Largest number of threads of the job, after this machine refused more threads. None without a refusal.
        self._most_threads: int | None = None
        self._runs = self._failures = 0
        self._last_began_at: dt.datetime | None = None
        self._last_took: dt.timedelta | None = None
        self._last_failure = ""
        self._problem = ""

    @property
    def items(self) -> frozenset[str]:
        with self._lock:
            return self._items

    def take_up(self, items: frozenset[str]) -> None:
        """
        From now on run the job with exactly these items. Without items, stop the job. Return without waiting.

        If this machine refuses a thread, the job runs no items, and the next call tries fewer threads.
        """
        with self._lock:
            if items == self._items or (self._is_closed and items):
                return
            before = self._groups
            self._ending = [group for group in (*self._ending, *before) if not group.has_ended]
            for group in before:
                group.stop()
            # The pasts of the earlier items set the time at which new items are due.
            known = items | self._items if self._items else frozenset()
            self._pasts = {item: past for item, past in self._pasts.items() if item in known}
            self._items = items
            parts = split(items, self._thread_count(items)) if items else ()
            self._groups = [_Group(self, part, number, ending=tuple(self._ending)) for number, part in enumerate(parts)]
            for number, group in enumerate(self._groups):
                try:
                    group.start()
                except RuntimeError as error:
                    self._give_up_threads(number, error)
                    break
            items = self._items
        self.node_context.observer.share_taken_up(self.job_id, items)

    def _give_up_threads(self, started: int, error: RuntimeError) -> None:
        """Stop the threads that could be started, and let the next call start half of them. The lock is held."""
        self._most_threads = max(1, started // 2)
        logger.error(
            "job %s could start only %d of its %d threads: %s; next attempt with %d threads",
            self.job_id,
            started,
            len(self._groups),
            error,
            self._most_threads,
        )
        for group in self._groups[:started]:
            group.stop()
        self._ending += self._groups[:started]
        self._groups, self._items = [], frozenset()

    def close(self) -> None:
        """Tell all runs to stop, and ignore later requests for runs. Return without waiting."""
        with self._lock:
            self._is_closed = True
        self.take_up(frozenset())

    def _thread_count(self, items: frozenset[str]) -> int:
        try:
            count = self.job.running_strategy()(items)
            if count >= 1:
                return count if self._most_threads is None else min(count, self._most_threads)
            logger.error("job %s requested %s threads for %d items: it gets 1 thread", self.job_id, count, len(items))
        except (Exception, SystemExit):
            logger.exception("the running strategy of job %s failed: the job gets 1 thread", self.job_id)
        return 1

    def wait(self, timeout: dt.timedelta) -> bool:
        """Wait for the end of all stopped runs, at most this time. Return True if they have ended."""
        deadline = seconds_since_boot() + timeout.total_seconds()
        with self._lock:
            ending = list(self._ending)
        return all(group.wait(max(0.0, deadline - seconds_since_boot())) for group in ending)

    def past_of(self, items: frozenset[str], *, taken_up_at: float) -> Past:
        """Return the past of a group of these items."""
        with self._lock:
            since = min((past.taken_up_at for past in self._pasts.values()), default=taken_up_at)
            for item in items:
                self._pasts.setdefault(item, Past(taken_up_at=since))
            return past_of_group((self._pasts[item] for item in items), self._pasts.values())

    def note_past(self, items: frozenset[str], past: Past) -> None:
        """Note that these items ran together."""
        with self._lock:
            self._pasts.update(dict.fromkeys(items, past))

    def note_runs_elsewhere(self, moments: Mapping[str, float], schedule: Schedule) -> bool:
        """
        Compare the moments in the store, from which the time to the next run of each item counts, with the runs on this
        node. Note the runs of other nodes. Return True if there are any.
        """
        with self._lock:
            ran = {
                item: self._pasts[item].with_run_elsewhere(moment)
                for item, moment in moments.items()
                if item in self._pasts and ran_elsewhere(schedule, self._pasts[item], moment)
            }
            self._pasts.update(ran)
        return bool(ran)

    def note_run(self, *, began_at: dt.datetime, took: dt.timedelta, failure: BaseException | None) -> None:
        with self._lock:
            self._runs += 1
            self._last_began_at, self._last_took = began_at, took
            if failure is not None:
                self._failures += 1
                self._last_failure = f"{type(failure).__name__}: {failure}"

    def note_invalid_schedule(self, error: Exception | SystemExit) -> None:
        """Note that the job returned no valid time for its next run."""
        problem = f"its schedule cannot be read: {type(error).__name__}: {error}"
        with self._lock:
            is_known, self._problem = problem == self._problem, problem
        # Log a new problem only: this function is called each second while the schedule is invalid.
        if not is_known:
            logger.error("the schedule of job %s cannot be read; next attempt soon", self.job_id, exc_info=error)

    def note_time(self) -> None:
        """Note that the job returned a valid time for its next run."""
        with self._lock:
            had_problem, self._problem = bool(self._problem), ""
        if had_problem:
            logger.info("the schedule of job %s can be read again", self.job_id)

    def seen(self, *, now: dt.datetime) -> JobRuns:
        """Return the status of the job."""
        moment = seconds_since_boot()
        with self._lock:
            groups = [*self._groups, *(group for group in self._ending if not group.has_ended)]
            due = [due for group in self._groups if (due := group.due_at) is not None]
            return JobRuns(
                items=self._items,
                in_progress=sum(group.is_running for group in groups),
                runs=self._runs,
                failures=self._failures,
                failures_in_a_row=max((group.past.failures for group in self._groups), default=0),
                last_began_at=self._last_began_at,
                last_took=self._last_took,
                last_failure=self._last_failure,
                next_at=now + dt.timedelta(seconds=max(0.0, min(due) - moment)) if due else None,
                problem=self._problem if self._groups else "",
            )


class _Group:
    """A thread that runs a job repeatedly with some of its items."""

    def __init__(
        self,
        owner: JobOnNode,
        items: frozenset[str],
        number: int,
        *,
        ending: Sequence["_Group"],
    ) -> None:
        self._owner = owner
        self._node_context = owner.node_context
        self._items = items
        self._locked = tuple(WorkItem(owner.job_id, item) for item in sorted(items))
        self._ending = ending
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._context: JobContext | None = None
        self._reported_due: float | None = None
        # The last valid schedule of the job. It also applies to a run that has begun.
        self._schedule = Schedule.by_delay(dt.timedelta())
        self.past = Past(taken_up_at=seconds_since_boot())
        self.due_at: float | None = None
        self._thread = threading.Thread(target=self._live, name=f"{owner.job_id} {number}", daemon=True)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def is_running(self) -> bool:
        return self._context is not None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin no further run, and tell the current run to stop. Return without waiting."""
        with self._lock:
            self._stopping.set()
            if self._context is not None:
                self._context.stop()

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def _live(self) -> None:
        try:
            self._wait_for_earlier_groups()
            while not self._stopping.is_set():
                pause = self._seconds_to_next_run()
                if pause > 0:
                    self._stopping.wait(min(pause, _CHECK_INTERVAL))
                elif not self._node_context.may_begin():
                    self._stopping.wait(_CHECK_INTERVAL)
                else:
                    self._run_or_delay()
        finally:
            self._ended.set()

    def _wait_for_earlier_groups(self) -> None:
        """
        Wait until the earlier groups have ended. Then take over the past of these items, with the runs of those groups.
        """
        limit = self._node_context.tuning().stop_within.total_seconds()
        deadline = seconds_since_boot() + limit
        for group in self._ending:
            while not group.has_ended and not self._stopping.is_set() and seconds_since_boot() < deadline:
                group.wait(0.1)
        if any(not group.has_ended for group in self._ending) and not self._stopping.is_set():
            # The current items of these runs stay locked, so no other node begins them.
            logger.error("a run of job %s has not ended %g s after it was told to stop", self._owner.job_id, limit)
        self.past = self._owner.past_of(self._items, taken_up_at=self.past.taken_up_at)
        self._ending = ()

    def _seconds_to_next_run(self) -> float:
        """Return the time until the next run is due (seconds)."""
        try:
            schedule, initial_delay = self._owner.job.schedule(), self._owner.job.initial_delay()
            due = next_start(schedule, self.past, initial_delay=initial_delay)
            self._schedule = schedule
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the status shows any exception of a user's job
            # An invalid schedule must not end this thread, because the job would then never run again.
            self.due_at = None
            self._owner.note_invalid_schedule(error)
            return _CHECK_INTERVAL
        self.due_at = due
        self._owner.note_time()
        pause = due - seconds_since_boot()
        if due != self._reported_due:
            self._reported_due = due
            due_in = dt.timedelta(seconds=max(0.0, pause))
            self._node_context.observer.scheduled(self._owner.job_id, self._items, due_in=due_in)
        return pause

    def _run_or_delay(self) -> None:
        run_locks: RunLocks | LockSeen | None = None

        def remaining() -> dt.timedelta:
            return run_locks.remaining() if isinstance(run_locks, RunLocks) else dt.timedelta()

        context = JobContext(self._items, remaining=remaining, job=self._owner.job_id)
        try:
            run_locks = self._node_context.locks.take(
                self._locked, wanted=lambda: not (self._stopping.is_set() or context.should_stop), stop=context.stop
            )
        except CoordinationError as error:
            logger.warning("job %s cannot lock its items: %s", self._owner.job_id, error)
        if isinstance(run_locks, RunLocks):
            try:
                if not self._is_too_soon(run_locks) and self._may_begin(context):
                    self._run(context, run_locks)
            finally:
                self._context = None
                run_locks.let_go()
            return
        if run_locks is not None:
            self._node_context.observer.run_delayed(run_locks.item, run_locks.holder)
        again = self._node_context.tuning().try_again
        self._stopping.wait((again if run_locks is None else min(again, run_locks.remaining)).total_seconds())

    def _is_too_soon(self, run_locks: RunLocks) -> bool:
        """True if other nodes ran some of the items since this node did, so that the run is not due yet."""
        if self._owner.note_runs_elsewhere(run_locks.paced_from(), self._schedule):
            self.past = self._owner.past_of(self._items, taken_up_at=self.past.taken_up_at)
            return next_start(self._schedule, self.past) > seconds_since_boot()
        return False

    def _may_begin(self, context: JobContext) -> bool:
        """
        Return True if the run may begin, and make it the current run. Return False if something told it to stop
        meanwhile.
        """
        with self._lock:
            if self._stopping.is_set() or context.should_stop or not self._node_context.may_begin():
                return False
            self._context = context
            return True

    def _run(self, context: JobContext, run_locks: RunLocks) -> None:
        job_id, observer = self._owner.job_id, self._node_context.observer
        began_at, started_at, planned_at = dt.datetime.now(dt.UTC), seconds_since_boot(), self.due_at
        failure: BaseException | None = None
        observer.run_begun(job_id, self._items)
        try:
            self._owner.job.run(context)
        except BaseException as error:
            # SystemExit and similar exceptions, too: they end a run, but not the job.
            failure = error
            logger.exception("job %s failed; it will run again", job_id)
        ended_at = seconds_since_boot()
        took = dt.timedelta(seconds=ended_at - started_at)
        self.past = self.past.with_run(
            planned_at=started_at if planned_at is None else planned_at,
            started_at=started_at,
            ended_at=ended_at,
            failed=failure is not None,
        )
        self._owner.note_past(self._items, self.past)
        run_locks.pace_from(paced_from(self._schedule, started_at=started_at, ended_at=ended_at))
        self._owner.note_run(began_at=began_at, took=took, failure=failure)
        observer.run_ended(job_id, self._items, took=took, failure=failure)
