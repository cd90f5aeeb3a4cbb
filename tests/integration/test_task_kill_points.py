"""
Proves that a task is in exactly one table, whatever statement of its execution a kill interrupts.

The connection of the worker breaks before or after a random statement, like that of a killed process. The server then
rolls back the open transaction. Another worker continues the task if its retry policy says so.
"""

import datetime as dt
import os
import random

import psycopg
import pytest

from nodes.tasks import roster, verbs
from nodes.tasks.models import ArchivedTask, Task, TaskWorker
from tests.support.task_kinds import NAMED
from tests.support.tasks import MainRecruiter, Worker, events_of, where

# Number of tasks whose workers are killed at random statements. A full test has 1,000, which takes some minutes.
SEEDS = range(int(os.environ.get("CRAWLCTL_TEST_KILL_POINTS", "100")))
CHUNKS = 4


class Killed(BaseException):
    """The exception that stands for a kill of the worker's process."""


class MortalConnection(psycopg.Connection):
    """A connection that breaks at its n-th statement: before it is sent, or after its answer."""

    lives = float("inf")
    dies_before = True

    def _count(self):
        self.lives -= 1
        return self.lives < 0

    def wait(self, gen, *args, **kwargs):
        dies = self._count()
        if dies and self.dies_before:
            self._die()
        answer = super().wait(gen, *args, **kwargs)
        if dies:
            self._die()
        return answer

    def _die(self):
        self.pgconn.finish()
        raise Killed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_kill_at_any_statement_leaves_a_task_in_one_table(chunk, connection, dsn, settings, tmp_path):
    settings.CRAWLCTL_TASKS = (NAMED,)
    main_recruiter = MainRecruiter(connection)
    killed = 0
    for seed in SEEDS[chunk::CHUNKS]:
        chance = random.Random(seed)
        kind, arguments = chance.choice([("note", {"file": str(tmp_path / "notes")}), ("fail", {})])
        policy = {"policy": "times", "times": 3, "seconds": 0}
        task = verbs.create(kind=kind, arguments=arguments, retry_policy=policy, made_by="a test")
        while where(task.pk) == ["scheduled"]:
            worker = Worker(connection, dsn)
            assert main_recruiter.assign() == 1
            killed += _work_and_perhaps_die(worker, dsn, chance)
            assert len(where(task.pk)) == 1
            roster.leave(connection, worker=worker.id, reason="it was killed")
            assert len(where(task.pk)) == 1
        archived = ArchivedTask.objects.get(pk=task.pk)
        assert archived.why in {"done", "tried-too-many-times"}
        events = events_of(task.pk)
        assert len(set(events)) == len(events)
        assert [attempt for attempt, kind in events if kind == "started"] == list(range(1, archived.attempts + 1))
        assert [attempt for attempt, kind in events if kind == "ended"] == list(range(1, archived.attempts + 1))
        assert events[-1][1] == ("ended" if archived.why == "done" else "failed_finally")
    assert killed > len(SEEDS) // CHUNKS // 4
    assert not Task.objects.exists()
    assert not TaskWorker.objects.exists()


def _work_and_perhaps_die(worker, dsn, chance):
    """Execute the worker's task on a connection that may break. Return True if it broke."""
    task = worker.assigned()
    with MortalConnection.connect(dsn, autocommit=True) as mortal:
        # An execution takes 12 to 13 statements.
        mortal.lives, mortal.dies_before = chance.randrange(20), chance.random() < 0.5
        try:
            worker.executor(mortal).execute(task.pk, task.epoch)
        except Killed:
            return True
        finally:
            mortal.lives = float("inf")
    return False


def test_a_task_that_a_silent_worker_ends_late_has_one_row(connection, dsn, settings):
    settings.CRAWLCTL_TASKS = (NAMED,)
    main_recruiter, worker = MainRecruiter(connection), Worker(connection, dsn)
    task = verbs.create(kind="fail", made_by="a test")
    main_recruiter.assign()
    main_recruiter.retire(dt.timedelta(0))
    worker.executor().execute(task.pk, 1)

    assert where(task.pk) == ["scheduled"]
