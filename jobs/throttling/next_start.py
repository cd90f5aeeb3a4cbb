"""
The moment at which a bin opens: the earliest start of its next request. No other Python code computes it. No I/O.

The state of a bin stores its last start instead of its next one. So a changed gap applies immediately. If bytes are
limited, the bytes that were read delay the next start too: until `not_before` at the `paid_rate`. The part of the delay
that is left at the last start is converted to the present rate. Without a `paid_rate` the moment is fixed, because the
bytes that a lost worker has read are unknown.

Back-off and closing times delay the next start further. All moments are of the database's clock.
"""

import datetime as dt
from typing import Final, NamedTuple

# Longest debt (seconds), even if the rate becomes much lower.
LONGEST_OWED: Final = 365 * 24 * 3600.0


class LastUse(NamedTuple):
    """
    The facts about a bin's last requests. A row of the bin's state with these columns can be used in place of this
    type.
    """

    last_start_at: dt.datetime | None
    not_before: dt.datetime | None
    paid_rate: float | None


def seconds_owed(seconds: float, *, before: float, rate: float) -> float:
    """Convert a debt of `seconds` at the rate `before` to seconds at another rate. A debt of zero stays zero."""
    if seconds <= 0 or before == rate:
        return seconds
    return min(seconds * before / rate, LONGEST_OWED)


def paid_until(use: LastUse, rate: float) -> dt.datetime | None:
    """Return the end of the delay for the bytes that were read, at this rate."""
    if use.not_before is None or use.last_start_at is None or use.paid_rate is None:
        return use.not_before
    owed = seconds_owed((use.not_before - use.last_start_at).total_seconds(), before=use.paid_rate, rate=rate)
    return use.last_start_at + dt.timedelta(seconds=owed)


def next_start_at(use: LastUse, *, gap: float, bytes_per_second: float | None) -> dt.datetime | None:
    """Return the earliest next start by a gap and a byte rate; None if a request may start at any time."""
    after_gap = use.last_start_at and use.last_start_at + dt.timedelta(seconds=gap)
    return _latest(after_gap, None if bytes_per_second is None else paid_until(use, bytes_per_second))


def opens_at(
    next_start: dt.datetime | None, *, back_off_until: dt.datetime | None, closed_until: dt.datetime | None = None
) -> dt.datetime | None:
    """
    Return the moment from which a request may start: the latest of its next start, the end of a back-off, and the
    opening of a closed bin.
    """
    return _latest(next_start, back_off_until, closed_until)


def _latest(*moments: dt.datetime | None) -> dt.datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)
