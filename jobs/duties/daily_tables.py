"""
Tables with a partition for each day: a day is created before it is needed, and dropped when it is old.

A new day is created as a separate table and then attached, because readers and writers can continue meanwhile. Only the
default partition is locked while the rows of that day move out of it; it has such rows only if no manager ran for days.
Dropping a day locks the whole table for some milliseconds. A change that does not get its locks soon is tried again at
the next turn of the duty.
"""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.errors import DuplicateTable, LockNotAvailable

from jobs.duties.context import Pass
from nodes.membership.fences import TermHeld, hold_term

_DAYS_AHEAD: Final = 7

_DAYS: Final[LiteralString] = """
SELECT partition.relname
  FROM pg_inherits JOIN pg_class AS partition ON partition.oid = inhrelid
 WHERE inhparent = %(table)s::regclass AND partition.relname ~ ('^' || %(table)s || '_[0-9]{8}$')
"""
# The main managers of several scopes may change the partitions at the same time. Only one main manager gets this lock,
# and the other ones skip the change.
_ALONE: Final[LiteralString] = "SELECT pg_try_advisory_xact_lock(hashtext(%(table)s))"
_LOCK_SOON: Final[LiteralString] = "SET LOCAL lock_timeout = '500ms'"

# Locks the default partition against all access, and the table against changes of its partitions.
_MAKE: Final[LiteralString] = """
LOCK TABLE {rest} IN ACCESS EXCLUSIVE MODE;
CREATE TABLE {day} (LIKE {table} INCLUDING DEFAULTS INCLUDING INDEXES);
WITH moved AS (DELETE FROM {rest} WHERE {column} >= {begin} AND {column} < {end} RETURNING *)
INSERT INTO {day} SELECT * FROM moved;
ALTER TABLE {table} ATTACH PARTITION {day} FOR VALUES FROM ({begin}) TO ({end});
"""
# Locks the table against all access.
_DROP: Final[LiteralString] = """
DROP TABLE {day};
DELETE FROM {rest} WHERE {column} < {end};
"""


def make_days(at: Pass, *, table: str, column: str) -> None:
    """Create the partitions of the coming days."""
    today = at.now.astimezone(dt.UTC).date()
    coming = {today + dt.timedelta(days=ahead) for ahead in range(_DAYS_AHEAD + 1)}
    for day in sorted(coming - _days(at.connection, table=table)):
        statement = _filled_in(_MAKE, day, table=table, column=column)
        if not _change(at.connection, statement, table=table, term=at.held_term):
            break


def drop_days(
    connection: psycopg.Connection[Any],
    *,
    table: str,
    column: str,
    days: int,
    now: dt.datetime,
    term: TermHeld | None = None,
) -> int:
    """
    Drop partitions that are more than `days` old. Return their number.

    Raises:
        FenceRefused: the term of a main manager has ended.
    """
    dropped = 0
    for day in find_old_days(connection, table=table, days=days, now=now):
        statement = _filled_in(_DROP, day, table=table, column=column)
        if not _change(connection, statement, table=table, term=term):
            break
        dropped += 1
    return dropped


def find_old_days(connection: psycopg.Connection[Any], *, table: str, days: int, now: dt.datetime) -> list[dt.date]:
    """Return the days of the partitions that are more than `days` old, the oldest first."""
    oldest = now.astimezone(dt.UTC).date() - dt.timedelta(days=days)
    return sorted(day for day in _days(connection, table=table) if day < oldest)


def name_of_day(table: str, day: dt.date) -> str:
    """Return the name of the partition of a day."""
    return f"{table}_{day:%Y%m%d}"


def _days(connection: psycopg.Connection[Any], *, table: str) -> set[dt.date]:
    names = connection.execute(_DAYS, {"table": table}).fetchall()
    return {day for (name,) in names if (day := _day_of(name, table=table))}


def _filled_in(statements: LiteralString, day: dt.date, *, table: str, column: str) -> sql.Composed:
    return sql.SQL(statements).format(
        table=sql.Identifier(table),
        rest=sql.Identifier(f"{table}_default"),
        day=sql.Identifier(name_of_day(table, day)),
        column=sql.Identifier(column),
        begin=_midnight(day),
        end=_midnight(day + dt.timedelta(days=1)),
    )


def _change(connection: psycopg.Connection[Any], statement: sql.Composed, *, table: str, term: TermHeld | None) -> bool:
    """Execute a statement in its own transaction, with a short wait for locks. Return False if it got no lock."""
    try:
        with connection.transaction():
            if term is not None:
                hold_term(connection, term)
            connection.execute(_LOCK_SOON)
            row = connection.execute(_ALONE, {"table": table}).fetchone()
            if not row or not row[0]:
                return False
            connection.execute(statement)
    except (LockNotAvailable, DuplicateTable):
        # A slow reader holds the table, or another main manager has made the change. The duty tries again at its next
        # turn, which is early enough.
        return False
    return True


def _midnight(day: dt.date) -> sql.Literal:
    return sql.Literal(dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC).isoformat())


def _day_of(name: str, *, table: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(name.removeprefix(f"{table}_"), "%Y%m%d").replace(tzinfo=dt.UTC).date()
    except ValueError:
        return None
