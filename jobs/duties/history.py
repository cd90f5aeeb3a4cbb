"""
The duties of the history: they create its partitions for the coming days, and clear the history of one source on
request.
"""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.daily_tables import make_days
from nodes.membership.fences import hold_term

HISTORIES_TO_CLEAR: Final[LiteralString] = (
    "SELECT id, clear_history_before FROM jobs_repositoryconnection WHERE clear_history_before IS NOT NULL"
)
# The moment up to which one step clears the oldest rows of a source. A limit by time and not by number of rows, because
# several rows may have the same moment.
_UP_TO: Final[LiteralString] = """
SELECT max(started_at) FROM (
    SELECT started_at FROM jobs_activity WHERE repository_id = %(repository)s AND started_at < %(before)s
     ORDER BY started_at LIMIT 5000) AS oldest
"""
_CLEAR: Final[LiteralString] = (
    "DELETE FROM jobs_activity WHERE repository_id = %(repository)s AND started_at <= %(up_to)s"
)
# Locks: RepositoryConnection. A request that was repeated meanwhile stays open.
_CLEARED: Final[LiteralString] = """
UPDATE jobs_repositoryconnection SET clear_history_before = NULL
 WHERE id = %(repository)s AND clear_history_before = %(before)s
"""


def clear_histories(at: Pass) -> int:
    """Delete a chunk of each history that is to be cleared; return the number of rows."""
    cleared = 0
    for repository, before in at.connection.execute(HISTORIES_TO_CLEAR).fetchall():
        facts = {"repository": repository, "before": before}
        with at.connection.transaction():
            hold_term(at.connection, at.held_term)
            row = at.connection.execute(_UP_TO, facts).fetchone()
            up_to = row[0] if row else None
            if up_to is None:
                at.connection.execute(_CLEARED, facts)
            else:
                cleared += at.connection.execute(_CLEAR, {**facts, "up_to": up_to}).rowcount
    return cleared


def keep_history(at: Pass) -> int:
    """
    Create the history's partitions of the coming days; return 0. The cleaning drops old ones (`jobs.duties.cleaning`).
    """
    make_days(at, table="jobs_activity", column="started_at")
    return 0
