"""Serving bins: the decision which document starts next, and when."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.web.urls import bin_of
from jobs.loops.worker.host_queue import BinQueue, OpenTurn, PacedBin
from jobs.loops.worker.jobs import JobAtWork
from jobs.loops.worker.state import WorkerState
from jobs.loops.worker.timer import Timer
from jobs.loops.worker.writing import Ended
from jobs.metrics import crawl
from jobs.queue.take import Claimed, TurnTaken
from jobs.throttling.bins import LONGEST_PLAN
from jobs.traps.quarantine import TRAP

# Seconds for which a bin without a turn is remembered.
_BIN_KEPT: Final = 20.0


class Serving:
    """
    The bins that a worker serves. It starts documents as their pace, open requests and the worker's own limit allow.

    `process` fetches one document, and calls back when it has ended.
    """

    def __init__(
        self,
        state: WorkerState,
        *,
        process: Callable[["Serving", BinQueue, OpenTurn, Claimed, JobAtWork], Coroutine[Any, Any, None]],
    ) -> None:
        self._state = state
        self._process = process
        self._loop = asyncio.get_running_loop()
        self.tasks: dict[asyncio.Task[None], BinQueue] = {}
        # True if a bin could not start a document because the worker may begin no request.
        self.was_held = False
        # Bins that wait only because the worker has reached its limit of documents in progress.
        self._waiting_for_limit: dict[int, BinQueue] = {}
        self._timers: dict[int, Timer] = {}
        self._parents: dict[int, PacedBin] = {}
        # Documents that the successor of each bin's turn will bring, so that the pace of the bin does not stop.
        self._awaited: dict[int, int] = {}

    @property
    def awaited_documents(self) -> int:
        """Return the number of documents of coming successors, for which the worker keeps room."""
        return sum(self._awaited.values())

    @property
    def has_run_out(self) -> bool:
        """True if this worker has no documents, and so does nothing until the next batch."""
        return not self.tasks and not any(queue.waiting for queue in self._state.bins.at_work)

    @property
    def is_busy(self) -> bool:
        """True if more results will come before the next flush or take."""
        return len(self.tasks) > 1 or any(queue.waiting for queue in self._state.bins.at_work)

    def add(self, turn: TurnTaken) -> BinQueue:
        """Queue the documents of a turn in its bin. `dispatch` starts them."""
        now = self._loop.time()
        queue = self._state.bins.serve(turn.bin_id)
        if not turn.is_known and not turn.is_denied:
            for claimed in turn.documents:
                self._state.writer.expect_unknown(claimed.lane_id)
        if not_served := queue.add(turn, parents=self._parents_of(turn, now=now), now=now):
            # A flush is requested, because there may be no other result that triggers one.
            self._state.results.give_back(not_served)
        if turn.pace.wait > LONGEST_PLAN.total_seconds():
            # The turn was offered before its host began to back off. Its documents wait in their lane, where an
            # operator can end the back-off, and where the host is tried with one document first.
            self.give_back_waiting_of(queue, lambda _claimed: True)
        return queue

    def _parents_of(self, turn: TurnTaken, *, now: float) -> tuple[PacedBin, ...]:
        parents = [self._parents.setdefault(pace.bin_id, PacedBin(pace.bin_id)) for pace in turn.parents]
        for paced, pace in zip(parents, turn.parents, strict=True):
            paced.take_up(pace, now=now)
        return tuple(parents)

    def dispatch(self, queue: BinQueue) -> None:
        """
        Start the documents that the bin's pace and open requests allow now, and schedule a call for when they allow
        more.
        """
        if queue.is_denied:
            self._deny_waiting(queue)
        while queue.may_begin:
            if (held := hold_back_next(queue, self._state)) is not None:
                self._state.results.add_unread([held], within=self._state.settings.flush_after.total_seconds())
                continue
            # Not the loop's time: it stands still while the loop is busy, and could be before the last start.
            now = time.monotonic()
            if not self._state.node.may_begin():
                self.was_held = True
                return
            if len(self.tasks) >= self._state.settings.open_documents:
                self._waiting_for_limit[queue.bin_id] = queue
                break
            if (next_start := queue.next_start) > now:
                self._wait_until(next_start, queue.bin_id, now=now)
                break
            turn, claimed = queue.begin(now=now)
            job = self._state.job_of(claimed)
            if job is None:
                # The job was deleted or stopped after the batch was offered.
                queue.end(turn)
                self._state.results.give_back([claimed])
                continue
            task = self._loop.create_task(self._process(self, queue, turn, claimed, job))
            self.tasks[task] = queue
            task.add_done_callback(partial(self._task_ended, queue, turn, claimed))
        self.close_turns(queue)

    def _wait_until(self, next_start: float, bin_id: int, *, now: float) -> None:
        """Schedule a call at the next start of a bin. Replace the scheduled call if it would come later."""
        timer = self._timers.get(bin_id)
        if timer is not None:
            if timer.at <= next_start:
                return
            timer.cancel()
        else:
            crawl.WAITS.observe(next_start - now)
        self._timers[bin_id] = Timer(self._loop, next_start, self._on_time, bin_id)

    def dispatch_all(self) -> None:
        """Start documents in all bins."""
        self.was_held = False
        for queue in self._state.bins.at_work:
            self.dispatch(queue)

    def dispatch_sooner(self, queue: BinQueue) -> None:
        """Start documents of a bin whose next start may have moved to an earlier moment."""
        if (timer := self._timers.pop(queue.bin_id, None)) is not None:
            timer.cancel()
            self.dispatch(queue)

    def dispatch_others(self, queue: BinQueue, parents: tuple[PacedBin, ...]) -> None:
        """Start documents that a request of this bin delayed, in this bin and in other bins with the same parents."""
        self.dispatch(queue)
        if not any(paced.has_pace for paced in parents):
            return
        for other in self._state.bins.at_work:
            if other is not queue and other.waiting and any(paced in parents for paced in other.waiting[0][0].parents):
                self.dispatch(other)

    def _task_ended(self, queue: BinQueue, turn: OpenTurn, claimed: Claimed, task: asyncio.Task[None]) -> None:
        """Let the bins that have waited longest start documents, until the worker's limit is reached again."""
        del self.tasks[task]
        if task.cancelled():
            # The task was cancelled before its first step. So `process` never ran, and could not give the document
            # back.
            self.give_back_started(queue, turn, claimed)
        while self._waiting_for_limit and len(self.tasks) < self._state.settings.open_documents:
            self.dispatch(self._waiting_for_limit.pop(next(iter(self._waiting_for_limit))))

    def _deny_waiting(self, queue: BinQueue) -> None:
        """End the waiting documents of a denied bin without a request. Outputs keep their versions of them."""
        ended: list[Ended] = []
        for claimed in queue.drop_waiting(lambda _claimed: True):
            job = self._state.job_of(claimed)
            if job is None:
                self._state.results.give_back([claimed])
                continue
            ended.append(_unread(claimed, job, code="DENIED"))
            crawl.DENIED.add()
        self._state.results.add_unread(ended, within=self._state.settings.flush_after.total_seconds())

    def _on_time(self, bin_id: int) -> None:
        del self._timers[bin_id]
        if (queue := self._state.bins.find(bin_id)) is not None:
            self.dispatch(queue)

    def give_back_waiting(self, is_dropped: Callable[[Claimed], bool]) -> None:
        """Release documents that have not started, in all bins."""
        for queue in self._state.bins.at_work:
            self.give_back_waiting_of(queue, is_dropped)

    def give_back_waiting_of(self, queue: BinQueue, is_dropped: Callable[[Claimed], bool]) -> None:
        """Release documents of a bin that have not started."""
        self._state.results.give_back(queue.drop_waiting(is_dropped))
        self.close_turns(queue)

    def give_back_started(self, queue: BinQueue, turn: OpenTurn, claimed: Claimed) -> None:
        """Release a document whose request was cancelled."""
        queue.end(turn)
        self.close_turns(queue)
        if turn.parents:
            self.dispatch_others(queue, turn.parents)
        self._state.results.give_back([claimed])

    def close_turns(self, queue: BinQueue) -> None:
        """Close the ended turns of a bin, and move the bin to the recently served ones if it has no work."""
        closed = queue.close_ended()
        if awaited := queue.awaited:
            self._awaited[queue.bin_id] = awaited
        else:
            self._awaited.pop(queue.bin_id, None)
        self._state.bins.retire_if_idle(queue)
        if closed:
            self._state.results.close(closed, is_followed=bool(queue.turns))

    def cancel_tasks(self, queue: BinQueue | None = None) -> None:
        """Cancel the requests of a bin, or of all bins."""
        for task in [task for task, served in self.tasks.items() if queue is None or served is queue]:
            task.cancel()

    def forget_idle_bins(self) -> None:
        """Forget bins and parents that were not served for a while: the database has their pace."""
        before = self._loop.time() - _BIN_KEPT
        bins = self._state.bins
        bins.forget(before=before)
        used = {paced.bin_id for queue in bins.at_work for turn in queue.turns for paced in turn.parents}
        for bin_id, paced in list(self._parents.items()):
            if bin_id not in used and (paced.cadence.last_start or 0.0) < before:
                del self._parents[bin_id]


def hold_back_next(queue: BinQueue, state: WorkerState) -> Ended | None:
    """End the next document without a request if it is new and a suspect of its job holds it back; return its end."""
    _, claimed = queue.waiting[0]
    job = state.job_of(claimed)
    if job is None or job.facts.quarantine is None:
        return None
    document = claimed.document
    if claimed.is_known or job.facts.quarantine.group_of(document.identifier, host=bin_of(document.identifier)) is None:
        return None
    crawl.HELD_BACK.add()
    return _unread(queue.drop_next(), job, code=TRAP)


def _unread(claimed: Claimed, job: JobAtWork, *, code: str) -> Ended:
    """Return the end of a document without a request. Outputs keep their version of it."""
    activity = Activity(claimed.document, configuration=job.configuration)
    activity.out_of_reach(code=code)
    assert activity.outcome is not None
    return Ended(claimed, job, activity.outcome)
