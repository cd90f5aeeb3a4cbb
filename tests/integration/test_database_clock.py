"""The clock of a daemon follows the time of the database, rarely queries it, and is never ahead of it."""

import time
from contextlib import contextmanager

import psycopg
import pytest

from jobs.loops import database
from jobs.loops.database import DatabaseClock
from tests.support.cluster import seconds
from tests.support.proxy import Proxy

DELAY = 0.3
# Statements that replace clock_timestamp() for one transaction, which is never committed. A test adjusts the clock's
# offset.
_ADJUSTABLE = """
CREATE SCHEMA adjusted;
CREATE FUNCTION adjusted.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$
    SELECT pg_catalog.clock_timestamp() + current_setting('adjusted.by')::interval
$$;
SET LOCAL search_path = adjusted, pg_catalog;
SET LOCAL adjusted.by = '0';
"""


@pytest.fixture
def server(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def proxy(dsn):
    with Proxy.of_database(dsn) as proxy:
        yield proxy


@pytest.fixture
def connection(dsn, proxy):
    with psycopg.connect(proxy.dsn(dsn), autocommit=True) as connection:
        yield connection


@pytest.fixture
def asks_each_time(monkeypatch):
    monkeypatch.setattr(database, "_CLOCK_IS_GOOD_FOR", 0.0)


@contextmanager
def far_away(proxy):
    proxy.delay(DELAY)
    yield
    proxy.delay(0.0)


def time_of(server):
    return server.execute("SELECT clock_timestamp()").fetchone()[0]


def test_the_clock_is_not_ahead_of_a_database_with_a_slow_connection(server, connection, proxy):
    clock = DatabaseClock()
    with far_away(proxy):
        clock.now(connection)
    assert clock.now(connection) <= time_of(server)


def test_the_clock_lags_at_most_by_the_duration_of_a_query(server, connection):
    clock, began_at = DatabaseClock(), time.monotonic()
    clock.now(connection)
    before = time_of(server)
    assert clock.now(connection) > before - seconds(time.monotonic() - began_at)


def test_the_clock_continues_while_an_answer_is_late(connection, proxy, asks_each_time):
    clock = DatabaseClock()
    before = clock.now(connection)
    with far_away(proxy):
        assert clock.now(connection) - before >= seconds(2 * DELAY)


@pytest.mark.parametrize("step", [seconds(-3600), seconds(3600)], ids=["back", "forward"])
def test_the_clock_follows_a_database_whose_clock_is_set(dsn, asks_each_time, step):
    clock = DatabaseClock()
    with psycopg.connect(dsn) as connection:
        connection.execute(_ADJUSTABLE)
        before = clock.now(connection)
        connection.execute("SELECT set_config('adjusted.by', %s, true)", [str(step)])
        assert abs(clock.now(connection) - before - step) < seconds(60)
        connection.rollback()


def test_the_clock_rarely_queries_the_database(dsn):
    clock = DatabaseClock()
    with psycopg.connect(dsn, autocommit=True) as connection:
        clock.now(connection)
    assert clock.now(connection) < clock.now(connection)
