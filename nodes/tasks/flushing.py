"""A synchronous flush for tests: every scheduled task is executed once in this process, whatever its date."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.tasks import roster
from nodes.tasks.execution import Executor
from nodes.tasks.models import ArchivedTask, Task
from nodes.tasks.session import Session
from nodes.tasks.settings import DEAD_AFTER

_TAKE: Final[LiteralString] = """
UPDATE tasks_task SET worker_id = %(worker)s, epoch = epoch + 1, assigned_at = clock_timestamp()
 WHERE id = %(task)s AND worker_id IS NULL
RETURNING epoch
"""
# Time between two signs of life of the worker (seconds): no recruiter retires it during a test.
_BEAT: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """The end of one execution. `why` is empty if the task waits for another attempt."""

    why: str
    exception: str
    message: str

    @property
    def is_failure(self) -> bool:
        return bool(self.exception)


class Report(dict[int, Flushed]):
    """The executions of a flush, by the numbers of the tasks, in their order."""

    @property
    def has_failure(self) -> bool:
        """True if an execution failed."""
        return any(flushed.is_failure for flushed in self.values())


def flush(session: Callable[[str], Session]) -> Report:
    """Execute each task that is scheduled now once, the oldest first, and return the report."""
    me = NodeIdentity.of_this_process(
        kind=NodeKind.WORKER, scope=CLUSTER_SCOPE, name="flush", timeout=DEAD_AFTER.default
    )
    opened = session("flush")
    executor = Executor(session, worker=me.id, beat=_BEAT)
    report = Report()
    opened.run(lambda connection: roster.register(connection, me=me, work_on="flush"))
    # No recruiter may assign tasks to this worker.
    opened.run(lambda connection: roster.begin_leaving(connection, worker=me.id))
    try:
        for task in Task.objects.order_by("scheduled_at", "id").values_list("pk", flat=True):
            facts = {"task": task, "worker": me.id}
            taken = opened.run(lambda connection, facts=facts: _take(connection, facts))  # type: ignore[misc]
            if taken is not None and executor.execute(task, taken):
                report[task] = _result_of(task)
    finally:
        opened.run(lambda connection: roster.leave(connection, worker=me.id, reason="the flush ended"))
        opened.close()
        executor.close()
    return report


def _take(connection: psycopg.Connection[Any], facts: dict[str, Any]) -> int | None:
    taken = connection.execute(_TAKE, facts).fetchone()
    return None if taken is None else int(taken[0])


def _result_of(task: int) -> Flushed:
    archived = ArchivedTask.objects.filter(pk=task).first()
    if archived is not None:
        return Flushed(why=archived.why, exception=archived.last_class, message=archived.last_message)
    waiting = Task.objects.get(pk=task)
    return Flushed(why="", exception=waiting.last_class, message=waiting.last_message)
