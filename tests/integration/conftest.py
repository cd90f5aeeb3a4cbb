"""Nodes that many of these tests have: a manager and a worker of the cluster that do nothing by themselves."""

import pytest

from jobs.settings.table import FILE_ROOTS, OUTPUT_ROOT
from tests.cluster import register_node


@pytest.fixture
def manager(connection):
    return register_node(connection, "manager")


@pytest.fixture
def worker(connection):
    return register_node(connection, "worker")


@pytest.fixture(autouse=True)
def anywhere(settings):
    """Let connections name any path: what confines them has tests of its own."""
    said = {OUTPUT_ROOT.path: "/", FILE_ROOTS.path: ("/",)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **said}
