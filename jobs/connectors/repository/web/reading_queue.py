"""
The order in which a process reads the pages that have arrived.

Reading a page takes longer than all that the event loop does for its request. If hundreds of pages have arrived, to
read them all at once would hold up every other request: a new connection needs several rounds of the loop. So each
round reads a few pages only.

If pages wait, those of slow hosts go first. The next request of a host starts after its page was read, so a slow host
would otherwise end long after all others. The lead of a page grows with the time of its answer, and each page comes
to its turn.
"""

import asyncio
import heapq
from itertools import count
from typing import Final

# Pages that are read in one round of the event loop.
_A_ROUND: Final = 2
# Seconds by which a page goes ahead of others, for each second of its answer.
_LEAD: Final = 5.0


class ReadingQueue:
    """The pages of one process that wait to be read, for use in the thread of its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        # Pages that may still be read in this round.
        self._left = _A_ROUND
        self._has_round = False

    async def turn(self, *, seconds: float) -> None:
        """Return when the caller may read its page, whose answer took these seconds."""
        if not self._waiting and self._left > 0:
            self._left -= 1
            self._come_back()
            return
        turn = self._loop.create_future()
        heapq.heappush(self._waiting, (self._loop.time() - _LEAD * seconds, next(self._numbers), turn))
        self._come_back()
        await turn

    def _come_back(self) -> None:
        if not self._has_round:
            self._has_round = True
            self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._has_round = False
        self._left = _A_ROUND
        while self._waiting and self._left > 0:
            *_, turn = heapq.heappop(self._waiting)
            # A cancelled request has no page.
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        if self._left < _A_ROUND:
            self._come_back()
