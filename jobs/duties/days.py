"""
Tables with a partition for each day: a day is created before it is needed, and dropped when it is old.

A day is created as a separate table and then attached, which does not lock out readers and writers. Only the default
partition is locked while the rows of that day move out of it; it has such rows only if no manager ran for days.
Dropping a day locks the whole table for some milliseconds. A change that does not get its locks soon is left to the
next turn.
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
# Main managers of several scopes may try: one is enough.
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


def keep_days(at: Pass, *, table: str, column: str, days: int) -> None:
    """Create the partitions of the coming days, and drop partitions that are more than `days` old."""
    today = at.now.astimezone(dt.UTC).date()
    oldest = today - dt.timedelta(days=days)
    names = at.connection.execute(_DAYS, {"table": table}).fetchall()
    there = {day for (name,) in names if (day := _day_of(name, table=table))}
    coming = {today + dt.timedelta(days=ahead) for ahead in range(_DAYS_AHEAD + 1)}
    changes = [(_MAKE, day) for day in sorted(coming - there)]
    changes += [(_DROP, day) for day in sorted(there) if day < oldest]
    for statements, day in changes:
        statement = sql.SQL(statements).format(
            table=sql.Identifier(table),
            rest=sql.Identifier(f"{table}_default"),
            day=sql.Identifier(f"{table}_{day:%Y%m%d}"),
            column=sql.Identifier(column),
            begin=_midnight(day),
            end=_midnight(day + dt.timedelta(days=1)),
        )
        if not _change(at.connection, statement, table=table, term=at.office):
            break


def _change(connection: psycopg.Connection[Any], statement: sql.Composed, *, table: str, term: TermHeld) -> bool:
    """Execute a statement alone and with a short wait for locks; return False if that was not possible."""
    try:
        with connection.transaction():
            hold_term(connection, term)
            connection.execute(_LOCK_SOON)
            row = connection.execute(_ALONE, {"table": table}).fetchone()
            if not row or not row[0]:
                return False
            connection.execute(statement)
    except (LockNotAvailable, DuplicateTable):
        # A reader is slow, or another main manager was faster: there is time.
        return False
    return True


def _midnight(day: dt.date) -> sql.Literal:
    return sql.Literal(dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC).isoformat())


def _day_of(name: str, *, table: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(name.removeprefix(f"{table}_"), "%Y%m%d").replace(tzinfo=dt.UTC).date()
    except ValueError:
        return None
