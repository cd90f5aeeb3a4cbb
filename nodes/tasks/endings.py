"""
Ends of attempts: a task is archived, or waits for its next attempt.

Each function belongs to a transaction of the caller that has locked the task's row. The row leaves `Task` and enters
`ArchivedTask` in one statement, so no crash leaves it in both tables or in none.
"""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from nodes.database.texts import storable
from nodes.errors import Invalid
from nodes.tasks import channels
from nodes.tasks.models import TaskEvent
from nodes.tasks.retrying import WORKER_LOST, Failure, Never, Retry, Why, decide, names_of, read_policy

# Longest stored texts of an exception (characters).
LONGEST_TRACE: Final = 4096
LONGEST_MESSAGE: Final = 1000

# Locks: the task's row.
_LOCK: Final[LiteralString] = """
SELECT task.*, clock_timestamp() AS now, worker.name || ' (' || worker.host || ':' || worker.pid || ')' AS worker
  FROM tasks_task AS task JOIN tasks_taskworker AS worker ON worker.id = task.worker_id
"""
LOCK_OF_WORKER: Final[LiteralString] = f"{_LOCK} WHERE task.worker_id = %(worker)s FOR UPDATE OF task"
LOCK_OF_ATTEMPT: Final[LiteralString] = f"""
{_LOCK} WHERE task.id = %(task)s AND task.worker_id = %(worker)s AND task.epoch = %(epoch)s
          AND task.started_at IS NOT NULL FOR UPDATE OF task
"""
_NOTE: Final[LiteralString] = """
UPDATE tasks_task
   SET last_due_at = scheduled_at, last_started_at = started_at, last_ended_at = %(ended_at)s,
       last_crashed = %(crashed)s, last_class = %(class)s, last_message = %(message)s, last_trace = %(trace)s,
       last_worker = %(worker)s, crashes = %(crashes)s, scheduled_at = coalesce(%(retry_at)s, scheduled_at),
       worker_id = NULL, assigned_at = NULL, started_at = NULL, progress = '{}', cancelled_by = ''
 WHERE id = %(task)s
"""
_UNASSIGN: Final[LiteralString] = "UPDATE tasks_task SET worker_id = NULL, assigned_at = NULL WHERE id = %(task)s"
_FACTS: Final[LiteralString] = """
kind, arguments, "group", tags, urn, retry_policy, created_at, created_by, made_of, made_of_urn, execution, attempts,
crashes, last_due_at, last_started_at, last_ended_at, last_crashed, last_class, last_message, last_trace, last_worker,
late_endings
"""
ARCHIVE: Final[LiteralString] = f"""
WITH ended AS (DELETE FROM tasks_task WHERE id = %(task)s RETURNING *)
INSERT INTO tasks_archivedtask (id, why, archived_at, result, {_FACTS})
SELECT id, %(why)s, clock_timestamp(), %(result)s, {_FACTS} FROM ended
"""
_EVENT: Final[LiteralString] = """
INSERT INTO tasks_taskevent (at, task, attempt, kind, detail)
VALUES (clock_timestamp(), %(task)s, %(attempt)s, %(kind)s, %(detail)s)
"""


def lock(connection: psycopg.Connection[Any], statement: LiteralString, facts: dict[str, Any]) -> Any:
    """Return the row of a task that is locked now, with the database's time; None if there is no such row."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(statement, facts).fetchone()


def end_well(connection: psycopg.Connection[Any], row: Any, *, result: object) -> Why:
    """Archive a task that succeeded, or that was cancelled while it ran."""
    why = Why.CANCELLED if row.cancelled_by else Why.DONE
    _note(connection, row, ended_at=row.now, crashed=False, crashes=0)
    _archive(connection, row, why=why, result=result)
    return why


def end_badly(connection: psycopg.Connection[Any], row: Any, *, raised: BaseException, trace: str) -> Retry | Why:
    """Let the retry policy of a task decide about its failed attempt. Return the next attempt, or why there is none."""
    return _fail(
        connection,
        row,
        classes=names_of(type(raised)),
        message=str(raised),
        trace=trace,
        ended_at=row.now,
    )


def lose(connection: psycopg.Connection[Any], row: Any, *, reason: str) -> Retry | Why | None:
    """
    End the attempt of a worker that was lost, or take the task back if it has not begun.

    The retry policy decides as for a failure of the class `WorkerLost`.
    """
    if row.started_at is None:
        connection.execute(_UNASSIGN, {"task": row.id})
        channels.notify(connection, channels.RECRUIT)
        return None
    return _fail(
        connection,
        row,
        classes=[WORKER_LOST, "Exception"],
        message=f"The worker {row.worker} was lost: {reason}.",
        trace="",
        ended_at=None,
    )


def record(connection: psycopg.Connection[Any], row: Any, kind: TaskEvent.Kind, **detail: object) -> None:
    """Write an event of a task for its listeners."""
    facts = {"kind": row.kind, "group": row.group, "urn": row.urn, **detail}
    connection.execute(_EVENT, {"task": row.id, "attempt": row.attempts, "kind": kind.value, "detail": Jsonb(facts)})


def _fail(
    connection: psycopg.Connection[Any],
    row: Any,
    *,
    classes: list[str],
    message: str,
    trace: str,
    ended_at: dt.datetime | None,
) -> Retry | Why:
    crashes = row.crashes + 1 if ended_at is None else 0
    failure = Failure(classes=classes, attempts=row.attempts, created_at=row.created_at, crashes=crashes)
    try:
        policy = read_policy(row.retry_policy)
    except Invalid:
        # Another version of crawlctl stored a policy that this version does not know.
        policy = Never()
    decision = decide(policy, failure, now=row.now)
    is_retried = isinstance(decision, Retry) and not row.cancelled_by
    texts = {"class": classes[0], "message": message[:LONGEST_MESSAGE], "trace": trace[-LONGEST_TRACE:]}
    texts = {name: storable(text) for name, text in texts.items()}
    retry_at = decision.at if isinstance(decision, Retry) and is_retried else None
    _note(connection, row, ended_at=ended_at, crashed=ended_at is None, crashes=crashes, retry_at=retry_at, **texts)
    if isinstance(decision, Retry) and is_retried:
        record(connection, row, TaskEvent.Kind.ENDED, why="", exception=texts["class"], message=texts["message"])
        channels.notify(connection, channels.RECRUIT)
        return decision
    why = Why.CANCELLED if row.cancelled_by or isinstance(decision, Retry) else decision.why
    _archive(connection, row, why=why, exception=texts["class"], message=texts["message"])
    return why


def _note(connection: psycopg.Connection[Any], row: Any, **facts: object) -> None:
    """Store the attempt as the last one of the task, which no longer has a worker."""
    nothing = {"class": "", "message": "", "trace": "", "retry_at": None}
    connection.execute(_NOTE, {**nothing, "task": row.id, "worker": row.worker, **facts})


def _archive(
    connection: psycopg.Connection[Any], row: Any, *, why: Why, result: object = None, **facts: object
) -> None:
    stored = None if result is None else Jsonb(result)
    connection.execute(ARCHIVE, {"task": row.id, "why": why.value, "result": stored})
    record(connection, row, TaskEvent.Kind.ENDED, why=why.value, **facts)
    if why not in {Why.DONE, Why.CANCELLED}:
        record(connection, row, TaskEvent.Kind.FAILED_FINALLY, why=why.value, **facts)
    channels.notify(connection, channels.RECRUIT)
