"""
Retention: old rows are deleted, subject by subject (`retention_subjects`).

No crawl waits for this work, so background tasks do it (`jobs.retention`). A main manager does the work only while no
task worker is on the roster, as in a one-shot crawl. A repeated cleaning does no harm, so the term of the main manager
is the only fence.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from jobs.duties.context import Pass
from jobs.duties.daily_tables import drop_days, find_old_days, name_of_day
from jobs.duties.retention_subjects import SUBJECTS, Days, Subject
from nodes.database.clock import read_clock
from nodes.membership.fences import TermHeld, hold_term
from nodes.membership.silent_periods import moment_of_ages

# Largest number of rows of each table that a preview counts.
COUNTED_AT_MOST: Final = 100_000
_CHUNK: Final = 2_000

WITHOUT_TASK_WORKERS: Final[LiteralString] = "NOT EXISTS (SELECT FROM tasks_taskworker)"


@dataclass(frozen=True, slots=True)
class Old:
    """
    The rows that a cleaning would delete now. For tables with partitions by day, `rows` is an estimate, and `bytes` is
    set.
    """

    rows: int
    partitions: int
    bytes: int


def clean(
    connection: psycopg.Connection[Any],
    subject: Subject,
    *,
    now: dt.datetime,
    term: TermHeld | None = None,
    should_continue: Callable[[int], bool] = lambda _deleted: True,
) -> int:
    """
    Delete the old rows of a subject in chunks, until `should_continue` returns False for the number of deleted rows.
    Return the numbers of deleted rows and partitions.

    Raises:
        FenceRefused: the term of a main manager has ended.
    """
    deleted = 0
    for table in subject.tables:
        days = table.days()
        if days is None:
            continue
        if isinstance(table, Days):
            deleted += drop_days(connection, table=table.table, column=table.column, days=days, now=now, term=term)
            continue
        delete = partial(_delete, connection, table.statement, before=now - dt.timedelta(days=days), term=term)
        while should_continue(deleted) and (gone := delete()):
            deleted += gone
    return deleted


def _delete(
    connection: psycopg.Connection[Any], statement: LiteralString, *, before: dt.datetime, term: TermHeld | None
) -> int:
    with connection.transaction():
        if term is not None:
            hold_term(connection, term)
        return connection.execute(f"DELETE {statement}", {"before": before, "most": _CHUNK}).rowcount


def look(connection: psycopg.Connection[Any], subject: Subject, *, now: dt.datetime) -> Old:
    """Return the rows that a cleaning of a subject would delete now. Rows of a table are counted up to a limit."""
    rows = partitions = size = 0
    for table in subject.tables:
        days = table.days()
        if days is None:
            continue
        if isinstance(table, Days):
            for day in find_old_days(connection, table=table.table, days=days, now=now):
                found = connection.execute(
                    sql.SQL("SELECT count(*), pg_total_relation_size({name}::regclass) FROM {day}").format(
                        name=sql.Literal(name_of_day(table.table, day)),
                        day=sql.Identifier(name_of_day(table.table, day)),
                    )
                ).fetchone()
                assert found is not None
                rows, partitions, size = rows + found[0], partitions + 1, size + found[1]
            continue
        statement = _without_locks(table.statement)
        facts = {"before": now - dt.timedelta(days=days), "most": COUNTED_AT_MOST}
        counted = connection.execute(f"SELECT count(*) {statement}", facts).fetchone()
        assert counted is not None
        rows += counted[0]
    return Old(rows, partitions, size)


def _without_locks(statement: LiteralString) -> LiteralString:
    return statement.replace("FOR UPDATE SKIP LOCKED", "").replace("FOR UPDATE OF counter SKIP LOCKED", "")


def clean_without_task_workers(at: Pass) -> int:
    """Delete the old rows of every subject, because there is no task worker that does it; return 0."""
    now = moment_of_ages(at.connection, now=at.now)
    for subject in _find_old_subjects(at.connection, now=now):
        clean(at.connection, subject, now=now, term=at.held_term)
    return 0


def _find_old_subjects(connection: psycopg.Connection[Any], *, now: dt.datetime) -> list[Subject]:
    """
    Return the subjects that may have old rows. One statement reads all subjects, because most have no old rows in a
    short crawl.
    """
    conditions: dict[str, list[str]] = {}
    before: dict[str, dt.datetime] = {}
    for subject in SUBJECTS.values():
        conditions[subject.name] = []
        for table in subject.tables:
            if isinstance(table, Days):
                # To find old partitions, the database's catalogue must be read, so only the cleaning itself does
                # that.
                conditions[subject.name].append("true")
            elif (days := table.days()) is not None:
                name = f"before_{len(before)}"
                before[name] = now - dt.timedelta(days=days)
                statement = _without_locks(table.statement).replace("%(before)s", f"%({name})s")
                conditions[subject.name].append(f"EXISTS (SELECT {statement})")
    is_old = ", ".join(" OR ".join(some) or "false" for some in conditions.values())
    row = connection.execute(f"SELECT {is_old}", {**before, "most": 1}).fetchone()
    assert row is not None
    return [SUBJECTS[name] for name, is_wanted in zip(conditions, row, strict=True) if is_wanted]


def clean_by_task(connection: psycopg.Connection[Any], name: str, *, should_continue: Callable[[int], bool]) -> int:
    """
    Delete the old rows of the subject with this name, by the database's clock. Return the numbers of deleted rows
    and partitions.
    """
    now = moment_of_ages(connection, now=read_clock())
    return clean(connection, SUBJECTS[name], now=now, should_continue=should_continue)
