"""Fixtures of these tests: a manager and a worker of the cluster that do nothing by themselves."""

import pytest
from django.db import connection as django_connection
from django.db import connections

from jobs.settings.table import FILE_ROOTS, OUTPUT_ROOT
from tests.support.cluster import register_node
from tests.support.metrics import free_port


@pytest.fixture
def manager(connection):
    return register_node(connection, "manager")


@pytest.fixture
def worker(connection):
    return register_node(connection, "worker")


@pytest.fixture(autouse=True)
def anywhere(settings):
    """Let connections name any path. `test_confined_connections.py` tests the settings that confine them."""
    said = {OUTPUT_ROOT.path: "/", FILE_ROOTS.path: ("/",)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **said}


@pytest.fixture
def in_one_transaction(monkeypatch):
    """Keep the connection of the test, which the check of a command closes."""
    monkeypatch.setattr(connections["default"], "close", lambda: None)


@pytest.fixture
def database_away(monkeypatch, django_db_blocker):
    """Let Django connect to a database port without a server."""
    options = {name: value for name, value in django_connection.settings_dict["OPTIONS"].items() if name != "directory"}
    for name, value in {"HOST": "127.0.0.1", "PORT": str(free_port()), "OPTIONS": options}.items():
        monkeypatch.setitem(django_connection.settings_dict, name, value)
    with django_db_blocker.unblock():
        django_connection.close()
        yield
        django_connection.close()


@pytest.fixture
def settings_known(monkeypatch):
    """
    Let the web server read no stored settings. On a busy machine, it would read them during the requests whose
    statements tests count.
    """
    monkeypatch.setattr("crawlctl.web.stored_settings.follow_newest", lambda: None)
