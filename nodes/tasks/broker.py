"""
The queue of one worker, as a broker of django-q2: at most one task, which is the row of `Task` that names the worker.

Nothing is stored for django-q2. When django-q2 asks for a package, the queue makes one, which holds the number and the
epoch of a task. So no pickle from the database is ever read, and a forged row cannot name a function.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from django_q.brokers import Broker
from django_q.signing import SignedPackage
from psycopg import sql

from nodes.tasks import roster
from nodes.tasks.channels import of_worker
from nodes.tasks.session import Session

logger = logging.getLogger(__name__)

# Exit code of the process that finds its worker retired.
RETIRED: Final = 71
# Longest wait of one call (seconds): between two calls the process of django-q2 checks whether it should end.
_TURN: Final = 0.5
# Delay (seconds) until a task that was handed to a process, but not claimed, is handed out again.
_AGAIN: Final = 5.0

_ASSIGNED: Final[LiteralString] = "SELECT id, epoch FROM tasks_task WHERE worker_id = %(worker)s AND started_at IS NULL"
_RUNS: Final[LiteralString] = "SELECT EXISTS (SELECT FROM tasks_task WHERE worker_id = %(worker)s)"


class TaskBroker(Broker):  # type: ignore[misc]  # django-q2 has no types
    """Hands out the task of one worker. While the worker has no task, reports that the worker lives."""

    def __init__(self, session: Callable[[str], Session], *, worker: UUID, beat: float) -> None:
        """`session` opens a session for a purpose. `beat` is the time between two signs of life (seconds)."""
        super().__init__(list_key=str(worker))
        self._session = session("listen")
        self._worker, self._beat_every = worker, beat
        self._listens_on: psycopg.Connection[Any] | None = None
        self._read_at = self._handed_at = float("-inf")
        self._handed: tuple[int, int] | None = None

    def dequeue(self) -> list[tuple[str, str]]:
        """Return the package of the assigned task, after a wait for one. Empty if there is none."""
        try:
            assigned = self._session.run(self._wait_for_task)
        except psycopg.Error as error:
            logger.warning("the task worker cannot read its queue: %s", str(error).strip())
            time.sleep(_TURN)
            return []
        if assigned is None:
            return []
        self._handed, self._handed_at = assigned, time.monotonic()
        return [(f"{assigned[0]}/{assigned[1]}", package_of(*assigned))]

    def _wait_for_task(self, connection: psycopg.Connection[Any]) -> tuple[int, int] | None:
        if self._listens_on is not connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(of_worker(self._worker))))
            self._listens_on, self._read_at = connection, float("-inf")
        is_called = any(True for _ in connection.notifies(timeout=_TURN, stop_after=1))
        is_late = self._handed is not None and time.monotonic() - self._handed_at > _AGAIN
        if not is_called and not is_late and time.monotonic() - self._read_at < self._beat_every:
            return None
        self._read_at = time.monotonic()
        assigned: tuple[int, int] | None = connection.execute(_ASSIGNED, {"worker": self._worker}).fetchone()
        if assigned is None:
            self._handed = None
            self._beat_if_idle(connection)
        elif assigned == self._handed and not is_late:
            return None
        return assigned

    def _beat_if_idle(self, connection: psycopg.Connection[Any]) -> None:
        """Report that the worker lives, unless it runs a task: then the process of the task reports that."""
        (runs,) = connection.execute(_RUNS, {"worker": self._worker}).fetchone() or (False,)
        if not runs and not roster.beat(connection, worker=self._worker):
            logger.error("this task worker was retired, so it ends")
            os._exit(RETIRED)


def package_of(task: int, epoch: int) -> str:
    """Return the signed package that tells django-q2 to execute a task of this epoch."""
    package: str = SignedPackage.dumps(
        {
            "id": f"{task}/{epoch}",
            "name": f"task {task}",
            "func": "nodes.tasks.execution.execute",
            "args": (task, epoch),
            "kwargs": {},
            "save": False,
        }
    )
    return package
