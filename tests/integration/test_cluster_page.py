"""
The page of the cluster shows the main manager, the nodes, groups,
moves and history, and lets administrators change the cluster.
"""

import datetime as dt
import uuid

import pytest
from django.test import Client
from django.utils import timezone

from jobs.duties.allocate import allocate_groups, retire_groups
from jobs.duties.requests import answer_requests
from jobs.models import InvariantCheck, Job, ThrottleGroup, ThrottlePolicy
from jobs.queries.cluster.page import read_cluster_page
from jobs.ui.cluster_screen import cluster_screen
from nodes.membership import members
from nodes.models import ClusterRequest, Node, NodeEvent
from tests.support.api import make_node, make_user
from tests.support.cluster import NOON
from tests.support.factories import make_job, make_policy
from tests.support.stepping import Main, Manager

HOSTILE = "<script>alert(1)</script>"


def visitor(role="administrator"):
    client = Client()
    client.force_login(make_user(role))
    return client


def screen():
    now = timezone.now()
    return cluster_screen(read_cluster_page(now=now), now=now)


class Cluster:
    """A main manager with two groups (three seeds and one seed), and a manager that joined later."""

    def __init__(self, connection):
        self.connection = connection
        self.main = Main(connection)
        heavy = make_policy("newspapers")
        for policy in (heavy, heavy, heavy, None):
            make_job(policy=policy)
        Job.objects.update(phase="active", run_no=1, started_at=NOON)
        # The main manager creates the groups in the first step, and computes their weights in the second step.
        self.main.step(allocate_groups)
        self.main.step(retire_groups)
        self.other = Manager(connection)
        self.heavy = ThrottleGroup.objects.get(policy=heavy)

    def card(self, manager):
        return next(card for card in screen()["managers"] if card["key"] == str(manager.id))


@pytest.fixture
def cluster(connection, monkeypatch):
    # Pages do not wait for an answer, because the test steps the main manager.
    monkeypatch.setattr("nodes.membership.requests._ANSWER_TIMEOUT", 0.0)
    return Cluster(connection)


# --- What the page shows -------------------------------------------------------------------------


def test_the_main_is_marked_with_a_crown_and_each_term_is_in_the_history(cluster):
    shown = screen()

    assert shown["main_name"] == cluster.card(cluster.main)["name"]
    assert shown["term"].startswith("main manager in term 1, for ")
    assert [term["term"] for term in shown["terms"]] == ["1"]
    assert (cluster.card(cluster.main)["crown"], cluster.card(cluster.other)["crown"]) == ("working", "")


def test_groups_are_tiles_of_their_manager_sized_by_weight(cluster):
    tiles = cluster.card(cluster.main)["groups"]

    assert tiles[0]["name"] == "newspapers"
    assert [(tile["weight"], tile["size"]) for tile in tiles] == [("3", "8"), ("1", "3")]
    assert cluster.card(cluster.main)["load"] == "2 groups, weight 4"
    assert cluster.card(cluster.other)["groups"] == []


def test_a_moving_group_names_its_target(cluster):
    ThrottleGroup.objects.filter(pk=cluster.heavy.pk).update(
        state="releasing", destination=cluster.other.id, releasing_since=NOON
    )

    tile = cluster.card(cluster.main)["groups"][0]

    assert (tile["tone"], tile["to"]) == ("excluded", f"→ {cluster.card(cluster.other)['name']}")


def test_groups_without_an_owner_are_also_shown(cluster):
    ThrottleGroup.objects.filter(pk=cluster.heavy.pk).update(state="free", owner=None)

    assert [tile["name"] for tile in screen()["free"]] == ["newspapers"]


def test_the_page_shows_the_heaviest_groups_and_counts_the_rest(cluster):
    policies = ThrottlePolicy.objects.bulk_create(ThrottlePolicy(name=f"policy {number}") for number in range(40))
    ThrottleGroup.objects.bulk_create(
        ThrottleGroup(policy=policy, node_scope="cluster", owner_id=cluster.other.id, state="owned", weight=number)
        for number, policy in enumerate(policies)
    )

    card = cluster.card(cluster.other)

    assert [tile["name"] for tile in card["groups"][:2]] == ["policy 39", "policy 38"]
    assert (len(card["groups"]), card["hidden"]) == (24, "and 16 groups of less weight")


def test_the_page_shows_the_main_manager_and_some_others_with_a_few_groups(cluster):
    owners = [make_node(f"manager-{number:03}", kind="manager") for number in range(100)]
    policies = ThrottlePolicy.objects.bulk_create(ThrottlePolicy(name=f"policy {number}") for number in range(1000))
    ThrottleGroup.objects.bulk_create(
        ThrottleGroup(policy=policy, node_scope="cluster", owner_id=owners[number % 100].id, state="owned")
        for number, policy in enumerate(policies)
    )

    shown = screen()

    assert shown["managers"][0]["key"] == str(cluster.main.id)
    assert (len(shown["managers"]), shown["more_managers"]) == (40, "and 62 more on the page “All nodes”")
    assert max(len(card["groups"]) for card in shown["managers"]) == 6
    assert (shown["managers_count"], shown["groups_count"]) == ("102", "1,002")


def test_a_worker_shows_its_documents_and_its_silence_beside_its_timeout(connection):
    now = timezone.now()
    make_node(
        "worker-1",
        heartbeat_at=now - dt.timedelta(seconds=7),
        progress={"in_flight": 12, "flushed": 3400, "capacity": 300},
    )

    (card,) = cluster_screen(read_cluster_page(now=now), now=now)["workers"]

    assert (card["in_flight"], card["flushed"], card["limit"]) == ("12", "3,400", "300")
    assert (card["silence"], card["silence_amount"], card["timeout_amount"]) == (
        "7.0 s ago (fails at 10 s)",
        "7.0",
        "10",
    )
    assert card["beat_tone"] == "failed"


def test_nodes_of_a_one_shot_crawl_are_not_shown_on_the_cluster_page(cluster):
    make_node("crawl", scope="crawl:1")

    assert screen()["workers"] == []


def test_the_page_shows_the_next_step_while_there_is_no_main(connection):
    assert screen()["main_name"] == "No main manager"
    assert "runmanager" in screen()["term"]


@pytest.mark.parametrize(("store", "who"), [("DATABASE", "oldest"), ("ZOOKEEPER", "ZooKeeper elects")])
def test_the_page_names_the_next_candidate_while_there_is_no_main(connection, settings, store, who):
    settings.CRAWLCTL_COORDINATION = store
    Manager(connection)

    assert screen()["main_name"] == "No main manager"
    assert who in screen()["term"]


def test_invariants_are_shown_with_the_time_of_their_last_check(connection):
    InvariantCheck.objects.create(name="claims", checked_at=timezone.now(), found=0, seconds=0.1)
    InvariantCheck.objects.create(name="places", checked_at=timezone.now(), found=2, example="a.test", seconds=0.1)
    InvariantCheck.objects.create(name="counts", checked_at=timezone.now(), found=None, seconds=2.0)

    checks = {check["key"]: check for check in screen()["checks"]}

    assert {name: check["state"] for name, check in checks.items()} == {
        "owners": "not checked yet",
        "claims": "no violations",
        "workers": "not checked yet",
        "places": "2 violations",
        "counts": "check timed out",
    }
    assert checks["places"]["example"] == "a.test"
    assert screen()["verdict"] == "Violated"


def test_the_journal_of_the_cluster_names_authors_and_changes(cluster):
    assert any(
        event["message"] == f"{cluster.card(cluster.main)['name']}: main manager of cluster in term 1"
        for event in screen()["events"]
    )


def test_names_with_markup_are_escaped(cluster):
    ThrottlePolicy.objects.update(name=HOSTILE)
    NodeEvent.objects.create(scope="cluster", kind="given", message=HOSTILE)

    for path in ("/cluster/", f"/cluster/groups/{cluster.heavy.pk}/"):
        assert HOSTILE not in visitor("viewer" if "groups" in path else "operator").get(path).content.decode()


# --- Requests ------------------------------------------------------------------------------------


def test_a_rebalance_shows_its_plan_before_anything_moves(cluster, monkeypatch):
    # The main manager steps while the page waits, so the page finds the answer at its first read.
    monkeypatch.setattr("nodes.membership.requests._ANSWER_TIMEOUT", 5.0)
    monkeypatch.setattr("nodes.membership.requests.time.sleep", lambda _seconds: cluster.main.step(answer_requests))
    client = visitor()

    plan = client.post("/cluster/rebalance/").content.decode()

    assert "1 group would move" in plan
    assert ThrottleGroup.objects.filter(state="releasing").count() == 0

    done = client.post("/cluster/rebalance/", {"go": ""}, follow=True).content.decode()

    assert "1 group is moving." in done
    assert ThrottleGroup.objects.filter(state="releasing").count() == 1


def test_a_group_shows_its_possible_owners_and_can_be_moved_to_each(cluster):
    client = visitor()
    address = f"/cluster/groups/{cluster.heavy.pk}/"

    page = client.get(address).content.decode()
    client.post(address, {"to": str(cluster.other.id)})
    cluster.main.step(answer_requests)

    assert "3 seeds that are throttled together, weight 3" in page
    assert str(cluster.other.id) in page
    assert str(cluster.main.id) not in page
    cluster.heavy.refresh_from_db()
    assert (cluster.heavy.state, cluster.heavy.destination_id) == ("releasing", cluster.other.id)
    assert screen()["requests"][0]["reason"] == "0 of 1 moved"


def test_a_node_shows_its_groups_before_it_is_drained(cluster):
    client = visitor()
    address = f"/cluster/nodes/{cluster.main.id}/drain/"
    Node.objects.filter(pk=cluster.main.id).update(progress={"groups": 2})

    page = client.get(address).content.decode()
    client.post(address)
    cluster.main.step(answer_requests)

    assert "The manager hands 2 groups of seeds to the other managers" in page
    assert "It is the main manager, so it resigns" in page
    assert ClusterRequest.objects.get().state == "in_progress"
    assert cluster.card(cluster.main)["status"] == "draining"


def test_the_new_owners_are_shown_before_a_manager_is_drained(cluster, monkeypatch):
    monkeypatch.setattr("nodes.membership.requests._ANSWER_TIMEOUT", 5.0)
    monkeypatch.setattr("nodes.membership.requests.time.sleep", lambda _seconds: cluster.main.step(answer_requests))
    client = visitor()
    address = f"/cluster/nodes/{cluster.main.id}/drain/"
    assert "Preview" in client.get(address).content.decode()

    plan = client.post(address, {"plan": ""}).content.decode()

    assert f"{cluster.card(cluster.main)['name']} → {cluster.card(cluster.other)['name']}" in plan
    assert "newspapers" in plan
    assert ">Drain</button>" in plan
    assert cluster.card(cluster.main)["status"] == "running"


def test_an_action_that_the_cluster_cannot_do_is_refused(cluster):
    members.stop(cluster.connection, node_id=cluster.main.id, reason="a test")
    members.stop(cluster.connection, node_id=cluster.other.id, reason="a test")

    page = visitor().post("/cluster/rebalance/", follow=True).content.decode()

    assert "The cluster has no main manager now" in page


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_administrators_see_and_use_the_actions(cluster, role):
    client = visitor(role)

    assert "Rebalance" not in client.get("/cluster/").content.decode()
    for path in ("rebalance/", f"groups/{cluster.heavy.pk}/", f"nodes/{cluster.main.id}/drain/"):
        assert client.post(f"/cluster/{path}").status_code == 403
    assert not ClusterRequest.objects.exists()


def test_pages_of_a_missing_group_or_node_are_answered_with_404(connection):
    client = visitor()

    assert client.get("/cluster/groups/4711/").status_code == 404
    assert client.get(f"/cluster/nodes/{uuid.uuid4()}/drain/").status_code == 404
