"""Retention of removals: the days of tombstones, and jobs that were deleted."""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.days import keep_days
from jobs.settings.table import KEEP_REMOVED
from nodes.membership.fences import hold_term
from nodes.settings.running import current

_FORGET: Final[tuple[LiteralString, ...]] = (
    "DELETE FROM jobs_deletedjob WHERE deleted_at < %(now)s - %(days)s * interval '1 day'",
    "DELETE FROM jobs_restoration WHERE ended_at < %(now)s - interval '30 days'",
)


def keep_tombstones(at: Pass) -> int:
    """Create the coming days of tombstones, and drop days that are older than the setting; return 0."""
    days = current()[KEEP_REMOVED]
    keep_days(at, table="jobs_tombstone", column="removed_at", days=days)
    with at.connection.transaction():
        hold_term(at.connection, at.office)
        for statement in _FORGET:
            at.connection.execute(statement, {"now": at.now, "days": days})
    return 0
