"""Taking: a worker gets as many batches as it has room for."""

import asyncio
from typing import Final

from jobs.loops.worker.flushing import Flushing
from jobs.loops.worker.limits import Limits
from jobs.loops.worker.serving import Serving
from jobs.loops.worker.state import WorkerState
from jobs.metrics import crawl
from jobs.queue import take
from jobs.queue.take import Claimed, Taken

# Seconds after which a worker with documents checks for batches without a notification.
_POLL: Final = 0.5
# Seconds after which a worker without documents checks for batches. Its heartbeats also report batches.
_IDLE_POLL: Final = 60.0
# Numbers of documents for which a worker must have room to take again: soon after the last take, and later.
_WORTH_TAKING: Final = 128
_LITTLE: Final = 32
# Number of documents, waiting or in flight, above which a worker waits for a notification if its last take found
# nothing.
_BUSY_ENOUGH: Final = 64
# Divisor of the capacity for the largest room that is reserved for successors of turns with a pace.
_SHARE_RESERVED: Final = 4
# Number of bins that start documents before the loop runs other tasks, so that no bin with a pace misses its moment.
_BEGUN_AT_ONCE: Final = 8


class Taking:
    """
    Takes batches after a notification, after a flush that made room, and every half second while it has documents.

    A worker without documents also takes batches that a heartbeat saw.
    """

    def __init__(self, state: WorkerState, *, serving: Serving, limits: Limits, flushing: Flushing) -> None:
        self._state, self._serving, self._limits, self._flushing = state, serving, limits, flushing
        self._loop = asyncio.get_running_loop()
        self._found_nothing = False
        self._took_at = float("-inf")
        flushing.after_write = self._take_after_write

    async def run(self) -> None:
        """Take batches each time when new ones may be available. Runs until it is cancelled."""
        state = self._state
        while True:
            # Clear the flag before the take: a batch that is offered during the take may be missing from its answer.
            state.may_find_work.clear()
            room = state.settings.capacity - state.batches.documents
            reserved = self._reserved
            has_room = (
                room - reserved >= self._least_room
                or not state.batches.documents
                or (reserved and not self._took_lately)
            )
            may_take = not state.backlog.holds and not state.lacks_disk and state.node.may_begin()
            if has_room and may_take:
                self._took_at = self._loop.time()
                await self.take(room, reserved=reserved)
            await self._wait()

    async def _wait(self) -> None:
        """
        Wait for a notification, a heartbeat, or a flush that made room, but not longer than until the next regular
        check.
        """
        try:
            async with asyncio.timeout(_POLL if self._state.batches.all else _IDLE_POLL):
                await self._state.may_find_work.wait()
        except TimeoutError:
            return

    def _take_after_write(self) -> None:
        """
        Take batches again after a write made room. If the last take found nothing, do this only if few documents are
        left.
        """
        documents = self._state.batches.documents
        is_patient = self._found_nothing and documents > _BUSY_ENOUGH
        if documents <= self._state.settings.capacity - self._least_room and not is_patient:
            self._state.may_find_work.set()

    @property
    def _least_room(self) -> int:
        """
        Return the least room for which a take is worth its cost: large takes for fast bins, small takes for bins with a
        pace.
        """
        return min(_WORTH_TAKING if self._took_lately else _LITTLE, self._state.settings.capacity)

    @property
    def _took_lately(self) -> bool:
        return self._loop.time() - self._took_at < _POLL / 2

    @property
    def _reserved(self) -> int:
        """Return the room reserved for bins with a pace, which lose time if a successor arrives late."""
        return min(self._serving.awaited_documents, self._state.settings.capacity // _SHARE_RESERVED)

    async def take(self, room: int, *, reserved: int = 0) -> None:
        """
        Take batches of about `room` documents, `reserved` of them for successors. Start the documents that their pace
        allows.
        """
        state = self._state
        idle = not state.batches.documents
        taken = await state.database.run(
            lambda connection: take.take(
                connection,
                worker=state.identity.id,
                room=room,
                reserved=reserved,
                idle=idle,
                pools=state.settings.pools,
                strict=state.settings.keeps_strictly,
                now=state.clock.now(connection),
            )
        )
        self._found_nothing = not taken.documents
        if self._found_nothing:
            return
        crawl.TAKEN.add(taken.documents)
        crawl.TAKEN_TURNS.add(len(taken.turns))
        for claimed in _claims_of(taken):
            state.batches.add(claimed.batch_id)
        state.may_find_texts.set()
        await self._prepare(taken)
        old = [turn for turn in taken.turns if turn.is_old]
        in_force = await self._limits.read(pace.bin_id for turn in old for pace in (turn.pace, *turn.parents))
        served = {turn.bin_id: self._serving.add(turn) for turn in taken.turns}
        # Turns that were offered before an edit of their limits must not start at the old limits.
        self._limits.apply(in_force)
        for number, queue in enumerate(served.values(), 1):
            self._serving.close_turns(queue)
            self._serving.dispatch(queue)
            if number % _BEGUN_AT_ONCE == 0:
                await asyncio.sleep(0)
        for claims in taken.removals.values():
            await self._flushing.remove(claims)

    async def _prepare(self, taken: Taken) -> None:
        """Read the jobs of the documents, and the facts that other workers found out about their sources."""
        state = self._state
        for claimed in _claims_of(taken):
            if state.jobs.find(claimed) is None:
                await state.read_job(claimed.job_id)
        await state.jobs.prepare((claimed for turn in taken.turns for claimed in turn.documents), state.database)


def _claims_of(taken: Taken) -> list[Claimed]:
    return [
        *(claimed for turn in taken.turns for claimed in turn.documents),
        *(claimed for claims in taken.removals.values() for claimed in claims),
    ]
