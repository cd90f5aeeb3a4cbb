"""
When the next request to a bin may start: worked out from what was asked of it last and the limits in force now.

A bin's state keeps no moment of its next start, but that of its last one: so a gap that becomes shorter is used at once, and
a longer one holds at once. Where bytes are limited, what was read has to be paid for, too, until `not_before`.

All moments are of the database's clock. It is said twice: in SQL for who takes a turn, whose limits stand in it, and in
Python for who works the limits out.
"""

import datetime as dt
from typing import Any, Final, LiteralString

from jobs.throttling.limits import Limits

# The columns of a bin's state that `opens_at` has to be told.
OPENING: Final[LiteralString] = "last_start_at, not_before"


def opening(*, gap: LiteralString, rate: LiteralString) -> LiteralString:
    """An SQL expression: the moment of a `state` under a gap and a rate of bytes; null if it is open from the start."""
    return (
        f"greatest(state.last_start_at + make_interval(secs => {gap}),"
        f" CASE WHEN {rate} IS NOT NULL THEN state.not_before END)"
    )


def opens_at(state: Any, limits: Limits) -> dt.datetime | None:
    """The moment of a bin's next start under these limits; None if it is open from the start."""
    moments = []
    if state.last_start_at is not None:
        moments.append(state.last_start_at + dt.timedelta(seconds=limits.gap))
    if state.not_before is not None and limits.bytes_per_second is not None:
        moments.append(state.not_before)
    return max(moments, default=None)
