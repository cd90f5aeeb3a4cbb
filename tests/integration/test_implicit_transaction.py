"""Proves that a transaction without BEGIN and COMMIT (one pipeline) is as atomic and isolated as one with them."""

import contextlib
import threading
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from jobs.queue.sql.transaction import implicit_transaction
from nodes.database.connections import connect
from nodes.membership import leadership, members
from nodes.membership.fences import FenceRefused, hold_node
from tests.support.cluster import elect_main, fall_silent, register_node, seconds, status_of

BUMP = "UPDATE nodes_node SET capacity = %s WHERE id = %s"
READ = "SELECT capacity FROM nodes_node WHERE id = %s"


@pytest.fixture
def mine(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def others(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def node(others):
    return register_node(others, capacity=1)


def capacity_of(connection, node):
    return connection.execute(READ, [node.id]).fetchone()[0]


def bump_and(then, connection, node):
    """Write a row, then call `then` in the same transaction."""
    with implicit_transaction(connection) as cursor:
        cursor.execute(BUMP, [2, node.id])
        then(cursor)


@contextmanager
def executing(connection, *, together):
    """Yield a function that executes statements, separately or `together` in one transaction without BEGIN."""
    if together:
        with implicit_transaction(connection) as cursor:
            yield cursor.execute
    else:
        yield connection.execute


@pytest.mark.parametrize("together", [False, True])
def test_a_statement_whose_preparation_a_lock_interrupted_works_later(dsn, others, node, together):
    limits = {"purpose": "work", "timeout": seconds(0.4)}
    with contextlib.closing(connect(dsn, node_id=node.id, **limits)) as daemons:
        for _ in range(daemons.prepare_threshold):
            with executing(daemons, together=together) as execute:
                execute(READ, [node.id])
        with others.transaction():
            others.execute("LOCK TABLE nodes_node")
            with pytest.raises(psycopg.errors.LockNotAvailable), executing(daemons, together=together) as execute:
                execute(READ, [node.id])

        with executing(daemons, together=together) as execute:
            assert execute(READ, [node.id]).fetchone()[0] == 1


def test_other_sessions_see_the_whole_transaction_only_after_its_end(mine, others, node):
    other_node = register_node(others, capacity=1)
    with implicit_transaction(mine) as cursor:
        cursor.execute(BUMP, [2, node.id])
        cursor.execute(BUMP, [2, other_node.id])
        assert [capacity_of(others, node), capacity_of(others, other_node)] == [1, 1]
    assert [capacity_of(others, node), capacity_of(others, other_node)] == [2, 2]


def test_each_statement_sees_earlier_commits_of_others(mine, others, node):
    with implicit_transaction(mine) as cursor:
        assert cursor.execute(READ, [node.id]).fetchone().capacity == 1
        others.execute(BUMP, [5, node.id])
        assert cursor.execute(READ, [node.id]).fetchone().capacity == 5


def test_an_exception_rolls_back_and_leaves_the_connection_usable(mine, others, node):
    def fail(_cursor):
        raise KeyError

    with pytest.raises(KeyError):
        bump_and(fail, mine, node)
    assert capacity_of(others, node) == 1
    assert mine.info.transaction_status == TransactionStatus.IDLE
    assert capacity_of(mine, node) == 1


def test_a_failing_statement_raises_its_own_error_and_rolls_back(mine, others, node):
    def divide(cursor):
        cursor.execute("SELECT 1 / 0")
        pytest.fail("the error came late")

    with pytest.raises(psycopg.errors.DivisionByZero):
        bump_and(divide, mine, node)
    assert capacity_of(others, node) == 1
    assert capacity_of(mine, node) == 1


def test_the_cursor_returns_the_number_of_changed_rows(mine, node):
    with implicit_transaction(mine) as cursor:
        assert cursor.execute(BUMP, [2, node.id]).rowcount == 1


def test_a_fence_is_held_until_the_end_of_the_transaction(mine, others, node):
    with implicit_transaction(mine) as cursor:
        hold_node(mine, node.id)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            others.execute("SELECT FROM nodes_node WHERE id = %s FOR UPDATE NOWAIT", [node.id])
        cursor.execute(BUMP, [2, node.id])
    others.execute("SELECT FROM nodes_node WHERE id = %s FOR UPDATE NOWAIT", [node.id])


def test_a_refused_fence_rolls_back_earlier_writes(mine, others, node):
    members.stop(others, node_id=node.id, reason="asked to")
    with pytest.raises(FenceRefused):
        bump_and(lambda _cursor: hold_node(mine, node.id), mine, node)
    assert capacity_of(others, node) == 1


def test_claims_of_a_frozen_process_end_when_its_node_is_marked_failed(dsn, others):
    main, frozen = register_node(others), register_node(others, "worker", capacity=1)
    term, verdict = elect_main(others, main), fall_silent(others, frozen)
    work = connect(dsn, node_id=frozen.id, purpose="work", timeout=frozen.timeout)

    def wake_up_failed(cursor):
        hold_node(work, frozen.id)
        assert leadership.mark_failed(others, verdict=verdict, term=term)
        assert status_of(others, frozen.id) == "failed"
        cursor.execute(BUMP, [3, frozen.id])

    with pytest.raises(psycopg.OperationalError):
        bump_and(wake_up_failed, work, frozen)
    assert capacity_of(others, frozen) == 1


@pytest.mark.parametrize("at", ["its beginning", "its middle", "a statement", "its end"])
def test_a_session_that_the_server_ends_leaves_a_known_broken_connection(mine, others, node, at):
    def end_session():
        others.execute("SELECT pg_terminate_backend(%s, 5000)", [mine.info.backend_pid])

    def work():
        if at == "its beginning":
            end_session()
        with implicit_transaction(mine) as cursor:
            cursor.execute(BUMP, [2, node.id])
            if at == "its middle":
                end_session()
                cursor.execute(BUMP, [3, node.id])
            if at == "a statement":
                threading.Timer(0.1, end_session).start()
                cursor.execute("SELECT pg_sleep(10)")
            if at == "its end":
                end_session()

    with pytest.raises(psycopg.OperationalError):
        work()
    assert mine.closed
    assert capacity_of(others, node) == 1
