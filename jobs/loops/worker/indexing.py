"""Indexing: a worker computes the search index of written texts, behind the crawl."""

import asyncio
from functools import partial
from typing import Final

from jobs.duties.index import index_waiting_texts
from jobs.loops.worker.backlog import MORE_TEXTS_AT_ONCE
from jobs.loops.worker.state import WorkerState

# Seconds between two checks for texts to index, after a check that found few.
_POLL: Final = 0.5


class Indexing:
    """Indexes the texts of search outputs. `run` works until it is cancelled."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    async def run(self) -> None:
        """
        Index texts, a few at a time, so that no flush waits long.

        A busy worker writes texts, so it checks for them regularly, and once more when it becomes idle.
        """
        state = self._state
        while True:
            state.may_find_texts.clear()
            is_busy = bool(state.batches.all)
            if state.indexes and await self._index_some():
                await asyncio.sleep(0)
            elif is_busy:
                await asyncio.sleep(_POLL)
            else:
                await state.may_find_texts.wait()

    async def _index_some(self) -> bool:
        """Index some texts. Return True if there may be more."""
        backlog = self._state.backlog
        held_back = backlog.holds
        has_more = backlog.note(await self._state.database.run(partial(index_waiting_texts, most=backlog.at_once)))
        if held_back and not backlog.holds:
            self._state.may_find_work.set()
        return has_more

    async def index_remaining(self, deadline: float) -> None:
        """Index all waiting texts: no other worker does that after a one-shot crawl."""
        state = self._state
        while state.indexes and asyncio.get_running_loop().time() < deadline:
            indexed = await state.database.run(partial(index_waiting_texts, most=MORE_TEXTS_AT_ONCE))
            state.indexes = indexed.texts > 0
