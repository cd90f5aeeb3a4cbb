"""Proves that `manage.py coordination` shows a cluster of the configured store, and writes nothing into the store."""

import io

import pytest
from django.core.management import CommandError, call_command

from nodes.assignment.pools import WorkItem
from nodes.coordination.database import DatabaseCoordination
from nodes.coordination.opening import DATABASE, ZOOKEEPER, open_coordination
from nodes.coordination.port import Refused
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address, Session
from tests.integration.coordination.conftest import TIMEOUT, ZooKeeperBench
from tests.integration.coordination.test_clusters import POOLS, rebalance


@pytest.fixture(autouse=True)
def chosen(bench, settings):
    """Choose the bench's store in the settings of coordination."""
    if isinstance(bench, ZooKeeperBench):
        settings.CRAWLCTL_COORDINATION = ZOOKEEPER
        settings.CRAWLCTL_ZOOKEEPER = f"127.0.0.1:{bench.server.port}{bench.root}"


def lines_about(cluster):
    output = io.StringIO()
    call_command("coordination", cluster, stdout=output)
    return output.getvalue().splitlines()


def test_a_cluster_is_shown_with_members_jobs_and_locks(bench):
    a = bench.node("a", joins=POOLS)
    bench.node("b", joins={})
    rebalance(a)
    a.acquire(WorkItem("reports", "north"), lease=TIMEOUT * 100, note="run 7")

    lines = lines_about(bench.cluster)

    assert lines[:5] == [
        "main: a, term 1",
        "node a: 3 items; distributed jobs: mails, reports",
        "node b: 0 items; distributed jobs: nothing",
        "job mails: 1 items, 1 of them assigned",
        "job reports: 2 items, 2 of them assigned",
    ]
    assert lines[5].startswith("lock reports/north: a since 20")
    assert lines[5].endswith("s (run 7)")


def test_showing_a_missing_cluster_does_not_create_it(bench):
    for _twice in range(2):
        with pytest.raises(CommandError, match="there is no cluster 'nowhere' in"):
            lines_about("nowhere")


@pytest.mark.parametrize("bench", ["zookeeper"], indirect=True)
def test_showing_a_cluster_writes_nothing_into_zookeeper(bench):
    a = bench.node("a", joins=POOLS)
    rebalance(a)
    a.acquire(WorkItem("reports", "north"), lease=TIMEOUT * 100)
    address = Address(hosts=f"127.0.0.1:{bench.server.port}", root=bench.root)
    session = Session(address=address, timeout=TIMEOUT)
    before = tree_of(session, bench.root)

    lines_about(bench.cluster)

    assert tree_of(session, bench.root) == before
    session.end()


def tree_of(session, path):
    """Return the data, version and times of a ZooKeeper node and of all nodes below it."""
    found = {path: session.get(path)}
    for child in session.children(path):
        found |= tree_of(session, f"{path}/{child}")
    return found


def test_an_invalid_name_of_a_cluster_is_refused(bench):
    with pytest.raises(CommandError, match="the cluster 'no/where' is invalid"):
        lines_about("no/where")


def test_the_store_that_the_settings_name_is_opened(bench, dsn):
    facts = {"dsn": dsn, "cluster": "jobs", "node": "a", "timeout": TIMEOUT, "zookeeper": "127.0.0.1:1"}

    assert isinstance(open_coordination(DATABASE, **facts), DatabaseCoordination)
    assert isinstance(open_coordination(ZOOKEEPER, **facts), ZooKeeperCoordination)


def test_a_cluster_that_was_not_created_has_no_members(bench):
    node = bench.node("a")
    node.close()
    stranger = bench._open("b", bench.proxy(node), TIMEOUT)
    bench.cluster = "nowhere"
    lost = bench._open("c", bench.proxy(node), TIMEOUT)

    assert stranger.read_state().members == {}
    with pytest.raises(Refused, match="there is no cluster 'nowhere'"):
        lost.read_state()
    stranger.close()
    lost.close()
