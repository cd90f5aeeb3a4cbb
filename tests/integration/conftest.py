"""Fixtures of these tests, such as a registered manager and a registered worker without processes."""

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
    """Let connections use any path. Tests of the settings that confine paths change these settings again."""
    values = {OUTPUT_ROOT.path: "/", FILE_ROOTS.path: ("/",)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


@pytest.fixture
def in_one_transaction(monkeypatch):
    """Keep the database connection of the test open, which a command would close."""
    monkeypatch.setattr(connections["default"], "close", lambda: None)


@pytest.fixture
def database_away(monkeypatch, django_db_blocker):
    """Point Django to a port without a database server."""
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
    Stop the web server from reading stored settings. On a busy machine, that would add statements to requests whose
    statements tests count.
    """
    monkeypatch.setattr("crawlctl.web.stored_settings.follow_newest", lambda: None)
