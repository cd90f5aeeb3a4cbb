"""Proves that tests share one plain connection, and that each test finds the connection in the state of a new one."""

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.support.kept_connection import KeptConnection


@pytest.fixture
def kept(dsn):
    kept = KeptConnection()
    yield kept
    kept.close()


def backend(connection):
    return connection.info.backend_pid


def test_settings_locks_and_tables_of_a_test_are_undone(kept, dsn):
    first = kept.open(dsn)
    first.execute("SET statement_timeout = '7s'")
    first.execute("SELECT pg_advisory_lock(7)")
    first.execute("CREATE TEMP TABLE jobs_job (id int)")
    first.execute("LISTEN news")
    before = backend(first)

    kept.give_back()

    again = kept.open(dsn)
    assert backend(again) == before
    assert again.execute("SHOW statement_timeout").fetchone() == ("0",)
    assert (
        again.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", [before]).fetchone()[0]
        == 0
    )
    assert again.execute(
        "SELECT to_regclass('pg_temp.jobs_job'), count(*) FROM pg_listening_channels()"
    ).fetchone() == (None, 0)


def leave_a_transaction(connection):
    connection.autocommit = False
    connection.execute("SELECT 1")


def change_the_rows(connection):
    connection.row_factory = dict_row


def end_the_backend(connection):
    with psycopg.connect(connection.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [backend(connection)])


@pytest.mark.parametrize("change", [leave_a_transaction, change_the_rows, end_the_backend, psycopg.Connection.close])
def test_a_connection_that_a_test_left_in_another_state_is_replaced(kept, dsn, change):
    first = kept.open(dsn)
    before = backend(first)
    change(first)

    kept.give_back()

    again = kept.open(dsn)
    assert backend(again) != before
    assert again.autocommit
    assert again.execute("SELECT 7").fetchone() == (7,)


def test_a_connection_that_ended_between_two_tests_is_replaced(kept, dsn):
    first = kept.open(dsn)
    kept.give_back()
    end_the_backend(first)

    assert kept.open(dsn).execute("SELECT 7").fetchone() == (7,)
