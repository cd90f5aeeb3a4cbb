"""
The limits of a bin at one moment, and the strictest of several limits. No I/O.

A rate is a gap (docs/decisions/0015): with `starts` in a `period`, each start comes at least `period / starts` after
the start before it. So no window of any length and position holds more than the rate allows.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jobs.lifecycle.period import Period

# Opening time of a stopped host: it stays closed until an operator releases it.
UNTIL_RELEASED: Final = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
# A number of requests that no crawl reaches. Limits have it if they do not restrict open requests.
UNLIMITED_REQUESTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """
    At most `requests` open requests, `gap` seconds between two starts, and bytes a second (None: any number).

    A `denied` bin gets no request at all, whatever the other limits are. With `closed_until`, the bin gets no request
    before that moment, at which a denial ends.
    """

    requests: int
    gap: float
    bytes_per_second: float | None = None
    denied: bool = False
    closed_until: dt.datetime | None = None


def strictest(limits: Iterable[Limits]) -> Limits | None:
    """Return the loosest limits that satisfy all of these; None without any."""
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
    """Return the gap between two starts that a rate gives (seconds); 0 without a rate."""
    return period.seconds / starts if starts and period else 0.0
