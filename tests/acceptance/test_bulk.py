"""
Proves that an operation on documents survives kills of its processes, with the result of an undisturbed operation.
"""

import psutil
import psycopg
import pytest
from django.db.models import Sum

from jobs.bulk import verbs
from jobs.bulk.models import BulkOperation
from jobs.models import CounterDelta, JobCounter, QueueItem
from jobs.queue import chosen_documents
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from tests.support.api import make_documents, make_job
from tests.support.processes import QUICK_HEARTBEATS, wait_for

CHUNK = chosen_documents._REMOVED_AT_ONCE
# Number of documents: slightly more than four chunks.
DOCUMENTS = 4 * CHUNK + 17
KEPT = 5
AT_ONCE = {"policy": "times", "times": 10, "seconds": 0}


@pytest.fixture(autouse=True)
def no_templates(machine):
    """Remove the built-in templates, whose tasks would run among those of a test."""
    TaskTemplate.objects.all().delete()


@pytest.fixture
def start_worker(cluster):
    def start():
        command = cluster.machine.start("runtasks", **QUICK_HEARTBEATS)
        wait_for(lambda: TaskWorker.objects.filter(pid=command.pid).exists(), saying="the worker is on the roster")
        return command

    return start


@pytest.fixture
def lock(machine):
    """Lock a document, so that an operation waits for it in the middle of a chunk."""
    with psycopg.connect(machine.database.dsn) as connection:

        def hold(document):
            connection.rollback()
            connection.execute("SELECT FROM jobs_queueitem WHERE hash = %s FOR UPDATE", [document.hash])

        hold.release = connection.rollback
        yield hold


def is_in_chunk(machine, operation, number):
    """True if the operation has finished `number` chunks, and waits for a lock in the next one."""
    waiting = machine.database.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return waiting and BulkOperation.objects.get(pk=operation.pk).changed == number * CHUNK


def executing_child(command):
    """Return the process that executes the tasks of a worker. It is the first child of the worker."""
    return min(psutil.Process(command.pid).children(), key=lambda child: child.pid)


def test_a_drop_survives_kills_of_its_processes(cluster, machine, start_worker, lock):
    job = make_job()
    make_documents(job, DOCUMENTS)
    kept = make_documents(job, KEPT, host="other.test")
    in_order = list(QueueItem.objects.filter(identifier__contains="docs.test").order_by("hash"))
    cluster.start("runmanager")
    worker = start_worker()
    shown = verbs.preview("drop", job.pk, {"host": "docs.test"}, may=lambda _permission: True)
    lock(in_order[CHUNK + 3])
    operation = verbs.start(shown.token, may=lambda _permission: True, made_by="a test")
    Task.objects.filter(pk=operation.task).update(retry_policy=AT_ONCE)

    wait_for(lambda: is_in_chunk(machine, operation, 1), saying="the second chunk waits")
    executing_child(worker).kill()
    lock(in_order[2 * CHUNK + 3])
    wait_for(lambda: is_in_chunk(machine, operation, 2), within=60, saying="the third chunk waits")
    worker.kill()
    lock(in_order[3 * CHUNK + 3])
    worker = start_worker()
    wait_for(lambda: is_in_chunk(machine, operation, 3), within=60, saying="the fourth chunk waits")
    executing_child(worker).kill()
    lock.release()

    ended = wait_for(
        lambda: ArchivedTask.objects.filter(pk=operation.task).first(), within=60, saying="the operation has ended"
    )
    operation.refresh_from_db()
    assert (ended.why, operation.attempt) == ("done", 4)
    assert (operation.changed, operation.skipped) == (DOCUMENTS, 0)
    assert set(QueueItem.objects.values_list("hash", flat=True)) == {document.hash for document in kept}
    # The count is negative, because no counter had counted the documents before.
    counted = sum(rows.objects.aggregate(sum=Sum("amount"))["sum"] or 0 for rows in (CounterDelta, JobCounter))
    assert counted == -DOCUMENTS
