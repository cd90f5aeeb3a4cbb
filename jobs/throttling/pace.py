"""
Pace: when the next request to a bin may start, as one moment that only moves on. Arithmetic; no I/O.

Two things push it: the gap after each start, and the bytes that were read. A page of `b` bytes from a bin
that allows `r` bytes a second takes up `b / r` seconds. How large it is, is known only when it has been
read, so a start takes up what the largest of the last pages would, and is settled when the page is there.
"""

from dataclasses import dataclass
from typing import Final

# Over so many seconds the bytes of a bin are no more than its limit allows.
BYTES_WINDOW: Final = 10.0
# What a page is taken for before one was read.
EXPECTED_BYTES: Final = 64 * 1024
# How much of the largest page's size is still expected after each smaller one.
_FORGETTING: Final = 0.9


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
    _expected: float = EXPECTED_BYTES

    @property
    def next_start(self) -> float:
        """The earliest moment of the next start."""
        after_last = float("-inf") if self.last_start is None else self.last_start + self.gap
        return max(self.opens_at, after_last, self._paid_until)

    def hold_until(self, moment: float) -> None:
        """Nothing starts before: so long others have used the bin."""
        self.opens_at = max(self.opens_at, moment)

    @property
    def expected_bytes(self) -> float:
        """What a request that starts now is taken to read."""
        return self._expected

    def tighten(self, *, gap: float, bytes_per_second: float | None = None) -> None:
        """More is asked for from now on; it counts from the last start."""
        self.gap = max(self.gap, gap)
        if bytes_per_second is not None:
            self.bytes_per_second = min(bytes_per_second, self.bytes_per_second or bytes_per_second)

    def start(self, *, now: float) -> None:
        """A request starts, and is taken to read the `expected_bytes`, which `read` settles."""
        self.last_start = now
        if self.bytes_per_second is not None:
            self._paid_until = max(self._paid_until, now) + self._expected / self._spread

    def restart(self, *, now: float) -> None:
        """The request that started last leaves only now: the gap counts from here."""
        self.last_start = now

    def read(self, size: float, *, expected: float) -> None:
        """A request that was taken to read `expected` bytes has read `size`."""
        if self.bytes_per_second is not None:
            self._paid_until += (size - expected) / self._spread
            self._expected = max(size, self._expected * _FORGETTING, 1.0)

    @property
    def _spread(self) -> float:
        """
        Bytes a second that are paid for: less than the limit by what one page may reach over the window's end.

        Between starts at least their pages' bytes are paid for, all but the last one's: a window holds no more than
        `BYTES_WINDOW * spread` and one page.
        """
        assert self.bytes_per_second is not None
        return max(self.bytes_per_second / 2, self.bytes_per_second - self._expected / BYTES_WINDOW)
