"""
Pace: the earliest start of the next request to a bin, as one moment. Arithmetic, no I/O.

Three things delay it: the gap after each start, the bytes that were read, and the bytes of the last window. A page of
`b` bytes from a bin that allows `r` bytes a second takes `b / r` seconds. Its size is known only after it was read. So
a start pays for a usual page, and the difference is settled when the page has arrived. After a wait for the window, a
start may come earlier by the time of one usual page.

The promise for bytes, while one worker reads from the bin: on average the limit is never exceeded, and pages that
arrive within any `BYTES_WINDOW` have at most `r * BYTES_WINDOW` bytes. The size of a page is not known before it is
read, so these cases exceed the window, and later starts pay for them:

- A page that is larger than usual by more than a fiftieth of the window: the window holds as many bytes more.
- A limit of less than `_FEW_PAGES` pages a window: whole pages cannot fill a window exactly, and to stay below it would
  leave much of the limit unused. The last page starts if at least half of a usual page has room.
- A page that is larger than a window arrives alone.

A worker that takes over a bin does not know its window. The worker before it counts the pages in a leaky bucket, into
which each page is poured when it was read, and hands over the moment when this bucket is empty. So a page that arrived
late counts from its arrival. The new worker also waits for two usual pages before its first start: the one that may be
early, and the last of the window.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobs.throttling.next_start import seconds_owed

# Window in which a bin's bytes stay within its limit (seconds).
BYTES_WINDOW: Final = 10.0
# Size that is assumed for a page before one was read (bytes).
EXPECTED_BYTES: Final = 64 * 1024
# Number of last pages from which the usual and the largest size are computed.
_PAGES_REMEMBERED: Final = 32
# Possible lateness of a stored start (seconds): a worker stores it when the turn closes.
_LATE_NOTE: Final = 1.0
# Largest error of a moment that a worker stores and reads back, because the moment is converted to the clock of the
# database (seconds).
_ROUNDING: Final = 0.05
# Share of a window that may stay free because the next page may be large. If a page of the largest size needs more
# room than this share, the next page is expected to have the usual size, so that little of the limit stays unused.
_SPARE_SHARE: Final = 0.02
# Number of pages of the usual size in a window, below which whole pages would leave more than 1/20 of the limit unused.
_FEW_PAGES: Final = 25


class _Read(NamedTuple):
    """A page of the last window: when it was read, and its bytes."""

    at: float
    size: float


@dataclass(slots=True)
class Cadence:
    """
    The pace of one bin. Moments are seconds on one monotonic clock. `gap` is seconds between two starts.
    `bytes_per_second` limits reading; None means no limit.
    """

    gap: float = 0.0
    bytes_per_second: float | None = None
    opens_at: float = float("-inf")
    last_start: float | None = None
    _paid_until: float = float("-inf")
    # The moment at which the leaky bucket of the read pages is empty.
    _drained_at: float = float("-inf")
    # The sizes of the last pages, the pages of the last window, and the bytes kept for requests that are still open.
    _sizes: deque[float] = field(default_factory=lambda: deque(maxlen=_PAGES_REMEMBERED))
    _window: deque[_Read] = field(default_factory=deque)
    _in_window: float = 0.0
    _kept: deque[float] = field(default_factory=deque)

    @property
    def next_start(self) -> float:
        """Return the earliest moment of the next start."""
        after_last = float("-inf") if self.last_start is None else self.last_start + self.gap
        if self.bytes_per_second is None:
            return max(self.opens_at, after_last)
        return max(self.opens_at, after_last, self._paid_until, self._window_opens_at)

    @property
    def paid_until(self) -> float | None:
        """
        Return the moment until which the bytes that were read delay another worker; None if bytes are not limited.

        A worker that starts its pages after this moment exceeds no window, even if earlier pages arrived late.
        """
        if self.bytes_per_second is None or self.last_start is None:
            return None
        return max(self._paid_until, self.last_start, self._drained_at)

    def take_over(self, *, opens_at: float, used_at: float | None, page_bytes: float | None = None) -> None:
        """
        Start nothing before `opens_at`. The last request at any worker started at `used_at`; None means no request.

        `page_bytes` is the usual size of a page, as other workers measured it.

        If another worker sent that request, its pages may still be in the window, so the new worker waits for two usual
        pages.
        """
        self.opens_at = opens_at
        if self.bytes_per_second is None or used_at is None:
            return
        if page_bytes and not self._sizes:
            self._sizes.append(page_bytes)
        is_own = self.last_start is not None and used_at <= self.last_start + _LATE_NOTE
        if not is_own:
            two_pages = 2 * self._usual / self.bytes_per_second
            self.opens_at = max(opens_at, min(opens_at + two_pages, used_at + BYTES_WINDOW))
        elif self.paid_until is not None and opens_at <= self.paid_until + _ROUNDING:
            # This worker stored the moment for other workers. It needs no such moment, because it knows the window
            # itself.
            self.opens_at = float("-inf")

    @property
    def price(self) -> float:
        """Return the bytes that a request that starts now pays in advance. `read` settles the difference."""
        return 0.0 if self.bytes_per_second is None else self._usual

    def change(self, *, gap: float, bytes_per_second: float | None) -> None:
        """
        Apply other limits from now on. The new gap and rate count from the last start, also for bytes that are not paid
        yet.
        """
        self.gap = gap
        before, self.bytes_per_second = self.bytes_per_second, bytes_per_second
        if before == bytes_per_second:
            return
        if before is None or bytes_per_second is None:
            self._paid_until = self._drained_at = float("-inf")
            self._window.clear()
            self._kept.clear()
            self._in_window = 0.0
        elif self.last_start is not None:
            last = self.last_start
            self._paid_until, self._drained_at = (
                last + seconds_owed(moment - last, before=before, rate=bytes_per_second)
                for moment in (self._paid_until, self._drained_at)
            )

    def lengthen_gap(self, *, gap: float) -> None:
        """Apply this gap from now on if it is longer. The gap counts from the last start."""
        self.gap = max(self.gap, gap)

    def start(self, *, now: float) -> None:
        """Note that a request starts, and pay its `price`."""
        self.last_start = now
        if self.bytes_per_second is not None:
            seconds = self.price / self.bytes_per_second
            early = seconds if self._sizes else 0.0
            self._paid_until = max(self._paid_until, now - early) + seconds
            self._kept.append(self._kept_for_next)

    def restart(self, *, now: float) -> None:
        """Note that the request that started last leaves only now, so that the gap counts from this moment."""
        self.last_start = now

    def read(self, size: float, *, paid: float, now: float) -> None:
        """Note that a request that `paid` its price has ended and read `size` bytes."""
        if self.bytes_per_second is None:
            return
        if self._kept:
            self._kept.popleft()
        while self._window and self._window[0].at <= now - BYTES_WINDOW:
            self._in_window -= self._window.popleft().size
        if size:
            self._sizes.append(size)
            self._window.append(_Read(now, size))
            self._in_window += size
            self._drained_at = max(self._drained_at, now) + size / self.bytes_per_second
        self._paid_until += (size - paid) / self.bytes_per_second

    @property
    def _usual(self) -> float:
        """Return the mean size of the last pages."""
        return sum(self._sizes) / len(self._sizes) if self._sizes else EXPECTED_BYTES

    @property
    def _kept_for_next(self) -> float:
        """
        Return the bytes of a window that are kept for the next request.

        While other requests are open, this is the largest size of a page, so that only one page can be larger than
        expected.
        """
        assert self.bytes_per_second is not None
        usual, largest = self._usual, max(self._sizes, default=EXPECTED_BYTES)
        if self._kept:
            return largest
        window = BYTES_WINDOW * self.bytes_per_second
        if window < _FEW_PAGES * usual:
            return usual / 2
        return min(largest, usual + _SPARE_SHARE * window)

    @property
    def _window_opens_at(self) -> float:
        """Return the moment at which enough pages have left the window for one more."""
        assert self.bytes_per_second is not None
        over = self._in_window + sum(self._kept) + self._kept_for_next - BYTES_WINDOW * self.bytes_per_second
        if over <= 0 or not (self._window or self._kept):
            return float("-inf")
        for page in self._window:
            over -= page.size
            if over <= 0:
                return page.at + BYTES_WINDOW
        if not self._kept:
            # A page that is larger than a window starts only when the window is empty.
            return self._window[-1].at + BYTES_WINDOW
        # An open request ends before this moment, and then the moment is computed again.
        assert self.last_start is not None
        return self.last_start + BYTES_WINDOW
