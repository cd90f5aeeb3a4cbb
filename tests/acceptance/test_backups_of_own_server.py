"""Proves for an external server that the age of its archived log is watched, and that a restore drill is refused."""

import psycopg
import pytest

from tests.support.debian import debian_server
from tests.support.processes import Database, Machine, wait_for

_ARCHIVES = "archive_mode = on\narchive_command = 'false'\n"
_ARCHIVED = "SELECT last_archived_time FROM pg_stat_archiver"


@pytest.fixture
def server(tmp_path):
    with debian_server(tmp_path / "server", configuration=_ARCHIVES, is_migrated=True) as running:
        yield running


@pytest.fixture
def machine(server, tmp_path):
    made = Machine(Database(server.address), tmp_path)
    yield made
    made.clean_up()


def status_of(machine, **settings):
    status = machine.start("status", **settings)
    assert status.wait() in {0, 1}, status.err
    return status.out


@pytest.mark.debian("postgresql")
def test_the_age_of_the_log_that_the_server_archives_is_watched(machine, server):
    assert "Nothing of the write-ahead log is stored yet." in status_of(machine)

    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET archive_command = 'true'")
        connection.execute("SELECT pg_reload_conf(), pg_current_xact_id()")
        connection.execute("SELECT pg_switch_wal()")
        wait_for(lambda: connection.execute(_ARCHIVED).fetchone()[0], saying="the server has archived a file")
    assert "write-ahead log" not in status_of(machine)
    assert "The newest part of the stored write-ahead log is" in status_of(machine, CRAWLCTL_BACKUP_LOG_MAX_AGE="0.001")


@pytest.mark.debian("postgresql")
def test_a_drill_of_a_restore_refuses_an_external_server(machine, tmp_path):
    drill = machine.start("drill", "restore", "--from", tmp_path)

    assert drill.wait() == 2
    [error] = drill.err.strip().splitlines()
    assert "DATABASE_URL names a server of your own" in error
    assert "docs/deploying.md shows a drill with pgBackRest" in error
