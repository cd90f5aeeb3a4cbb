"""
Proves that PostgreSQL's coordination tables refuse invalid leases and terms, and that members survive an outage.
"""

import time

import psycopg
import pytest

from nodes.assignment.pools import WorkItem
from nodes.coordination.database import DatabaseCoordination, DatabaseTermBound
from nodes.coordination.port import Refused
from tests.integration.coordination.conftest import TIMEOUT, DatabaseBench
from tests.support.waiting import wait_until

NORTH = WorkItem("reports", "north")


@pytest.fixture
def bench(dsn):
    made = DatabaseBench(dsn)
    yield made
    made.close()


def test_the_database_refuses_a_lease_without_an_end(bench, connection):
    bench.node("a").acquire(NORTH, lease=TIMEOUT)

    with pytest.raises(psycopg.errors.CheckViolation, match="item_lock_ends"):
        connection.execute("UPDATE nodes_itemlock SET expires_at = 'infinity'")


def test_the_database_refuses_to_decrease_a_term(bench, connection):
    bench.node("a", joins={}).campaign()

    with pytest.raises(psycopg.errors.IntegrityError, match="only grows, and cannot become 0"):
        connection.execute("UPDATE nodes_coordinationcluster SET term = 0")


def test_a_term_bound_rises_and_gives_no_term_twice(dsn):
    term_bound, other = (DatabaseTermBound(dsn=dsn, cluster="jobs", node=name, timeout=TIMEOUT) for name in "ab")

    assert term_bound.read() == 0
    assert term_bound.note(5)
    assert not other.note(5)
    assert not other.note(4)
    assert other.note(6)
    assert term_bound.read() == 6


def test_a_database_outage_silences_no_node(bench):
    a, b = (bench.node(name, joins={}, beats=False) for name in "ab")
    bench.freeze()
    back_at = time.monotonic() + 1.2 * TIMEOUT.total_seconds()
    wait_until(lambda: time.monotonic() > back_at)

    bench.heal(a)
    bench.let_beat(a)
    wait_until(lambda: a.is_member)

    assert a.read_state().gone == frozenset()
    wait_until(lambda: a.read_state().gone == {b.node})


def test_a_database_without_our_tables_is_refused(bench, dsn, connection):
    connection.execute("CREATE DATABASE nothing_in_it")
    try:
        stranger = DatabaseCoordination(
            dsn=psycopg.conninfo.make_conninfo(dsn, dbname="nothing_in_it"), cluster="jobs", node="a", timeout=TIMEOUT
        )
        with pytest.raises(Refused, match="cannot be used for coordination: relation"):
            stranger.connect()
        stranger.close()
    finally:
        connection.execute("DROP DATABASE nothing_in_it")
