"""
The execution of one task, in a process of django-q2.

django-q2 calls `execute` with the number of a task and an epoch, and knows nothing else of it. The function claims the
row: it must name this worker and this epoch, and must not have begun. A second delivery therefore finds nothing. While
the task runs, a thread reports that the worker lives. The end is written in one transaction, under the same condition.
"""

import json
import logging
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from django.db import close_old_connections
from psycopg.types.json import Jsonb

from nodes.database.texts import storable
from nodes.errors import Invalid
from nodes.membership.silent_periods import RECORD_AT_BEAT_OF_TASK_WORKER
from nodes.tasks import endings, kinds, listeners
from nodes.tasks.context import LastAttempt, TaskContext
from nodes.tasks.models import TaskEvent
from nodes.tasks.retrying import Never, Retry, Why, read_policy
from nodes.tasks.session import Session

logger = logging.getLogger(__name__)

# Time (seconds) for which the end of a task waits for a database that is down. After it the process gives up, and the
# task counts as lost.
_RETRY_FOR: Final = 300.0
# Exit code of a process that could not write the end of its task.
GAVE_UP: Final = 70

# Locks: the task's row.
_CLAIM: Final[LiteralString] = """
UPDATE tasks_task AS task SET started_at = clock_timestamp(), attempts = attempts + 1
  FROM tasks_taskworker AS worker
 WHERE task.id = %(task)s AND task.worker_id = %(worker)s AND task.epoch = %(epoch)s AND task.started_at IS NULL
   AND worker.id = task.worker_id
RETURNING task.*, clock_timestamp() AS now
"""
# Locks: the worker's row, then the task's. The answer is empty if the task no longer belongs to this attempt.
_BEAT: Final[LiteralString] = f"""
WITH beaten AS (
    UPDATE tasks_taskworker SET last_seen_at = clock_timestamp() WHERE id = %(worker)s RETURNING id
), noted AS ({RECORD_AT_BEAT_OF_TASK_WORKER})
UPDATE tasks_task AS task SET progress = coalesce(%(progress)s, progress) FROM beaten
 WHERE task.id = %(task)s AND task.worker_id = beaten.id AND task.epoch = %(epoch)s AND task.started_at IS NOT NULL
RETURNING cancelled_by
"""
# Locks: the row of the task, in one of the two tables.
_COUNT_LATE: Final[LiteralString] = """
WITH scheduled AS (
    UPDATE tasks_task SET late_endings = late_endings + 1 WHERE id = %(task)s RETURNING id
)
UPDATE tasks_archivedtask SET late_endings = late_endings + 1
 WHERE id = %(task)s AND NOT EXISTS (SELECT FROM scheduled)
"""


class Executor:
    """Executes the tasks of one worker, one at a time."""

    def __init__(self, session: Callable[[str], Session], *, worker: UUID, beat: float) -> None:
        """`session` opens a session for a purpose. `beat` is the time between two signs of life (seconds)."""
        self._new_session = session
        self._session = session("execute")
        self._worker, self._beat = worker, beat

    def execute(self, task: int, epoch: int) -> bool:
        """Execute a task that was assigned to this worker in this epoch. Return False if there is no such task."""
        facts = {"task": task, "epoch": epoch, "worker": self._worker}
        row = self._session.run(lambda connection: _claim(connection, facts), wait_at_most=_RETRY_FOR)
        if row is None:
            logger.info("skipped task %d of epoch %d: it is not assigned to this worker", task, epoch)
            return False
        logger.info("task %d (%s) started, attempt %d", task, row.kind, row.attempts)
        with _Beats(self._new_session("beat"), facts, every=self._beat) as beats:
            outcome = _run(row, beats)
        close_old_connections()
        try:
            self._session.run(lambda connection: _end(connection, facts, outcome), wait_at_most=_RETRY_FOR)
        except Exception:
            logger.exception("the end of task %d cannot be stored: this process ends", task)
            os._exit(GAVE_UP)
        return True

    def close(self) -> None:
        """Close the session of this executor."""
        self._session.close()

    def deliver(self) -> int:
        """Deliver waiting events of tasks to their listeners. Return their number."""
        return self._session.run(lambda connection: listeners.deliver(connection, kinds.listeners()))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of an attempt, or the exception that ended it."""

    result: object = None
    raised: BaseException | None = None
    trace: str = ""


class _Beats:
    """A thread that reports that the worker lives, and the progress of its task, while the block runs."""

    def __init__(self, session: Session, facts: Mapping[str, Any], *, every: float) -> None:
        self._session, self._facts, self._every = session, facts, every
        self._ends, self._wakes = False, threading.Event()
        self._progress: Mapping[str, Any] | None = None
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name="beats of a task", daemon=True)

    def __enter__(self) -> "_Beats":
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ends = True
        self._wakes.set()
        self._thread.join()

    def report(self, progress: Mapping[str, Any]) -> None:
        """Show this progress at the next sign of life."""
        reported = dict(progress)
        # The thread stores this value with its next sign of life. A value that cannot be stored would end the signs of
        # life.
        _check_storable(reported)
        self._progress = reported

    def is_cancelled(self) -> bool:
        """True if a user cancelled the task, or if another worker has it."""
        return self._is_cancelled

    def _run(self) -> None:
        try:
            while not self._wakes.wait(self._every) and not self._ends:
                try:
                    self._is_cancelled |= self._session.run(self._beat)
                except psycopg.Error as error:
                    logger.warning(
                        "the heartbeat of task %d cannot be stored: %s", self._facts["task"], str(error).strip()
                    )
        finally:
            self._session.close()

    def _beat(self, connection: psycopg.Connection[Any]) -> bool:
        progress = None if self._progress is None else Jsonb(self._progress)
        found = connection.execute(_BEAT, {**self._facts, "progress": progress}).fetchone()
        return found is None or bool(found[0])


def _claim(connection: psycopg.Connection[Any], facts: Mapping[str, Any]) -> Any:
    with connection.transaction():
        row = endings.lock(connection, _CLAIM, dict(facts))
        if row is not None:
            endings.record(connection, row, TaskEvent.Kind.STARTED)
    return row


def _run(row: Any, beats: _Beats) -> _Outcome:
    """Run the kind of a claimed task. An exception is an outcome, too."""
    try:
        kind = kinds.find(row.kind)
        result = kind.run(_context_of(row, beats), row.arguments)
        _check_storable(result)
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - the retry policy decides about any failure
        return _Outcome(raised=raised, trace=traceback.format_exc())
    return _Outcome(result=result)


def _check_storable(value: object) -> None:
    """
    Accept a value that PostgreSQL stores as JSON.

    Raises:
        TypeError, ValueError: the value is not JSON, or has a NUL character, half a surrogate pair, infinity or NaN.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if r"\u0000" in text:
        raise ValueError("the value has a NUL character, which PostgreSQL does not store")
    if storable(text) != text:
        raise ValueError("the value has half a surrogate pair, which PostgreSQL does not store")


def _context_of(row: Any, beats: _Beats) -> TaskContext:
    try:
        policy = read_policy(row.retry_policy)
    except Invalid:
        policy = Never()
    last = None
    if row.attempts > 1:
        last = LastAttempt(
            due_at=row.last_due_at,
            started_at=row.last_started_at,
            ended_at=row.last_ended_at,
            crashed=row.last_crashed,
            exception=row.last_class,
            message=row.last_message,
            trace=row.last_trace,
        )
    return TaskContext(
        task=row.id,
        group=row.group,
        retry_number=row.attempts - 1,
        is_last_retry=policy.is_last(attempts=row.attempts, created_at=row.created_at, now=row.now),
        last_attempt=last,
        report=beats.report,
        is_cancelled=beats.is_cancelled,
    )


def _end(connection: psycopg.Connection[Any], facts: Mapping[str, Any], outcome: _Outcome) -> None:
    then: Retry | Why | None = None
    with connection.transaction():
        row = endings.lock(connection, endings.LOCK_OF_ATTEMPT, dict(facts))
        if row is None:
            connection.execute(_COUNT_LATE, facts)
        elif outcome.raised is None:
            then = endings.end_well(connection, row, result=outcome.result)
        else:
            then = endings.end_badly(connection, row, raised=outcome.raised, trace=outcome.trace)
    # Logged after the commit: if the process is killed before the commit, the end is not stored.
    if then is None:
        logger.warning("task %d was given to another worker: its end is not stored", facts["task"])
    elif outcome.raised is None:
        logger.info("task %d ended: %s", facts["task"], then)
    else:
        follows = f"again at {then.at}" if isinstance(then, Retry) else then.value
        logger.warning("task %d failed with %s: %s", facts["task"], type(outcome.raised).__name__, follows)


_of_this_process: Executor | None = None


def use(executor: Executor) -> None:
    """Let `execute` use this executor. A worker calls it before it starts the processes of django-q2."""
    global _of_this_process  # noqa: PLW0603 - django-q2 calls a function by its name
    _of_this_process = executor


def execute(task: int, epoch: int) -> bool:
    """Execute a task with the executor of this process. django-q2 calls this function."""
    assert _of_this_process is not None
    is_ours = _of_this_process.execute(task, epoch)
    deliver_events()
    return is_ours


def deliver_events() -> None:
    """Deliver waiting events of tasks to their listeners. A failure leaves them for the next task."""
    assert _of_this_process is not None
    try:
        _of_this_process.deliver()
    except psycopg.Error as error:
        logger.warning("events of tasks cannot be delivered now: %s", str(error).strip())
