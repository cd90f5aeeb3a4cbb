"""Proves that pages say why the database is down, without a detail that a visitor must not know."""

import psycopg
from django.db import OperationalError

from crawlctl.postgres.backend.base import EmbeddedDatabaseAway
from nodes.database.outage import outage
from tests.support.tables import each_row


def wrapped(error):
    """Return the error as Django raises it."""
    caught = OperationalError(str(error))
    caught.__cause__ = error
    return caught


@each_row(
    ("error", "reason"),
    [
        (psycopg.errors.DiskFull("could not extend file"), "its disk is full"),
        (psycopg.errors.CannotConnectNow("the database system is starting up"), "it is starting or stopping"),
        (
            psycopg.OperationalError('connection to server at "10.1.2.3", port 5432 failed: Connection refused'),
            "its server does not run or refuses connections",
        ),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "boss"'), "it refuses the password"),
    ],
)
def test_a_reason_is_shown_without_addresses_and_names(error, reason):
    for one in (error, wrapped(error)):
        assert outage(one).startswith(f"The database does not answer: {reason}")
        assert "10.1.2.3" not in outage(one)
        assert "boss" not in outage(one)


def test_the_reason_names_the_full_disk_of_an_embedded_server():
    error = EmbeddedDatabaseAway("the embedded PostgreSQL did not start, because no space is left there: make room")

    assert outage(error) == "The database does not answer: its disk is full"


def test_an_embedded_server_that_does_not_start_points_to_its_log():
    error = EmbeddedDatabaseAway(
        "the embedded PostgreSQL did not start. The end of /srv/var/postgres/server.log: No such file or directory"
    )

    assert "server.log" in outage(error)
    assert "/srv" not in outage(error)


def test_a_page_leaves_out_an_unknown_reason_of_an_outage():
    assert outage(OperationalError("terminating connection")) == "The database does not answer"
