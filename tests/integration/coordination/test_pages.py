"""Proves that pages and the API show administrators the clusters in the store of coordination."""

import datetime as dt

import pytest
from django.test import Client

from nodes.assignment.pools import WorkItem
from nodes.coordination.raw_tree import PAGE
from tests.integration.coordination.conftest import JOB, ZooKeeperBench
from tests.support.api import assert_problem, client_of, make_user
from tests.support.cluster import seconds

pytestmark = pytest.mark.django_db

PATH = "/cluster/coordination/"
TREE = "/cluster/coordination/tree/"
API = "/api/v1/cluster/coordination/"


def visitor(role="administrator"):
    client = Client()
    client.force_login(make_user(role))
    return client


def use(settings, bench):
    """Let the pages read the store of this bench."""
    if isinstance(bench, ZooKeeperBench):
        settings.CRAWLCTL_COORDINATION = "ZOOKEEPER"
        settings.CRAWLCTL_ZOOKEEPER = f"127.0.0.1:{bench.server.port}{bench.root}"


@pytest.fixture
def cluster_with_shares(settings, bench):
    """
    Yield a cluster of two members: the main node has one item and its lock, and the other member has one item without
    its lock.
    """
    use(settings, bench)
    main, _other = (bench.node(name, joins={JOB: ["north", "south"]}) for name in ("main", "other"))
    leadership = main.campaign()
    main.assign(
        {WorkItem(JOB, "north"): "main", WorkItem(JOB, "south"): "other"},
        seen=main.read_state(),
        leadership=leadership,
    )
    main.acquire(WorkItem(JOB, "north"), lease=dt.timedelta(minutes=5), note="nightly")
    return bench


def test_members_pools_and_locks_of_a_cluster_are_shown(cluster_with_shares):
    shown = visitor().get(PATH, {"cluster": cluster_with_shares.cluster}).content.decode()

    assert "term 1" in shown
    assert f"{JOB}/north" in shown
    assert "nightly" in shown
    assert "5 min" in shown or "4 min" in shown
    assert shown.count('data-key="main"') == shown.count('data-key="other"') == 1


def test_the_api_shows_the_same_cluster_as_the_page(cluster_with_shares):
    answer = client_of("administrator").get(API, {"cluster": cluster_with_shares.cluster}).json()

    assert (answer["cluster"], answer["main"], answer["term"]) == (cluster_with_shares.cluster, "main", 1)
    assert [(member["node"], member["is_main"], member["items"]) for member in answer["members"]] == [
        ("main", True, 1),
        ("other", False, 1),
    ]
    assert answer["pools"] == [{"job": JOB, "items": 2, "placed": 2}]
    (lock,) = answer["locks"]
    assert (lock["item"], lock["holder"], lock["note"]) == ("north", "main", "nightly")
    assert 200 < lock["remaining"] <= 300


@pytest.mark.parametrize("role", ["viewer", "operator"])
@pytest.mark.parametrize("path", [PATH, TREE])
def test_a_user_who_is_not_an_administrator_is_refused(role, path):
    assert visitor(role).get(path).status_code == 403
    assert client_of(role, "viewer").get(API).status_code == 403


def test_a_missing_cluster_is_reported(settings, bench):
    use(settings, bench)

    client = visitor()

    page = client.get(PATH, {"cluster": "nowhere"})
    answer = client.get(API, {"cluster": "no/where"})

    assert page.status_code == 200
    assert_problem(answer, 404, "not_found")


def test_a_silent_store_is_reported(settings, monkeypatch):
    monkeypatch.setattr("jobs.queries.cluster.coordination_page.READ_TIMEOUT", seconds(0.5))
    settings.CRAWLCTL_COORDINATION, settings.CRAWLCTL_ZOOKEEPER = "ZOOKEEPER", "127.0.0.1:1"
    client = visitor()

    for path in (PATH, TREE):
        assert "did not answer" in client.get(path).content.decode()


# --- The tree ------------------------------------------------------------------------------------


@pytest.fixture
def tree(settings, zookeeper_bench):
    """Return a function that requests a path in the tree of a small cluster, and returns the status and the page."""
    use(settings, zookeeper_bench)
    node = zookeeper_bench.node("node", joins={JOB: [f"item-{number:03}" for number in range(PAGE + 1)]})
    node.campaign()
    node.lock_of_it = node.acquire(WorkItem(JOB, "item-001"), lease=dt.timedelta(minutes=5))
    client = visitor()

    def show(path="", **asked):
        answer = client.get(TREE, {"path": f"{zookeeper_bench.cluster}/{path}".rstrip("/"), **asked})
        return answer.status_code, answer.content.decode()

    show.node = node
    return show


def test_the_tree_is_shown_node_by_node_and_page_by_page(tree):
    _, top = tree()
    _, first = tree(f"work-pool/{JOB}")
    _, second = tree(f"work-pool/{JOB}", page=2)

    assert all(f">{name}</a>" in top for name in ("alive", "locks", "main-term", "work-pool", "workers"))
    assert "item-000" in first
    assert f"item-{PAGE:03}" not in first
    assert f"item-{PAGE:03}" in second
    assert "ephemeral (ends with its session)" in tree("alive")[1]


def test_the_tree_hides_the_tokens_of_locks_and_candidates(tree):
    status, lock = tree(f"locks/{JOB}/work-share-item-001.lock")

    assert status == 200
    assert "(hidden)" in lock
    assert str(tree.node.lock_of_it.token) not in lock
    assert "(hidden)-0000000000" in tree("leader-latch")[1]


@pytest.mark.parametrize("path", ["nothing-here", "../..", "alive/./.."])
def test_a_missing_path_of_the_tree_is_answered_with_404(tree, path):
    assert tree(path)[0] == 404


def test_without_zookeeper_there_is_no_tree():
    assert visitor().get(TREE).status_code == 404
