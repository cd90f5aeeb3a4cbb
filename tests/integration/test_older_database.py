"""Proves that nodes notice a database that was set back, by their heartbeats or its incarnation, and write nothing."""

import pytest

from jobs.lifecycle.document import Stage
from jobs.models import Batch, QueueItem, Turn
from jobs.queue.flushing.flush import flush
from jobs.queue.flushing.outcomes import Result
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.close import ClosedTurn, Pace, close_turns
from jobs.queue.take import take
from nodes.membership import members
from nodes.membership.fences import FenceRefused, hold_node, hold_term
from nodes.membership.heartbeat import HeartbeatThread
from nodes.membership.incarnation import remember, remembered
from tests.support.cluster import NOON, elect_main, register_node, seconds
from tests.support.factories import facts_of, make_documents, make_lane, make_outcome, make_policy, make_running_job
from tests.support.waiting import wait_until


def beat(connection, node, *, times=1):
    for _ in range(times):
        last = members.beat(connection, node_id=node.id, progress={})
    return last


def restore(connection, node, *, beats):
    """Set the number of heartbeats in the node's row to an older value, as a restored dump does."""
    connection.execute("UPDATE nodes_node SET beats = %s WHERE id = %s", [beats, node.id])


def promote(connection):
    """Let the database report another timeline, as after the promotion of a standby."""
    connection.execute(
        "CREATE OR REPLACE FUNCTION nodes_incarnation() RETURNS text LANGUAGE sql AS $$ SELECT '7/00000002/5/9' $$"
    )


@pytest.fixture
def incarnation(connection):
    """Put the original function back after the test."""
    (source,) = connection.execute("SELECT pg_get_functiondef('nodes_incarnation'::regproc)").fetchone()
    yield
    connection.execute(source)


def refused(connection, hold, *arguments):
    with pytest.raises(FenceRefused) as caught, connection.transaction():
        hold(connection, *arguments)
    return str(caught.value)


def test_a_node_passes_its_fence_while_the_database_has_its_heartbeats(connection):
    node = register_node(connection, "worker")

    beat(connection, node, times=3)

    with connection.transaction():
        hold_node(connection, node.id)


def test_the_node_fence_refuses_writes_after_a_restore_with_the_reason(connection):
    node = register_node(connection, "worker")
    beat(connection, node, times=5)

    restore(connection, node, beats=4)

    assert f"it has 4 beats of node {node.id}, and 5 were confirmed" in refused(connection, hold_node, node.id)


def test_the_node_fence_refuses_writes_after_a_promotion_of_a_standby(connection, incarnation):
    node = register_node(connection, "worker")
    beat(connection, node)

    promote(connection)

    assert "its incarnation was" in refused(connection, hold_node, node.id)


def test_the_term_fence_refuses_a_main_that_remembers_a_newer_database(connection):
    main = register_node(connection)
    term = elect_main(connection, main)
    beat(connection, main, times=2)

    restore(connection, main, beats=1)

    refused(connection, hold_term, term)


def test_a_refused_heartbeat_does_not_change_the_restored_row(connection):
    node = register_node(connection)
    beat(connection, node, times=5)
    restore(connection, node, beats=2)

    last = beat(connection, node)

    assert not last.is_fit
    assert "2 beats" in last.refusal
    assert connection.execute("SELECT beats FROM nodes_node WHERE id = %s", [node.id]).fetchone() == (2,)


def test_a_heartbeat_whose_answer_was_lost_causes_no_refusal(connection):
    node = register_node(connection)
    beat(connection, node)
    heard = remembered(node.id)

    beat(connection, node)
    remember(node.id, **heard)

    assert beat(connection, node).is_fit


def test_the_heartbeat_thread_tells_the_process_to_end(connection, dsn):
    node = register_node(connection, "worker", timeout=seconds(5))
    heartbeats = HeartbeatThread(
        dsn=dsn, node_id=node.id, interval=seconds(0.05), timeout=node.timeout, give_up=seconds(5)
    )
    heartbeats.start()
    wait_until(lambda: remembered(node.id)["beats"] > 3)

    restore(connection, node, beats=1)

    assert heartbeats.failed.wait(timeout=10)
    assert "the database went back in time" in heartbeats.why
    assert not heartbeats.trust.may_begin
    heartbeats.stop()


def test_the_incarnation_is_readable_for_a_role_without_privileges(connection):
    with connection.transaction(force_rollback=True):
        connection.execute("CREATE ROLE nobody_special")
        connection.execute("SET LOCAL ROLE nobody_special")
        parts = connection.execute("SELECT nodes_incarnation()").fetchone()[0].split("/")

    assert len(parts) == 4
    assert all(parts)


def test_the_incarnation_lacks_only_the_part_that_permissions_hide(connection):
    with connection.transaction(force_rollback=True):
        connection.execute("CREATE ROLE nobody_special")
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        connection.execute("SET LOCAL ROLE nobody_special")
        cluster, timeline, database, table = connection.execute("SELECT nodes_incarnation()").fetchone()[0].split("/")

    assert cluster == ""
    assert all([timeline, database, table])


# --- The queue -----------------------------------------------------------------------------------


@pytest.fixture
def running(connection):
    """Return a job in the middle of its run, with three due documents."""
    running = make_running_job(register_node(connection), policy=make_policy(open_requests=1000))
    make_documents(make_lane(running.seed), 3)
    return running


@pytest.fixture
def worker(connection):
    return register_node(connection, "worker")


def stuff_all(connection, running):
    return stuff(connection, manager=running.manager.id, group=running.group, room=9, workers=1, now=NOON).documents


def take_all(connection, worker):
    return take(connection, worker=worker.id, room=9, idle=True, now=NOON)


def flush_all(connection, worker, claims, job):
    results = [Result(claimed, facts_of(job), make_outcome(claimed), {}) for claimed in claims]
    return flush(connection, worker=worker.id, results=results, now=NOON).written


def stages():
    return sorted(QueueItem.objects.values_list("stage", flat=True))


def test_a_manager_stuffs_nothing_into_an_older_database(connection, running):
    beat(connection, running.manager, times=2)
    restore(connection, running.manager, beats=1)

    with pytest.raises(FenceRefused, match="went back in time"):
        stuff_all(connection, running)

    assert stages() == [Stage.PENDING] * 3


def test_a_worker_takes_nothing_from_an_older_database(connection, running, worker):
    stuff_all(connection, running)
    beat(connection, worker, times=2)
    restore(connection, worker, beats=1)

    with pytest.raises(FenceRefused, match="went back in time"):
        take_all(connection, worker)

    assert not Batch.objects.filter(state="sent").exists()


def test_a_worker_flushes_and_closes_nothing_in_an_older_database(connection, running, worker):
    stuff_all(connection, running)
    (turn,) = take_all(connection, worker).turns
    beat(connection, worker, times=2)
    restore(connection, worker, beats=1)

    with pytest.raises(FenceRefused, match="went back in time"):
        flush_all(connection, worker, turn.documents, running.job)
    close_turns(connection, worker=worker.id, turns=[ClosedTurn(turn.id, Pace(0.0))], now=NOON)

    assert stages() == [Stage.ACTIVE] * 3
    assert Turn.objects.filter(closed_at=None).count() == 1


def test_a_worker_flushes_nothing_after_a_promotion(connection, running, worker, incarnation):
    stuff_all(connection, running)
    (turn,) = take_all(connection, worker).turns
    beat(connection, worker)

    promote(connection)

    with pytest.raises(FenceRefused, match="its incarnation was"):
        flush_all(connection, worker, turn.documents, running.job)
