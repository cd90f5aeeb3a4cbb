"""The pace of one document's requests."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from jobs.loops.worker.host_queue import PacedBin
from jobs.loops.worker.sent_requests import SentRequests

# Seconds after which a waiting request checks again whether its limits have changed.
_LONGEST_SLEEP: Final = 1.0


class DocumentPace:
    """
    The pace of one document's requests. The first request is admitted by the start of the document, and each further
    request waits for the pace.

    The gap of the bin and of its parents is kept between the moments at which two requests leave, even if the loop is
    busy, or a request needs a connection first. So an admitted request delays the others until it has left. `delay`
    returns the crawl-delay as it is known now: robots.txt may have come with the first request. `left` is called when a
    request has left.

    The process may freeze between the start of a document and its request. So `may_begin` is called again when the
    request is admitted, and when it leaves. If it returns False, the request ends as if it was cancelled.
    """

    def __init__(
        self,
        paces: tuple[PacedBin, ...],
        *,
        delay: Callable[[], float],
        left: Callable[[], None],
        may_begin: Callable[[], bool],
        sent: SentRequests | None = None,
    ) -> None:
        """`sent` counts the requests for the evidence of politeness, while that evidence is switched on."""
        self._paces = paces
        self._delay = delay
        self._left = left
        self._may_begin = may_begin
        self._sent = sent
        # The host and the moment of a counted request that has not ended yet.
        self._unanswered: tuple[str, float] | None = None
        self._leaves_for = ""
        self._is_first = True
        self._is_leaving = False
        # Moment at which the last request was admitted.
        self.asked_at = time.monotonic()
        # True from the count of a request until its bytes are counted.
        self._is_owing = True
        self._paid = [paced.cadence.price for paced in paces]

    async def before_request(self) -> None:
        """Wait until the document may send a request, and count it."""
        if not self._is_first:
            self._paces[0].apply_crawl_delay(self._delay())
        # Computed again after each sleep: other documents of the bin may have started, or its limits were edited.
        while (wait := self._wait()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(wait, _LONGEST_SLEEP))
        self.request_goes()
        # Not the loop's time, which stands still while the loop is busy.
        now = time.monotonic()
        if not self._is_first:
            self._paid = [paced.cadence.price for paced in self._paces]
        self._is_owing = True
        self.asked_at = now
        for paced in self._paces:
            paced.count_request(now=now, has_turn=self._is_first)
        self._is_first = False

    def _wait(self) -> float:
        now = time.monotonic()
        return max(paced.wait(now=now, has_turn=self._is_first) for paced in self._paces)

    def request_leaves(self, address: str) -> None:
        """Delay other requests of the bin and its parents until this one has left."""
        self._is_leaving = True
        self._note_unanswered()
        self._leaves_for = address
        for paced in self._paces:
            paced.leaving += 1

    def request_goes(self) -> None:
        """
        Check again that the worker may begin a request.

        Raises:
            CancelledError: the worker may not begin it.
        """
        if not self._may_begin():
            raise asyncio.CancelledError
        # A request that is repeated on another connection counts once.
        if self._sent is not None and self._sent.is_on and self._is_leaving and self._unanswered is None:
            self._unanswered = self._sent.count(self._leaves_for, self._paces)

    def request_sent(self) -> None:
        """Record that the request was handed to the loop."""
        if self._is_leaving:
            self._is_leaving = False
            # The loop writes to its sockets at the end of a round, so the request has left by the next round.
            asyncio.get_running_loop().call_soon(self._has_left)

    def _has_left(self) -> None:
        now = time.monotonic()
        for paced in self._paces:
            paced.note_left(now=now)
        # Without a gap, no request was delayed.
        if any(paced.cadence.gap for paced in self._paces):
            self._left()

    def bytes_read(self, count: int) -> None:
        """Count bytes of the answer against the bytes limits."""
        if self._sent is not None and self._unanswered is not None:
            self._sent.count_answered(*self._unanswered, count)
            self._unanswered = None
        self._settle(count)

    def _settle(self, count: int) -> None:
        if not self._is_owing:
            return
        self._is_owing = False
        now = time.monotonic()
        for paced, paid in zip(self._paces, self._paid, strict=True):
            paced.count_bytes(count, paid=paid, now=now)

    def end(self) -> None:
        """Complete the count of the last request if it was not sent, or failed before any byte was read."""
        self._note_unanswered()
        self._settle(0)

    def _note_unanswered(self) -> None:
        if self._sent is not None and self._unanswered is not None:
            self._sent.count_unanswered(*self._unanswered)
            self._unanswered = None
