"""
The history's days: partitions are made before they are needed and dropped when they are old.

A day is made as a table of its own and then attached, which does not lock out who writes or reads; only
the default partition is held for the moment in which what already stands there moves over. That is
nothing, unless no manager ran for days. Dropping a day does lock the whole table for some milliseconds.
So whatever cannot have its locks soon gives up, and the next turn of the duty tries again.
"""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.errors import DuplicateTable, LockNotAvailable

from jobs.duties.context import Pass
from jobs.settings.running import current
from jobs.settings.table import KEEP_HISTORY
from nodes.fences import TermHeld, hold_term

_DAYS_AHEAD: Final = 7
_PREFIX: Final = "jobs_activity_"

_DAYS: Final[LiteralString] = """
SELECT partition.relname
  FROM pg_inherits JOIN pg_class AS partition ON partition.oid = inhrelid
 WHERE inhparent = 'jobs_activity'::regclass AND partition.relname ~ '^jobs_activity_[0-9]{8}$'
"""
# Mains of several scopes may be at it; one is enough.
_ALONE: Final[LiteralString] = "SELECT pg_try_advisory_xact_lock(hashtext('jobs_activity'))"
_LOCK_SOON: Final[LiteralString] = "SET LOCAL lock_timeout = '500ms'"

# Locks: jobs_activity_default against everybody, jobs_activity against who changes its partitions.
_MAKE: Final[LiteralString] = """
LOCK TABLE jobs_activity_default IN ACCESS EXCLUSIVE MODE;
CREATE TABLE {day} (LIKE jobs_activity INCLUDING DEFAULTS INCLUDING INDEXES);
WITH moved AS (DELETE FROM jobs_activity_default WHERE started_at >= {begin} AND started_at < {end} RETURNING *)
INSERT INTO {day} SELECT * FROM moved;
ALTER TABLE jobs_activity ATTACH PARTITION {day} FOR VALUES FROM ({begin}) TO ({end});
"""
# Locks: jobs_activity against everybody.
_DROP: Final[LiteralString] = """
DROP TABLE {day};
DELETE FROM jobs_activity_default WHERE started_at < {end};
"""

HISTORIES_TO_CLEAR: Final[LiteralString] = (
    "SELECT id, clear_history_before FROM jobs_repositoryconnection WHERE clear_history_before IS NOT NULL"
)
# Up to which moment the oldest rows of a source are cleared in one step. Of one moment there may be more.
_UP_TO: Final[LiteralString] = """
SELECT max(started_at) FROM (
    SELECT started_at FROM jobs_activity WHERE repository_id = %(repository)s AND started_at < %(before)s
     ORDER BY started_at LIMIT 5000) AS oldest
"""
_CLEAR: Final[LiteralString] = (
    "DELETE FROM jobs_activity WHERE repository_id = %(repository)s AND started_at <= %(up_to)s"
)
# Locks: RepositoryConnection. Whoever asked once more meanwhile gets what he asked for.
_CLEARED: Final[LiteralString] = """
UPDATE jobs_repositoryconnection SET clear_history_before = NULL
 WHERE id = %(repository)s AND clear_history_before = %(before)s
"""


def clear_histories(at: Pass) -> int:
    """Forget a chunk of what is to be forgotten of each source; returns how many rows."""
    cleared = 0
    for repository, before in at.connection.execute(HISTORIES_TO_CLEAR).fetchall():
        facts = {"repository": repository, "before": before}
        with at.connection.transaction():
            hold_term(at.connection, at.office)
            row = at.connection.execute(_UP_TO, facts).fetchone()
            up_to = row[0] if row else None
            if up_to is None:
                at.connection.execute(_CLEARED, facts)
            else:
                cleared += at.connection.execute(_CLEAR, {**facts, "up_to": up_to}).rowcount
    return cleared


def keep_history(at: Pass) -> int:
    """Make the days that come, and drop those that are older than the setting; returns 0, nobody waits for it."""
    today = at.now.astimezone(dt.UTC).date()
    oldest = today - dt.timedelta(days=current()[KEEP_HISTORY])
    there = {day for (name,) in at.connection.execute(_DAYS).fetchall() if (day := _day_of(name))}
    coming = {today + dt.timedelta(days=ahead) for ahead in range(_DAYS_AHEAD + 1)}
    changes = [(_MAKE, day) for day in sorted(coming - there)]
    changes += [(_DROP, day) for day in sorted(there) if day < oldest]
    for statements, day in changes:
        if not _change(at.connection, _compose(statements, day), term=at.office):
            break
    return 0


def _change(connection: psycopg.Connection[Any], statement: sql.Composed, *, term: TermHeld) -> bool:
    """Execute it alone and soon; False if that was not possible."""
    try:
        with connection.transaction():
            hold_term(connection, term)
            connection.execute(_LOCK_SOON)
            row = connection.execute(_ALONE).fetchone()
            if not row or not row[0]:
                return False
            connection.execute(statement)
    except (LockNotAvailable, DuplicateTable):
        # Somebody reads for long, or another main was faster: there is time.
        return False
    return True


def _compose(statements: LiteralString, day: dt.date) -> sql.Composed:
    return sql.SQL(statements).format(day=_name(day), begin=_midnight(day), end=_midnight(day + dt.timedelta(days=1)))


def _midnight(day: dt.date) -> sql.Literal:
    return sql.Literal(dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC).isoformat())


def _name(day: dt.date) -> sql.Identifier:
    return sql.Identifier(f"{_PREFIX}{day:%Y%m%d}")


def _day_of(name: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(name.removeprefix(_PREFIX), "%Y%m%d").replace(tzinfo=dt.UTC).date()
    except ValueError:
        return None
