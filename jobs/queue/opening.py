"""
When the next request to a bin may start: worked out from what was asked of it last and the limits in force now.

A bin's state keeps no moment of its next start, but that of its last one: so a gap that becomes shorter is used at once, and
a longer one holds at once. Where bytes are limited, what was read has to be paid for, too: until `not_before` at the
`paid_rate`, and what is not paid for at the last start is paid at the rate of now. Without a `paid_rate` the moment is what it
is: nobody knows what a worker that was lost has read.

All moments are of the database's clock. It is said twice: in SQL for who takes or closes a turn, whose limits stand in it,
and in Python for who works the limits out (`jobs.throttling.pace.seconds_owed`).
"""

import datetime as dt
from typing import Any, Final, LiteralString

from jobs.throttling.limits import Limits
from jobs.throttling.pace import LONGEST_OWED, seconds_owed

# The columns of a bin's state that `opens_at` has to be told.
OPENING: Final[LiteralString] = "last_start_at, not_before, paid_rate"


def paid_until(state: LiteralString, *, rate: LiteralString) -> LiteralString:
    """An SQL expression: until when the bin of a state pays at a rate for what was read; as it stands if that is null."""
    owed = f"extract(epoch FROM {state}.not_before - {state}.last_start_at)::float"
    return (
        f"CASE WHEN {state}.paid_rate <> {rate} AND {state}.not_before > {state}.last_start_at"
        f" THEN {state}.last_start_at + make_interval(secs => least({owed} * {state}.paid_rate / {rate}, {LONGEST_OWED:.1f}))"
        f" ELSE {state}.not_before END"
    )


def opening(*, gap: LiteralString, rate: LiteralString) -> LiteralString:
    """An SQL expression: the moment of a `state` under a gap and a rate of bytes; null if it is open from the start."""
    return (
        f"greatest(state.last_start_at + make_interval(secs => {gap}),"
        f" CASE WHEN {rate} IS NOT NULL THEN {paid_until('state', rate=rate)} END)"
    )


def opens_at(state: Any, limits: Limits) -> dt.datetime | None:
    """The moment of a bin's next start under these limits; None if it is open from the start."""
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
