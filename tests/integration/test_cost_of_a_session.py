"""Proves that a session gets all its settings in one statement."""

import uuid

import psycopg
import pytest

from nodes.database.connections import connect, settings_of_node, without_timeouts
from tests.benchmarks.databases import forget_statements, read_statements
from tests.support.cluster import TIMEOUT
from tests.support.debian import debian_server

pytestmark = pytest.mark.debian("postgresql")

NAMES = list(settings_of_node(TIMEOUT))
READ = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("counting") / "server"
    with debian_server(directory, configuration="shared_preload_libraries = 'pg_stat_statements'") as running:
        with psycopg.connect(running.address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        yield running


@pytest.fixture
def session(server):
    """
    Yield a node's session, which is not the first of this process: the first also asks whether a pooler shares
    sessions.
    """
    with open_session(server) as opened:
        yield opened


def open_session(server):
    return connect(server.address, node_id=uuid.uuid4(), purpose="test", timeout=TIMEOUT)


def calls_since_reset(server):
    return sum(calls for calls, _milliseconds, _text in read_statements(server.address))


def test_a_new_session_sends_its_settings_in_one_statement(server, session):
    forget_statements(server.address)

    with open_session(server):
        assert calls_since_reset(server) == 1


def test_limits_are_suspended_and_restored_in_one_statement_each(server, session):
    before = dict(session.execute(READ, [NAMES]).fetchall())
    forget_statements(server.address)

    with without_timeouts(session):
        # One statement reads the limits, and one statement suspends them.
        assert calls_since_reset(server) == 2
        during = dict(session.execute(READ, [NAMES]).fetchall())
        forget_statements(server.address)

    assert calls_since_reset(server) == 1
    assert {name for name in NAMES if during[name] != before[name]} == {
        "idle_in_transaction_session_timeout",
        "lock_timeout",
        "statement_timeout",
    }
    assert dict(session.execute(READ, [NAMES]).fetchall()) == before
