"""
What a bin may be asked for at one moment, and the strictest of several answers. No I/O.

A rate is a gap (docs/decisions/0015): of `starts` in a `period` each keeps `period / starts` from the one before it,
so no window of any length and place holds more than the rate allows.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jobs.lifecycle.period import Period

# Opening time of a stopped host: it stays closed until an operator lets it go on.
UNTIL_GO_ON: Final = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
# As many requests as nobody has: where only something else is limited.
UNLIMITED_REQUESTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """
    At most so many open `requests`, `gap` seconds between two starts, and bytes a second (None: any number).

    What is `denied` is not asked for at all, whatever else stands here; nor is anything until it is no longer
    `closed_until`, where it is denied at times.
    """

    requests: int
    gap: float
    bytes_per_second: float | None = None
    denied: bool = False
    closed_until: dt.datetime | None = None


def strictest(limits: Iterable[Limits]) -> Limits | None:
    """Return what satisfies all of these, and no less; None where there are none."""
    found = list(limits)
    if not found:
        return None
    bytes_limits = [one.bytes_per_second for one in found if one.bytes_per_second is not None]
    return Limits(
        requests=min(one.requests for one in found),
        gap=max(one.gap for one in found),
        bytes_per_second=min(bytes_limits, default=None),
        denied=any(one.denied for one in found),
        closed_until=max((one.closed_until for one in found if one.closed_until is not None), default=None),
    )


def gap_of(starts: int | None, period: Period | None) -> float:
    """The seconds from one start to the next that a rate comes to; 0 where there is no rate."""
    return period.seconds / starts if starts and period else 0.0
