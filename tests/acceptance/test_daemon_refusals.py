"""Proves that a command which cannot use its database says why, and ends soon."""

import datetime as dt
import os
import subprocess
import sys
import uuid

import psycopg
import pytest

from jobs.loops.database import WorkConnection

DAEMONS = ("runmanager", "runworker", "serve")


def run(command, *arguments, database, manage_py):
    environment = {**os.environ, "DATABASE_URL": database}
    environment.pop("PYTEST_VERSION", None)
    return subprocess.run(
        [sys.executable, manage_py, command, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", DAEMONS)
def test_a_daemon_says_at_once_that_its_database_cannot_be_reached(command, manage_py):
    ended = run(command, database="postgresql://nobody@127.0.0.1:1/x", manage_py=manage_py)

    assert ended.returncode == 2
    assert ended.stderr.startswith("The database cannot be reached: ")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", DAEMONS)
def test_a_daemon_takes_no_part_in_a_database_without_its_tables(command, new_machine, manage_py):
    ended = run(command, database=new_machine.database.url, manage_py=manage_py)

    assert ended.returncode == 2
    assert "run `crawlctl migrate` first" in ended.stderr


@pytest.mark.parametrize(
    "command",
    [*((daemon,) for daemon in DAEMONS), ("migrate",), ("run",), ("crawl", "http://127.0.0.1:1/")],
    ids=" ".join,
)
def test_no_command_touches_the_database_of_a_newer_version(command, machine, manage_py):
    machine.database.rows(
        "INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_from_later', now()) RETURNING id"
    )
    before = machine.database.value("SELECT count(*) FROM django_migrations")

    ended = run(*command, database=machine.database.url, manage_py=manage_py)

    assert ended.returncode == 2
    assert "made by a newer version of crawlctl (it knows jobs.9999_from_later)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert machine.database.value("SELECT count(*) FROM django_migrations") == before


def test_a_stopping_node_does_not_wait_for_a_lost_database():
    asked = []
    connection = WorkConnection(
        "host=127.0.0.1 port=1",
        node_id=uuid.uuid4(),
        timeout=dt.timedelta(seconds=10),
        longest_pause=dt.timedelta(seconds=1),
        gives_up=lambda failing_for: asked.append(failing_for) or failing_for > 0.15,
    )

    with pytest.raises(psycopg.OperationalError):
        connection.run(lambda _connection: None)

    assert len(asked) > 1
