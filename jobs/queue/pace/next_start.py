"""
The columns and the SQL for the moment when a bin opens. `jobs.throttling.next_start` computes this moment.

One step of the calculation exists in SQL, too. The statement that closes a turn locks a row, and converts its stored
debt of bytes to the rate of the turn. A property test compares this step with the one in `jobs.throttling.next_start`.
"""

from typing import Final, LiteralString

from jobs.throttling.next_start import LONGEST_OWED

# The columns of a bin's state that `jobs.throttling.next_start.LastUse` needs.
LAST_USE_COLUMNS: Final[LiteralString] = "last_start_at, not_before, paid_rate"


def paid_until(state: LiteralString, *, rate: LiteralString) -> LiteralString:
    """
    Return an SQL expression for the end of a bin's delay for bytes, converted to a rate. If the rate is null, the
    stored end is used.
    """
    owed = f"extract(epoch FROM {state}.not_before - {state}.last_start_at)::float"
    return (
        f"CASE WHEN {state}.paid_rate <> {rate} AND {state}.not_before > {state}.last_start_at"
        f" THEN {state}.last_start_at + make_interval(secs => least({owed} * {state}.paid_rate / {rate}, {LONGEST_OWED:.1f}))"
        f" ELSE {state}.not_before END"
    )
