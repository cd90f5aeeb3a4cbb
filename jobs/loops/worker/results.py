"""The results of a worker between two writes."""

import asyncio
import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from jobs.loops.worker.deadline import Deadline
from jobs.loops.worker.writing import Ended, ToWrite
from jobs.queue.pace.close import ClosedTurn
from jobs.queue.take import Claimed

# Number of results that trigger a flush.
_RESULTS_A_FLUSH: Final = 250
# Number of waiting documents above which results wait longer, and the factor by which their wait grows. If several
# workers share a machine, each has few results, and a small flush costs nearly as much as a large one.
MANY_WAITING: Final = 64
_WAIT_LONGER: Final = 2
# Longest wait of closed turns until they are written (seconds): of turns whose bin has a further turn at this worker,
# and of turns whose bin has none.
_CLOSING_WAITS: Final = 0.15
_FREEING_WAITS: Final = 0.1
# Longest additional wait of closed turns for a flush that writes them, too (seconds).
_CLOSED_WITH_A_FLUSH: Final = 0.06


class Results:
    """
    Outcomes, documents to release, and closed turns, until a write takes them.

    `flush_deadline` is the moment of the next flush, and `close_deadline` the moment of the next write of closed turns
    alone. `wanted` is set when one of these moments has come. The object belongs to the event loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.wanted = asyncio.Event()
        self.flush_deadline = Deadline(loop, self.wanted)
        self.close_deadline = Deadline(loop, self.wanted)
        self._ended: list[Ended] = []
        self._given_back: list[Claimed] = []
        self._closed: list[ClosedTurn] = []
        # True if a response contained facts about a host, which must be stored before its turn is closed.
        self._has_host_facts = False

    @property
    def only_closes(self) -> bool:
        """True if closed turns are due and a flush is not."""
        return self.close_deadline.is_over and not self.flush_deadline.is_over and not self._has_host_facts

    @property
    def flush_is_near(self) -> bool:
        """True if the next flush comes soon enough for closed turns to wait for it."""
        return self.flush_deadline.comes_within(_CLOSED_WITH_A_FLUSH)

    def add(self, ended: Ended, *, is_last: bool, within: float) -> None:
        """
        Add an outcome. It is flushed after `within` seconds, or immediately if no further outcome is expected soon.
        """
        self._ended.append(ended)
        if len(self._ended) >= _RESULTS_A_FLUSH or is_last:
            self.flush_deadline.now()
        elif not self.flush_deadline.is_requested:
            self.flush_deadline.within(within)

    def add_unread(self, ended: Iterable[Ended], *, within: float) -> None:
        """Add the outcomes of documents that ended without a request."""
        self._ended.extend(ended)
        self.flush_deadline.within(within)

    def give_back(self, claims: Iterable[Claimed]) -> None:
        """Request the release of documents with the next write, which is due immediately."""
        self._given_back.extend(claims)
        self.flush_deadline.now()

    def note_host_facts(self) -> None:
        """Note that outcomes contain facts about a host. They are written before turns, because the next turn needs them."""
        self._has_host_facts = True

    def close(self, turns: Sequence[ClosedTurn], *, is_followed: bool) -> None:
        """
        Close turns soon. If no turn of their bin follows at this worker, close them sooner, because the bin is idle
        until then.
        """
        self._closed.extend(turns)
        due = self.flush_deadline if self._has_host_facts else self.close_deadline
        due.within(_CLOSING_WAITS if is_followed else _FREEING_WAITS)

    def take_closed(self, *, runs_out: bool) -> ToWrite:
        """Return the closed turns without the results, which wait for a flush."""
        self.close_deadline.clear()
        closed, self._closed = self._closed, []
        return ToWrite(closed=closed, runs_out=runs_out)

    def take_all(self, *, done_batches: Sequence[int], runs_out: bool) -> ToWrite:
        """Return everything that waits for a write."""
        self.flush_deadline.clear()
        self.close_deadline.clear()
        self._has_host_facts = False
        given = ToWrite(self._ended, self._given_back, self._closed, done_batches, runs_out)
        self._ended, self._given_back, self._closed = [], [], []
        return given


def results_wait(flush_after: dt.timedelta, *, many_wait: bool) -> float:
    """
    Return the time for which results wait for further results (seconds): longer if many documents wait to start at this
    worker.
    """
    return flush_after.total_seconds() * (_WAIT_LONGER if many_wait else 1)
