"""
Pace: the earliest start of the next request to a bin, as one moment that only moves forward. Arithmetic, no I/O.

Two things move it: the gap after each start, and the bytes that were read. A page of `b` bytes from a bin that allows
`r` bytes a second takes `b / r` seconds. Its size is known only after it was read. So a start pays for the largest of
the last pages, and the difference is settled when the page has arrived.
"""

from dataclasses import dataclass
from typing import Final

from jobs.throttling.opening import seconds_owed

# Window in which a bin's bytes stay within its limit (seconds).
BYTES_WINDOW: Final = 10.0
# Size that is assumed for a page before one was read (bytes).
EXPECTED_BYTES: Final = 64 * 1024
# Shortest time for which the size of a page is remembered (seconds); the longest is twice that. It is two windows,
# because a page before a window must be remembered until the window ends.
_REMEMBERED: Final = 2 * BYTES_WINDOW


@dataclass(slots=True)
class Cadence:
    """
    The pace of one bin. Moments are seconds on one monotonic clock. `gap` is seconds between two starts.
    `bytes_per_second` limits reading; None is no limit.
    """

    gap: float = 0.0
    bytes_per_second: float | None = None
    opens_at: float = float("-inf")
    last_start: float | None = None
    _paid_until: float = float("-inf")
    # The largest pages of the period before, and of the one from `_remembered_from` on.
    _largest_before: float = 0.0
    _largest: float = EXPECTED_BYTES
    _remembered_from: float = float("-inf")

    @property
    def next_start(self) -> float:
        """Return the earliest moment of the next start."""
        after_last = float("-inf") if self.last_start is None else self.last_start + self.gap
        return max(self.opens_at, after_last, self._paid_until)

    @property
    def paid_until(self) -> float | None:
        """Return until when the read bytes are paid for; None if bytes are not limited."""
        if self.bytes_per_second is None or self.last_start is None:
            return None
        return max(self._paid_until, self.last_start)

    def hold_until(self, moment: float) -> None:
        """Start nothing before this moment, because other turns have used the bin."""
        self.opens_at = moment

    @property
    def price(self) -> float:
        """Return the bytes for which a request that starts now pays. `read` settles the difference."""
        rate = self.bytes_per_second
        return 0.0 if rate is None else self._expected / self._spread * rate

    def change(self, *, gap: float, bytes_per_second: float | None) -> None:
        """Apply other limits from now on. They count from the last start, even for an unpaid debt."""
        self.gap = gap
        before, self.bytes_per_second = self.bytes_per_second, bytes_per_second
        if before == bytes_per_second or self.last_start is None:
            return
        if before is None or bytes_per_second is None:
            self._paid_until = float("-inf")
        else:
            owed = seconds_owed(self._paid_until - self.last_start, before=before, rate=bytes_per_second)
            self._paid_until = self.last_start + owed

    def tighten(self, *, gap: float) -> None:
        """Apply a longer gap from now on. It counts from the last start."""
        self.gap = max(self.gap, gap)

    def start(self, *, now: float) -> None:
        """Note that a request starts, and pay its `price`."""
        self.last_start = now
        if self.bytes_per_second is not None:
            self._paid_until = max(self._paid_until, now) + self.price / self.bytes_per_second

    def restart(self, *, now: float) -> None:
        """Note that the request that started last leaves only now: the gap counts from here."""
        self.last_start = now

    def read(self, size: float, *, paid: float, now: float) -> None:
        """Note that a request that `paid` its price has read `size` bytes."""
        if self.bytes_per_second is None:
            return
        if now - self._remembered_from > _REMEMBERED:
            # The initial assumption is not a page, and is forgotten with the first one.
            self._largest_before = self._largest if self._remembered_from > float("-inf") else 0.0
            self._remembered_from, self._largest = now, 0.0
        self._largest = max(self._largest, size, 1.0)
        self._paid_until += size / self._spread - paid / self.bytes_per_second

    @property
    def _expected(self) -> float:
        return max(self._largest_before, self._largest)

    @property
    def _spread(self) -> float:
        """
        Return the bytes a second that are paid for: the limit minus the part of one page beyond a window's end.

        Between starts, at least the bytes of all their pages except the last are paid for. So a window holds at most
        `BYTES_WINDOW * spread` and one page. That is within the limit while no page is larger than those of the time
        before it, or than half of a window. Otherwise a window holds as many bytes more as the page is larger.
        """
        assert self.bytes_per_second is not None
        return max(self.bytes_per_second / 2, self.bytes_per_second - self._expected / BYTES_WINDOW)
