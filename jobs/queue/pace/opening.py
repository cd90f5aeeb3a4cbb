"""
The moment at which the next request to a bin may start, from its last requests and the present limits.

The state of a bin stores its last start instead of its next one. So a gap that becomes shorter or longer applies at
once. If bytes are limited, the bytes that were read delay the next start too: until `not_before` at the `paid_rate`.
The part of the delay that is left at the last start is converted to the present rate. Without a `paid_rate` the
moment is fixed: the bytes that a lost worker has read are unknown.

All moments are of the database's clock. The calculation exists twice: in SQL for taking and closing turns, which have
their limits, and in Python for the calculation of limits (`jobs.throttling.pace.seconds_owed`).
"""

import datetime as dt
from typing import Any, Final, LiteralString

from jobs.throttling.limits import Limits
from jobs.throttling.pace import LONGEST_OWED, seconds_owed

# The columns of a bin's state that `opens_at` needs.
OPENING: Final[LiteralString] = "last_start_at, not_before, paid_rate"


def paid_until(state: LiteralString, *, rate: LiteralString) -> LiteralString:
    """Return an SQL expression: the end of a bin's delay for bytes at a rate; as stored if the rate is null."""
    owed = f"extract(epoch FROM {state}.not_before - {state}.last_start_at)::float"
    return (
        f"CASE WHEN {state}.paid_rate <> {rate} AND {state}.not_before > {state}.last_start_at"
        f" THEN {state}.last_start_at + make_interval(secs => least({owed} * {state}.paid_rate / {rate}, {LONGEST_OWED:.1f}))"
        f" ELSE {state}.not_before END"
    )


def opening(*, gap: LiteralString, rate: LiteralString) -> LiteralString:
    """
    Return an SQL expression: the next start by a `state` with a gap and a byte rate; null if it is open from the
    start.
    """
    return (
        f"greatest(state.last_start_at + make_interval(secs => {gap}),"
        f" CASE WHEN {rate} IS NOT NULL THEN {paid_until('state', rate=rate)} END)"
    )


def opens_at(state: Any, limits: Limits) -> dt.datetime | None:
    """Return the moment of a bin's next start under these limits; None if it is open from the start."""
    moments = []
    if state.last_start_at is not None:
        moments.append(state.last_start_at + dt.timedelta(seconds=limits.gap))
    if state.not_before is not None and limits.bytes_per_second is not None:
        moments.append(_paid_until(state, limits.bytes_per_second))
    return max(moments, default=None)


def _paid_until(state: Any, rate: float) -> dt.datetime:
    until: dt.datetime = state.not_before
    since: dt.datetime | None = state.last_start_at
    if since is None or state.paid_rate is None:
        return until
    owed = seconds_owed((until - since).total_seconds(), before=state.paid_rate, rate=rate)
    return since + dt.timedelta(seconds=owed)
