"""
Proves the membership of nodes in the database: their lifecycle, the view of other nodes, and the database's own rules.
"""

import itertools
import subprocess
import sys
from uuid import uuid4

import psycopg
import pytest

from nodes.decisions.elect import elect, take_over
from nodes.decisions.judge import FailureCause, judge
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import FINAL_STATUSES, TRANSITIONS, NodeKind, NodeStatus
from nodes.membership import leadership, members, snapshot
from nodes.membership.fences import FenceRefused, TermHeld, count_refused, hold_node, hold_term
from tests.support.cluster import (
    BEAT,
    TIMEOUT,
    elect_main,
    events_of,
    fall_silent,
    register_node,
    seconds,
    status_of,
    steady_for,
)


@pytest.fixture
def connection(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def identity_here(**facts) -> NodeIdentity:
    usual = {"kind": NodeKind.MANAGER, "scope": "cluster", "name": "here", "timeout": TIMEOUT}
    return NodeIdentity.of_this_process(**{**usual, **facts})


def put_into(connection, status: str):
    """
    Return a node in this state. The function writes the state directly, so the other columns may differ from those of a
    real node.
    """
    node = register_node(connection)
    connection.execute(
        "UPDATE nodes_node SET status = %(status)s, stopped_at = CASE WHEN %(ended)s THEN clock_timestamp() END WHERE id = %(id)s",
        {"status": status, "ended": status in FINAL_STATUSES, "id": node.id},
    )
    return node


# --- The life of a node --------------------------------------------------------------------------


def test_the_journal_records_that_a_node_registers_drains_and_stops(connection):
    node = identity_here()

    members.register(connection, identity=node)
    assert status_of(connection, node.id) == "starting"
    assert members.begin_work(connection, node_id=node.id)
    assert members.begin_draining(connection, node_id=node.id, reason="asked to stop")
    assert members.stop(connection, node_id=node.id, reason="asked to stop")

    assert status_of(connection, node.id) == "stopped"
    assert events_of(connection, node.id) == ["registered", "running", "draining", "stopped"]


def test_a_second_process_with_the_same_id_is_refused_and_changes_nothing(connection):
    node = register_node(connection, name="first")

    with pytest.raises(psycopg.errors.UniqueViolation):
        register_node(connection, id=node.id, name="second")

    assert events_of(connection, node.id) == ["registered", "running"]


def test_a_heartbeat_returns_the_state_of_the_node_and_the_main_manager(connection):
    node = register_node(connection)
    before = members.beat(connection, node_id=node.id, progress={"in_flight": 3})
    elect_main(connection, node)

    after = members.beat(connection, node_id=node.id, progress={"in_flight": 4})

    assert (before.status, before.is_fit, before.term, before.main_id) == ("running", True, 0, None)
    assert (after.status, after.is_fit, after.term, after.main_id) == ("running", True, 1, node.id)
    assert connection.execute("SELECT progress, heartbeat_at <= %s FROM nodes_node", [after.at]).fetchone() == (
        {"in_flight": 4},
        True,
    )


def test_the_heartbeat_of_a_failed_node_changes_nothing(connection):
    main, worker = register_node(connection), register_node(connection, "worker")
    verdict = fall_silent(connection, worker)
    leadership.mark_failed(connection, verdict=verdict, term=elect_main(connection, main))

    beat = members.beat(connection, node_id=worker.id, progress={})

    assert (beat.status, beat.is_fit, beat.main_id) == ("failed", False, main.id)
    assert connection.execute(
        "SELECT clock_timestamp() - heartbeat_at > interval '59 min' FROM nodes_node WHERE id = %s", [worker.id]
    ).fetchone() == (True,)


def test_the_heartbeat_of_an_unknown_node_reports_it_as_unfit(connection):
    beat = members.beat(connection, node_id=uuid4(), progress={})

    assert (beat.status, beat.is_fit) == (None, False)


def test_a_main_that_stops_resigns_in_the_same_commit(connection):
    node = register_node(connection)
    term = elect_main(connection, node)

    members.stop(connection, node_id=node.id, reason="asked to")

    with pytest.raises(FenceRefused), connection.transaction():
        hold_term(connection, term)
    assert connection.execute("SELECT term, resigned FROM nodes_mainterm").fetchone() == (1, True)


def test_refused_writes_are_counted_also_on_the_row_of_a_failed_node(connection):
    node = put_into(connection, "failed")

    count_refused(connection, node.id)
    count_refused(connection, node.id)

    assert connection.execute("SELECT refused_writes FROM nodes_node").fetchone() == (2,)


# --- The lifecycle table -------------------------------------------------------------------------


def begin_work(connection, node):
    return members.begin_work(connection, node_id=node.id)


def begin_draining(connection, node):
    return members.begin_draining(connection, node_id=node.id, reason="")


def stop(connection, node):
    return members.stop(connection, node_id=node.id, reason="")


def mark_failed(connection, node):
    term = elect_main(connection, register_node(connection))
    return leadership.mark_failed(connection, verdict=fall_silent(connection, node), term=term)


def elect_another(connection, node):
    """
    Make the node the main manager on record in its present state, and let
    another node replace it. True if the node is marked failed.
    """
    connection.execute("UPDATE nodes_mainterm SET main_id = %s, term = 1", [node.id])
    heir, verdict = register_node(connection), fall_silent(connection, node)
    leadership.elect(connection, node_id=heir.id, scope="cluster", seen_term=1, replaces=verdict)
    return "marked_failed" in events_of(connection, node.id)


def drain(connection, node):
    term = elect_main(connection, register_node(connection))
    return leadership.drain(connection, node_id=node.id, term=term, reason="asked by somebody")


MOVES = {
    "begin_work": begin_work,
    "drain": drain,
    "begin_draining": begin_draining,
    "stop": stop,
    "mark_failed": mark_failed,
    "elect": elect_another,
}


@pytest.mark.parametrize("status", NodeStatus)
@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda transition: transition.cause)
def test_every_transition_of_a_node_starts_only_in_its_source_states(connection, transition, status):
    node = put_into(connection, status)

    moved = MOVES[transition.cause](connection, node)

    assert moved == (status in transition.sources)
    assert status_of(connection, node.id) == (transition.target if moved else status)


@pytest.mark.parametrize("status", NodeStatus)
def test_the_node_fence_accepts_running_and_draining_nodes(connection, status):
    node = put_into(connection, status)

    try:
        with connection.transaction():
            hold_node(connection, node.id)
            passed = True
    except FenceRefused:
        passed = False

    assert passed == (status in {"running", "draining"})


@pytest.mark.parametrize(
    ("final", "other"), [pair for pair in itertools.product(sorted(FINAL_STATUSES), NodeStatus) if pair[0] != pair[1]]
)
def test_no_statement_revives_an_ended_node(connection, final, other):
    node = put_into(connection, final)

    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="which is for ever"):
        connection.execute("UPDATE nodes_node SET status = %s, stopped_at = NULL WHERE id = %s", [other, node.id])


def test_no_statement_lowers_a_term(connection):
    elect_main(connection, register_node(connection))

    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="it only grows"):
        connection.execute("UPDATE nodes_mainterm SET term = 0")


# --- Views of the cluster ------------------------------------------------------------------------


def test_a_view_lists_live_nodes_by_age_and_the_main_even_after_its_end(connection):
    main, me = register_node(connection), identity_here()
    members.register(connection, identity=me)
    worker, stopped = register_node(connection, "worker"), register_node(connection, "worker")
    register_node(connection, scope="crawl:1")
    elect_main(connection, main)
    for node in (main, stopped):
        members.stop(connection, node_id=node.id, reason="")
    fall_silent(connection, worker)

    seen = snapshot.read_scope(connection, scope="cluster", me=me)

    assert [node.id for node in seen.nodes] == [main.id, me.id, worker.id]
    assert (seen.term.term, seen.term.main_id, seen.term.is_vacant) == (1, main.id, True)
    assert seen.nodes[1].is_live
    assert seen.nodes[2].heartbeat_age >= seconds(3600)


def test_an_unknown_scope_has_no_nodes_and_a_vacant_first_term(connection):
    seen = snapshot.read_scope(connection, scope="crawl:nobody", me=identity_here())

    assert (seen.nodes, seen.term.term, seen.term.is_vacant) == ((), 0, True)


def test_a_view_detects_dead_processes_of_this_machine_but_not_of_others(connection):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    me = identity_here()
    elsewhere = register_node(connection, "worker")
    dead = register_node(
        connection,
        "worker",
        boot_id=me.boot_id,
        pid_namespace=me.pid_namespace,
        pid=child.pid,
        process_start=me.process_start + 10**9,
    )
    child.communicate()
    members.register(connection, identity=me)

    seen = snapshot.read_scope(connection, scope="cluster", me=me)

    assert {node.id: node.same_machine_process_gone for node in seen.nodes} == {
        elsewhere.id: False,
        dead.id: True,
        me.id: False,
    }


def test_only_scopes_without_a_live_manager_are_orphaned(connection):
    me = identity_here()
    dead = register_node(connection, scope="crawl:dead")
    worker = register_node(connection, "worker", scope="crawl:dead")
    register_node(connection, scope="crawl:alive")
    register_node(connection, "worker", scope="crawl:alive")
    register_node(connection, "worker")
    fall_silent(connection, dead)

    orphans = snapshot.read_orphaned_scopes(connection, me=me)

    assert [node.id for node in orphans] == [dead.id, worker.id]


# --- Decision and write together -----------------------------------------------------------------


def test_managers_that_read_and_act_in_turns_end_with_one_main(connection):
    managers = [identity_here(name=name) for name in ("first", "second", "third")]
    for manager in managers:
        members.register(connection, identity=manager)
        members.begin_work(connection, node_id=manager.id)

    held = []
    for manager in reversed(managers):
        action = elect(
            snapshot.read_scope(connection, scope="cluster", me=manager), beat=BEAT, is_steady=steady_for(seconds(0))
        )
        if action is not None:
            held.append(
                leadership.elect(connection, node_id=manager.id, scope=action.scope, seen_term=action.seen_term)
            )

    assert held == [TermHeld(scope="cluster", term=1, main_id=managers[0].id)]


def test_the_main_marks_nodes_of_a_dead_one_shot_failed_and_ends_its_term(connection):
    me = identity_here()
    members.register(connection, identity=me)
    members.begin_work(connection, node_id=me.id)
    mine = elect_main(connection, me)
    one_shot = register_node(connection, scope="crawl:1")
    its_term = elect_main(connection, one_shot)
    fall_silent(connection, one_shot)

    cluster = snapshot.read_scope(connection, scope="cluster", me=me)
    orphans = snapshot.read_orphaned_scopes(connection, me=me)
    for verdict in judge(cluster, is_steady=steady_for(TIMEOUT), orphans=orphans):
        leadership.mark_failed(connection, verdict=verdict, term=mine)

    assert status_of(connection, one_shot.id) == "failed"
    with pytest.raises(FenceRefused), connection.transaction():
        hold_term(connection, its_term)


def test_a_resumed_one_shot_is_main_and_marks_its_old_nodes_failed(connection):
    me, dead = identity_here(scope="crawl:2"), register_node(connection, scope="crawl:1")
    left_behind = register_node(connection, "worker", scope="crawl:1")
    elect_main(connection, dead)
    members.register(connection, identity=me)
    members.begin_work(connection, node_id=me.id)
    for node in (dead, left_behind):
        fall_silent(connection, node)

    action = take_over(snapshot.read_scope(connection, scope="crawl:1", me=me), is_steady=steady_for(TIMEOUT))
    assert action is not None
    held = leadership.elect(
        connection, node_id=me.id, scope="crawl:1", seen_term=action.seen_term, replaces=action.replaces
    )
    assert held is not None
    for verdict in judge(snapshot.read_scope(connection, scope="crawl:1", me=me), is_steady=steady_for(TIMEOUT)):
        assert verdict.cause == FailureCause.SILENT
        leadership.mark_failed(connection, verdict=verdict, term=held)

    assert [status_of(connection, node.id) for node in (dead, left_behind)] == ["failed", "failed"]
