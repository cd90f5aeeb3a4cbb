"""
Pace: when the next request to a bin may start, as one moment that only moves on. Arithmetic; no I/O.

Two things push it: the gap after each start, and the bytes that were read. A page of `b` bytes from a bin
that allows `r` bytes a second takes up `b / r` seconds. How large it is, is known only when it has been
read, so a start pays what the largest of the last pages would, and is settled when the page is there.
"""

from dataclasses import dataclass
from typing import Final

# Over so many seconds the bytes of a bin are no more than its limit allows.
BYTES_WINDOW: Final = 10.0
# What a page is taken for before one was read.
EXPECTED_BYTES: Final = 64 * 1024
# For so long at least, and at most twice as long, a page is remembered for its size: two windows, since a page
# before a window has to be remembered until its end.
_REMEMBERED: Final = 2 * BYTES_WINDOW
# Nothing is owed for longer, however much slower it is paid than it was meant to: no clock shows what comes of that.
LONGEST_OWED: Final = 365 * 24 * 3600.0


def seconds_owed(seconds: float, *, before: float, rate: float) -> float:
    """How long what is paid for in so many `seconds` at the rate `before` takes at another; nothing owed stays so."""
    if seconds <= 0 or before == rate:
        return seconds
    return min(seconds * before / rate, LONGEST_OWED)


@dataclass(slots=True)
class Cadence:
    """
    Moments are seconds on one monotonic clock. `gap` is seconds between two starts, `bytes_per_second` what
    may be read; None is as much as comes.
    """

    gap: float = 0.0
    bytes_per_second: float | None = None
    opens_at: float = float("-inf")
    last_start: float | None = None
    _paid_until: float = float("-inf")
    # The largest pages of the time before, and of the one from `_remembered_from` on.
    _largest_before: float = 0.0
    _largest: float = EXPECTED_BYTES
    _remembered_from: float = float("-inf")

    @property
    def next_start(self) -> float:
        """The earliest moment of the next start."""
        after_last = float("-inf") if self.last_start is None else self.last_start + self.gap
        return max(self.opens_at, after_last, self._paid_until)

    @property
    def paid_until(self) -> float | None:
        """Until when what was read is paid for; None where bytes are not limited."""
        if self.bytes_per_second is None or self.last_start is None:
            return None
        return max(self._paid_until, self.last_start)

    def hold_until(self, moment: float) -> None:
        """Nothing starts before: so long others have used the bin."""
        self.opens_at = moment

    @property
    def price(self) -> float:
        """For the time of how many bytes a request that starts now pays; `read` settles it."""
        rate = self.bytes_per_second
        return 0.0 if rate is None else self._expected / self._spread * rate

    def change(self, *, gap: float, bytes_per_second: float | None) -> None:
        """Other limits hold from now on, and count from the last start: also for what is not paid for yet."""
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
        """A longer gap is asked for from now on; it counts from the last start."""
        self.gap = max(self.gap, gap)

    def start(self, *, now: float) -> None:
        """A request starts, and pays the `price`."""
        self.last_start = now
        if self.bytes_per_second is not None:
            self._paid_until = max(self._paid_until, now) + self.price / self.bytes_per_second

    def restart(self, *, now: float) -> None:
        """The request that started last leaves only now: the gap counts from here."""
        self.last_start = now

    def read(self, size: float, *, paid: float, now: float) -> None:
        """A request that `paid` its price has read `size` bytes."""
        if self.bytes_per_second is None:
            return
        if now - self._remembered_from > _REMEMBERED:
            # What is expected before anything was read is no page, and forgotten with the first.
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
        Bytes a second that are paid for: less than the limit by what one page may reach over the window's end.

        Between starts at least their pages' bytes are paid for, all but the last one's: a window holds no more than
        `BYTES_WINDOW * spread` and one page. So it holds what the limit allows as long as no page is larger than
        those of the time before it, or than half of what a window may hold; and more by what a page is larger.
        """
        assert self.bytes_per_second is not None
        return max(self.bytes_per_second / 2, self.bytes_per_second - self._expected / BYTES_WINDOW)
