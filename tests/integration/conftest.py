"""Fixtures of these tests: a manager and a worker of the cluster that do nothing by themselves."""

import pytest

from jobs.settings.table import FILE_ROOTS, OUTPUT_ROOT
from tests.support.cluster import register_node


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
