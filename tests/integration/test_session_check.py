"""
Proves that a process becomes a node only if its sessions get their settings, and the server has enough connections.
"""

import datetime as dt

import psycopg
import pytest
from django.core.management.base import CommandError

from nodes.database.connections import settings_of_node
from nodes.database.session_check import SessionRefused, check_sessions
from nodes.management import database
from tests.support.cluster import TIMEOUT
from tests.support.proxy import Proxy


@pytest.fixture
def proxy(dsn):
    with Proxy.of_database(dsn) as running:
        yield running


def check(dsn, *, nodes=1):
    check_sessions(dsn, timeout=TIMEOUT, nodes=nodes)


def test_valid_sessions_pass_directly_and_through_a_pooler(dsn, proxy):
    check(dsn)
    check(proxy.dsn(dsn))


@pytest.mark.parametrize("name", ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"])
def test_a_limit_that_a_pooler_does_not_pass_on_is_named(proxy, dsn, name):
    wanted = settings_of_node(TIMEOUT)[name]
    proxy.rewrite(f"'{name}', '{wanted}'".encode(), f"'{name}', '{wanted + 1}'".encode())

    with pytest.raises(SessionRefused, match=f"{name} is {wanted + 1}, not {wanted}"):
        check(proxy.dsn(dsn))


def test_the_check_uses_timeouts_of_command_line_and_stored_settings(proxy, dsn, monkeypatch):
    timeout = dt.timedelta(seconds=47)
    wanted = settings_of_node(timeout)["statement_timeout"]
    proxy.rewrite(f"'statement_timeout', '{wanted}'".encode(), f"'statement_timeout', '{wanted + 1}'".encode())
    monkeypatch.setattr(database, "database_dsn", lambda: proxy.dsn(dsn))

    with pytest.raises(CommandError, match=f"statement_timeout is {wanted + 1}, not {wanted}"):
        database.check_room_for_sessions(nodes=1, options=["cluster.node_timeout=47"])


def test_a_server_without_free_connections_is_refused_with_both_numbers(dsn):
    with pytest.raises(SessionRefused, match=r"room for \d+ more of its \d+ connections, and 2000 are needed"):
        check(dsn, nodes=1000)


def test_a_server_that_does_not_answer_is_not_reported_as_a_refusal():
    with pytest.raises(psycopg.OperationalError):
        check("host=127.0.0.1 port=1")
