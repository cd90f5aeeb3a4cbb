"""
The roster: workers register, send signs of life, and leave. Lost workers are retired.

All functions take a plain psycopg connection in autocommit. Lock order: MainTerm, TaskWorker, Task.
"""

import datetime as dt
import logging
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from nodes.life.identity import NodeIdentity, has_ended_here
from nodes.membership.clock_jumps import notice_jump
from nodes.membership.fences import TermHeld, hold_term
from nodes.membership.restores import notice_restore
from nodes.membership.silent_periods import RECORD_AT_BEAT_OF_TASK_WORKER
from nodes.tasks import channels, endings
from nodes.tasks.decisions import Retire, WorkerSeen
from nodes.tasks.decisions import retire as decide_who_is_lost

logger = logging.getLogger(__name__)

_REGISTER: Final[LiteralString] = """
INSERT INTO tasks_taskworker (id, name, work_on, since, last_seen_at, host, boot_id, pid_namespace, pid, process_start)
VALUES (%(id)s, %(name)s, %(work_on)s, clock_timestamp(), clock_timestamp(), %(host)s, %(boot_id)s, %(pid_namespace)s,
        %(pid)s, %(process_start)s)
ON CONFLICT (id) DO NOTHING
"""
_BEAT: Final[LiteralString] = f"""
WITH beaten AS (
    UPDATE tasks_taskworker SET last_seen_at = clock_timestamp() WHERE id = %(worker)s RETURNING id
), noted AS ({RECORD_AT_BEAT_OF_TASK_WORKER})
SELECT id FROM beaten
"""
# Locks: the worker's row.
_LOCK: Final[LiteralString] = "SELECT 1 FROM tasks_taskworker WHERE id = %(worker)s FOR UPDATE"
_LEAVE: Final[LiteralString] = "UPDATE tasks_taskworker SET is_leaving = true WHERE id = %(worker)s"
_DELETE: Final[LiteralString] = "DELETE FROM tasks_taskworker WHERE id = %(worker)s"
_WORKERS: Final[LiteralString] = """
SELECT id, boot_id, pid_namespace, pid, process_start, clock_timestamp() - last_seen_at AS silence
  FROM tasks_taskworker ORDER BY id
"""
_SILENCE: Final[LiteralString] = """
SELECT clock_timestamp() - last_seen_at AS silence FROM tasks_taskworker WHERE id = %(worker)s FOR UPDATE
"""


def register(connection: psycopg.Connection[Any], *, me: NodeIdentity, work_on: str) -> None:
    """Put a worker on the roster. Call this again when the connection broke."""
    facts = {
        "id": me.id,
        "name": me.name,
        "work_on": work_on,
        "host": me.host,
        "boot_id": me.boot_id,
        "pid_namespace": me.pid_namespace,
        "pid": me.pid,
        "process_start": me.process_start,
    }
    with connection.transaction():
        notice_restore(connection)
        notice_jump(connection)
        connection.execute(_REGISTER, facts)
        channels.notify(connection, channels.RECRUIT)


def beat(connection: psycopg.Connection[Any], *, worker: UUID) -> bool:
    """Record a sign of life. Return False if the worker is no longer on the roster."""
    return connection.execute(_BEAT, {"worker": worker}).rowcount == 1


def begin_leaving(connection: psycopg.Connection[Any], *, worker: UUID) -> None:
    """Let the worker finish its task and get no more. A task that the worker has not begun goes to another worker."""
    with connection.transaction():
        connection.execute(_LOCK, {"worker": worker})
        connection.execute(_LEAVE, {"worker": worker})
        row = endings.lock(connection, endings.LOCK_OF_WORKER, {"worker": worker})
        if row is not None and row.started_at is None:
            endings.lose(connection, row, reason="it stops")


def leave(connection: psycopg.Connection[Any], *, worker: UUID, reason: str) -> None:
    """Take the worker off the roster. If it has a task, the attempt counts as lost for this reason."""
    with connection.transaction():
        connection.execute(_LOCK, {"worker": worker})
        _take_back(connection, worker=worker, reason=reason)
        connection.execute(_DELETE, {"worker": worker})


def lose_attempt(connection: psycopg.Connection[Any], *, worker: UUID, reason: str) -> bool:
    """
    End the attempt that the worker's ended process left behind. Return False if the worker is no longer on the roster.

    The worker stays on the roster, and another process replaces the ended one.
    """
    with connection.transaction():
        is_listed = connection.execute(_LOCK, {"worker": worker}).fetchone() is not None
        row = endings.lock(connection, endings.LOCK_OF_WORKER, {"worker": worker})
        if row is not None and row.started_at is not None:
            _log(row, reason)
            endings.lose(connection, row, reason=reason)
    return is_listed


def retire_lost(connection: psycopg.Connection[Any], *, dead_after: dt.timedelta, term: TermHeld | None = None) -> int:
    """
    Retire the lost workers, and take their tasks back. Return the number of retired workers.

    The main manager retires silent workers under its `term`. Any process may retire workers whose processes have ended
    on its own machine, since they cannot return: with `dead_after` at its maximum it retires only these.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_WORKERS).fetchall()
    seen = [
        WorkerSeen(
            id=row["id"],
            silence=row["silence"],
            is_gone=has_ended_here(
                boot_id=row["boot_id"],
                pid_namespace=row["pid_namespace"],
                pid=row["pid"],
                process_start=row["process_start"],
            ),
        )
        for row in rows
    ]
    gone = {worker.id for worker in seen if worker.is_gone}
    lost = decide_who_is_lost(seen, dead_after=dead_after)
    return sum(
        _retire(connection, lost_worker, term=term, dead_after=None if lost_worker.worker in gone else dead_after)
        for lost_worker in lost
    )


def _retire(
    connection: psycopg.Connection[Any], lost: Retire, *, term: TermHeld | None, dead_after: dt.timedelta | None
) -> bool:
    """
    Retire a worker, unless it has sent a sign of life since the decision. `dead_after` is None if its process has
    ended.
    """
    with connection.transaction():
        if term is not None:
            hold_term(connection, term)
        found = connection.execute(_SILENCE, {"worker": lost.worker}).fetchone()
        if found is None or (dead_after is not None and found[0] <= dead_after):
            return False
        _take_back(connection, worker=lost.worker, reason=lost.reason)
        connection.execute(_DELETE, {"worker": lost.worker})
    logger.warning("retired the task worker %s: %s", lost.worker, lost.reason)
    return True


def _take_back(connection: psycopg.Connection[Any], *, worker: UUID, reason: str) -> None:
    row = endings.lock(connection, endings.LOCK_OF_WORKER, {"worker": worker})
    if row is not None:
        _log(row, reason)
        endings.lose(connection, row, reason=reason)


def _log(row: Any, reason: str) -> None:
    logger.warning("task %d (%s) lost its worker %s: %s", row.id, row.kind, row.worker, reason)
