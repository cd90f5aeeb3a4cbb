"""While the database is away, the web server logs one line with the reason for each request."""

import logging

import pytest
from django.db import connection
from django.test import Client

from tests.support.metrics import free_port


@pytest.fixture
def database_away(monkeypatch, django_db_blocker):
    """Let Django connect to a database port without a server."""
    options = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "directory"}
    for name, value in {"HOST": "127.0.0.1", "PORT": str(free_port()), "OPTIONS": options}.items():
        monkeypatch.setitem(connection.settings_dict, name, value)
    with django_db_blocker.unblock():
        connection.close()
        yield
        connection.close()


def test_a_page_without_a_database_is_one_line_with_the_reason(database_away, caplog):
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = 32 * "k"

    assert client.get("/").status_code == 503

    (record,) = [record for record in caplog.records if record.name == "django.request"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is None
    reason = "its server does not run or refuses connections"
    assert record.getMessage() == f"The database does not answer: {reason}. Answered / with 503."
