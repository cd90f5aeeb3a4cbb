"""Proves that no document is both dropped by an operation and handed out by concurrent stuffing."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection as django_connection

from jobs.lifecycle.document import Stage
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import CounterDelta, QueueItem
from jobs.queue import chosen_documents
from jobs.queue.chosen_documents import Choice, Operation
from jobs.queue.offering.stuff import stuff
from jobs.queue.removing.tombstones import DROPPED
from tests.support.cluster import NOON
from tests.support.factories import facts_of, make_documents, make_lane, make_policy, make_running_job

HOSTS, EACH = 4, 60


@pytest.fixture
def running(manager, monkeypatch):
    """Return a running job with due documents on some hosts. An operation on them works in small chunks."""
    monkeypatch.setattr(chosen_documents, "_REMOVED_AT_ONCE", 7)
    made = make_running_job(manager, policy=make_policy(open_requests=1000))
    for host in range(HOSTS):
        lane = make_lane(made.seed, f"h{host}.example")
        make_documents(lane, [f"{host}/{number}" for number in range(EACH)])
    return made


def drop_all(connection, running):
    """
    Drop all documents of the job that no batch has claimed, chunk by chunk. Return the numbers of dropped and of
    claimed documents.
    """
    after, dropped, skipped = None, 0, 0
    while True:
        chunk = chosen_documents.change_next_documents(
            connection,
            Operation.DROP,
            Choice(job_id=running.job.pk, pattern="example"),
            after=after,
            most=HOSTS * EACH,
            job=facts_of(running.job),
            carries=False,
            outputs=JobOutputs(cause=DROPPED),
            keeps_history=False,
            now=NOON,
            note=lambda _cursor, _chunk: None,
        )
        after, dropped, skipped = chunk.after, dropped + chunk.changed, skipped + chunk.skipped
        if after is None:
            return dropped, skipped


def drop_all_in_a_thread(connection, running):
    """Drop all documents, and close the connection on which this thread read the outputs."""
    try:
        return drop_all(connection, running)
    finally:
        django_connection.close()


def stuff_some(connection, running, *, room=1000):
    """Hand out documents. Return their number."""
    return stuff(connection, manager=running.manager.id, group=running.group, room=room, workers=1, now=NOON).documents


def assert_each_is_counted_once(*, dropped, handed_out):
    assert dropped + handed_out == HOSTS * EACH
    assert list(QueueItem.objects.values_list("stage", flat=True)) == [Stage.ACTIVE] * handed_out
    assert not QueueItem.objects.filter(batch=None).exists()
    # The fixture counted none of its documents.
    counted = {Stage.PENDING: 0, Stage.ACTIVE: 0}
    for stage, amount in CounterDelta.objects.filter(measure="stage").values_list("stage", "amount"):
        counted[stage] += amount
    assert counted == {Stage.PENDING: -HOSTS * EACH, Stage.ACTIVE: handed_out}


def test_a_document_is_dropped_or_handed_out_and_never_both(dsn, running):
    barrier = threading.Barrier(2)

    def drop():
        with psycopg.connect(dsn, autocommit=True) as mine:
            barrier.wait()
            return drop_all_in_a_thread(mine, running)

    def hand_out():
        with psycopg.connect(dsn, autocommit=True) as mine:
            barrier.wait()
            return sum(stuff_some(mine, running, room=5) for _ in range(20))

    with ThreadPoolExecutor(2) as pool:
        dropping, handing = pool.submit(drop), pool.submit(hand_out)
        (dropped, _skipped), handed_out = dropping.result(), handing.result()

    left = QueueItem.objects.filter(stage=Stage.PENDING)
    assert dropped + handed_out + left.count() == HOSTS * EACH
    with psycopg.connect(dsn, autocommit=True) as mine:
        dropped += drop_all(mine, running)[0]
    assert_each_is_counted_once(dropped=dropped, handed_out=handed_out)


def test_a_drop_waits_for_stuffing_and_leaves_its_documents(connection, other_connection, rival, running):
    with connection.transaction():
        handed_out = stuff_some(connection, running, room=50)
        rival.start_and_wait(drop_all_in_a_thread, other_connection, running)

    dropped, _ = rival.result()

    assert 0 < handed_out < HOSTS * EACH
    assert_each_is_counted_once(dropped=dropped, handed_out=handed_out)


def test_stuffing_during_a_drop_hands_out_no_dropped_document(connection, other_connection, running):
    with connection.transaction():
        dropped, _ = drop_all(connection, running)
        # Stuffing skips locked hosts until its next pass.
        meanwhile = stuff_some(other_connection, running)

    assert (dropped, meanwhile, stuff_some(connection, running)) == (HOSTS * EACH, 0, 0)
    assert_each_is_counted_once(dropped=dropped, handed_out=0)
