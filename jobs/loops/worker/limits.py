"""Present limits: edits of policies and denials reach the turns that a worker already serves."""

from collections.abc import Iterable, Mapping

from jobs.loops.worker.host_queue import BinQueue
from jobs.loops.worker.serving import Serving
from jobs.loops.worker.state import WorkerState
from jobs.queue.pace.limits import InForce, read_limits


class Limits:
    """Reads the limits of bins again, and applies them to the bins that this worker serves."""

    def __init__(self, state: WorkerState, serving: Serving) -> None:
        self._state, self._serving = state, serving

    async def refresh(self) -> None:
        """Apply the present limits to all bins with a turn, and to their parents."""
        served = [queue for queue in self._state.bins.at_work if queue.turns]
        above = [paced.bin_id for queue in served for turn in queue.turns for paced in turn.parents]
        self.apply(await self.read([*(queue.bin_id for queue in served), *above]))

    async def read(self, bins: Iterable[int]) -> dict[int, InForce]:
        """Read the present limits of these bins from the database; return them by the id of the bin."""
        if not (asked := list(bins)):
            return {}
        clock = self._state.clock
        return await self._state.database.run(
            lambda connection: read_limits(connection, bins=asked, now=clock.now(connection))
        )

    def apply(self, in_force: Mapping[int, InForce]) -> None:
        """Apply these limits to the bins of this worker."""
        if not in_force:
            return
        mine = {
            queue.bin_id: queue
            for queue in self._state.bins.at_work
            if queue.turns and (queue.bin_id in in_force or any(paced.bin_id in in_force for paced in queue.paces))
        }
        paces = {paced for queue in mine.values() for paced in queue.paces}
        # Waiting documents return to the queue in two cases: the limits became stricter, so this worker would need too
        # long for these documents, or the open turns are no longer within the limits.
        given_back = {
            paced
            for paced in paces
            if paced.bin_id in in_force
            and (paced.apply_limits(in_force[paced.bin_id].limits) or not in_force[paced.bin_id].is_kept)
        }
        for queue in mine.values():
            self._apply_to(queue, in_force.get(queue.bin_id), is_given_back=bool(given_back & queue.paces))

    def _apply_to(self, queue: BinQueue, in_force: InForce | None, *, is_given_back: bool) -> None:
        if in_force is not None and in_force.limits.denied:
            queue.is_denied = True
            self._serving.cancel_tasks(queue)
            self._serving.dispatch(queue)
        elif in_force is not None and in_force.limits.closed_until is not None:
            # The documents return to their lane, and wait there until the stop ends.
            self._serving.give_back_waiting_of(queue, lambda _claimed: True)
            self._serving.cancel_tasks(queue)
        elif is_given_back:
            self._serving.give_back_waiting_of(queue, lambda _claimed: True)
        else:
            self._serving.dispatch_sooner(queue)
