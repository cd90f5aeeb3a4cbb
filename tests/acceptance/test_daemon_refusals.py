"""Proves that a command which cannot use its database says why, and ends soon."""

import datetime as dt
import uuid

import psycopg
import pytest

from jobs.loops.database import WorkConnection
from tests.support.processes import Database, Machine
from tests.support.tables import each_row

DAEMONS = ("runmanager", "runworker", "serve")


@each_row("command", DAEMONS)
def test_a_daemon_reports_immediately_that_its_database_is_unreachable(command, tmp_path):
    refused = Machine(Database("host=127.0.0.1 port=1 user=x dbname=x"), tmp_path).start(command)

    assert refused.wait() == 2
    assert refused.err.startswith("The database cannot be reached: ")
    assert "Traceback" not in refused.err


@each_row("command", DAEMONS)
def test_a_daemon_does_not_start_on_a_database_without_its_tables(command, new_machine):
    refused = new_machine.start(command)

    assert refused.wait() == 2
    assert "run `crawlctl migrate` first" in refused.err


@each_row("command", [*((daemon,) for daemon in DAEMONS), ("migrate",), ("run",), ("crawl", "http://127.0.0.1:1/")])
def test_no_command_touches_the_database_of_a_newer_version(command, machine):
    machine.database.rows(
        "INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_from_later', now()) RETURNING id"
    )
    before = machine.database.value("SELECT count(*) FROM django_migrations")

    refused = machine.start(*command)

    assert refused.wait() == 2
    assert "made by a newer version of crawlctl (it knows jobs.9999_from_later)" in refused.err
    assert "Traceback" not in refused.err
    assert machine.database.value("SELECT count(*) FROM django_migrations") == before


def test_a_stopping_node_does_not_wait_for_a_lost_database():
    durations = []
    connection = WorkConnection(
        "host=127.0.0.1 port=1",
        node_id=uuid.uuid4(),
        timeout=dt.timedelta(seconds=10),
        longest_pause=dt.timedelta(seconds=1),
        gives_up=lambda failing_for: durations.append(failing_for) or failing_for > 0.15,
    )

    with pytest.raises(psycopg.OperationalError):
        connection.run(lambda _connection: None)

    assert len(durations) > 1
