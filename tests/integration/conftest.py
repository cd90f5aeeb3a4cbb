"""Nodes that many of these tests have: a manager and a worker of the cluster that do nothing by themselves."""

import pytest

from tests.cluster import register_node


@pytest.fixture
def manager(connection):
    return register_node(connection, "manager")


@pytest.fixture
def worker(connection):
    return register_node(connection, "worker")
