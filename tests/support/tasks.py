"""Background tasks for tests: workers as rows, a recruiter of this process, and cycles of both."""

import json
from uuid import uuid4

import psycopg

from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.tasks import recruiter, roster
from nodes.tasks.execution import Executor
from nodes.tasks.models import ArchivedTask, Task, TaskEvent
from tests.support.cluster import ELSEWHERE, TIMEOUT, elect_main, register_node


class OpenSession:
    """A session on a connection of the test."""

    def __init__(self, connection):
        self._connection = connection

    def run(self, work, *, wait_at_most=0.0):
        return work(self._connection)

    def close(self):
        pass


class OwnSession:
    """A session with its own connection, for threads."""

    def __init__(self, dsn):
        self._dsn, self._connection = dsn, None

    def run(self, work, *, wait_at_most=0.0):
        self._connection = self._connection or psycopg.connect(self._dsn, autocommit=True)
        return work(self._connection)

    def close(self):
        if self._connection is not None:
            self._connection.close()


class MainRecruiter:
    """The recruiter of a main manager in this process."""

    def __init__(self, connection):
        self.connection = connection
        self.term = elect_main(connection, register_node(connection, "manager"))

    def assign(self):
        return recruiter.assign_due_tasks(self.connection, term=self.term)

    def make(self):
        return recruiter.make_due_tasks(self.connection, term=self.term)

    def retire(self, dead_after):
        return recruiter.retire_lost_workers(self.connection, term=self.term, dead_after=dead_after)


class Worker:
    """A worker of this process, which executes tasks on the connection that it is given."""

    def __init__(self, connection, dsn, *, work_on="*", name="w", beat=60.0, **facts):
        self.connection = connection
        self.me = NodeIdentity(
            id=uuid4(), kind=NodeKind.WORKER, scope=CLUSTER_SCOPE, name=name, timeout=TIMEOUT, **{**ELSEWHERE, **facts}
        )
        self.id = self.me.id
        roster.register(connection, me=self.me, work_on=work_on)
        self._dsn, self._beat = dsn, beat

    def executor(self, connection=None):
        opened = OpenSession(connection or self.connection)
        return Executor(
            lambda purpose: OwnSession(self._dsn) if purpose == "beat" else opened, worker=self.id, beat=self._beat
        )

    def assigned(self):
        """Return the row of the worker's task; None if it has no task."""
        return Task.objects.filter(worker=self.id).first()

    def work(self):
        """Execute its task. Return False if it has none."""
        task = self.assigned()
        return task is not None and self.executor().execute(task.pk, task.epoch)


def where(task):
    """Return the tables that hold a task: scheduled, archived, or both."""
    tables = (("scheduled", Task), ("archived", ArchivedTask))
    return [name for name, model in tables if model.objects.filter(pk=task).exists()]


def events_of(task):
    return list(TaskEvent.objects.filter(task=task).order_by("id").values_list("attempt", "kind"))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
