"""Proves that the web server keeps idle connections for the next request (crawlctl/postgres/backend/idle.py)."""

import pytest
from django.db import connections

from crawlctl.postgres.backend import idle
from crawlctl.postgres.backend.base import DatabaseWrapper
from tests.support.waiting import wait_for

PROCESS = "SELECT pg_backend_pid()"


@pytest.fixture
def kept(monkeypatch, transactional_db):
    """Let this process keep its idle connections, as a web server does."""
    made = idle.IdleConnections()
    monkeypatch.setattr(DatabaseWrapper, "idle", made)
    yield made
    made.close()


@pytest.fixture
def new_user():
    """Return a function that makes the connection of another thread, which is not open yet."""
    return lambda: connections.create_connection("default")


def ask(user, query=PROCESS):
    with user.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def used(user):
    """Use a connection, close it, and return the process of the server."""
    process = ask(user)
    user.close()
    return process


def test_the_next_thread_gets_the_connection_that_was_closed(kept, new_user):
    assert used(new_user()) == used(new_user())


def test_two_concurrent_threads_have_separate_connections(kept, new_user):
    first, second = new_user(), new_user()
    assert ask(first) != ask(second)
    first.close()
    second.close()


def test_a_connection_with_an_open_transaction_is_not_kept(kept, new_user):
    user = new_user()
    user.set_autocommit(False)
    process = ask(user)
    user.close()
    assert used(new_user()) != process


def test_a_connection_that_is_closed_in_an_atomic_block_is_not_kept(kept, new_user, monkeypatch):
    user = new_user()
    process = ask(user)
    monkeypatch.setattr(user, "in_atomic_block", True)
    user.close()
    assert used(new_user()) != process


def test_a_connection_that_the_server_ended_is_replaced(kept, new_user, connection):
    process = used(new_user())
    connection.execute("SELECT pg_terminate_backend(%s, 10000)", [process])
    assert used(new_user()) != process


def test_an_idle_connection_to_another_database_is_not_reused(kept, new_user):
    process, other = used(new_user()), new_user()
    # Change a copy of the settings: at its end, pytest-django drops the database that the original settings name.
    other.settings_dict = other.settings_dict | {"NAME": "postgres"}
    assert used(other) != process


def test_an_old_connection_is_closed(kept, new_user, monkeypatch):
    process = used(new_user())
    monkeypatch.setattr(idle, "_IDLE_AT_MOST", -1.0)
    assert used(new_user()) != process


def test_more_connections_than_the_limit_are_closed(kept, new_user, connection, monkeypatch):
    monkeypatch.setattr(idle, "_MOST", 1)
    users = [new_user() for _ in range(3)]
    processes = [ask(user) for user in users]
    for user in users:
        user.close()
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"
    wait_for(lambda: connection.execute(open_ones, [processes]).fetchone()[0] == 1, saying="two sessions have ended")
