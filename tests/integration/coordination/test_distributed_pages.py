"""Proves that pages and the API show distributed jobs, and that administrators disable and enable them."""

import datetime as dt

import pytest
from django.test import Client
from django.utils import timezone

from nodes.assignment.pools import WorkItem
from nodes.distributed.models import DistributedJobOnNode, DistributedJobSwitch, RedistributionRequest
from nodes.distributed.pages.topics import distributed_topic, is_topic, read_screen
from nodes.distributed.records import ALL, OTHERS
from nodes.web.topics import TopicUnknown
from tests.integration.coordination.conftest import ZooKeeperBench
from tests.support.api import assert_problem, client_of, make_user
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

API = "/api/v1/distributed-jobs/"
NORTH, SOUTH = WorkItem("mails", "north"), WorkItem("mails", "south")


def visitor(role):
    client = Client()
    client.force_login(make_user(role, name=f"{role} in a browser"))
    return client


def use(settings, bench):
    """Let the pages read the store of this bench."""
    if isinstance(bench, ZooKeeperBench):
        settings.CRAWLCTL_COORDINATION = "ZOOKEEPER"
        settings.CRAWLCTL_ZOOKEEPER = f"127.0.0.1:{bench.server.port}{bench.root}"


def store_run_record(cluster, node, **facts):
    """Store records of a node about its runs of the distributed job "mails"."""
    usual = {"items": ["north"], "in_progress": 0, "runs": 7, "failures": 0, "failures_in_a_row": 0}
    now = timezone.now()
    return DistributedJobOnNode.objects.create(
        cluster=cluster, job="mails", node=node, seen_at=now, last_began_at=now, **(usual | facts)
    )


@pytest.fixture
def cluster_with_runs(settings, bench):
    """
    Yield a cluster in which `main` has both items and the lock of the item north. The other member could also run both
    items.
    """
    use(settings, bench)
    main, _other = (bench.node(name, joins={"mails": ["north", "south"]}) for name in ("main", "other"))
    leadership = main.campaign()
    main.assign({NORTH: "main", SOUTH: "main"}, seen=main.read_state(), leadership=leadership)
    lock = main.acquire(NORTH, lease=dt.timedelta(minutes=5))
    store_run_record(bench.cluster, "main", in_progress=1, next_at=timezone.now() + dt.timedelta(hours=2))
    store_run_record(bench.cluster, "other", failures=2, failures_in_a_row=2, last_failure="OSError: the disk is full")
    yield bench.cluster
    main.release(lock)


@pytest.fixture
def silent_store(settings):
    """Let the store of coordination be a ZooKeeper server that does not answer."""
    settings.CRAWLCTL_COORDINATION = "ZOOKEEPER"
    settings.CRAWLCTL_ZOOKEEPER = "127.0.0.1:1/nowhere"


def test_a_job_is_listed_with_its_pool_runs_failures_and_next_run(cluster_with_runs):
    answer = client_of("viewer").get(API, {"cluster": cluster_with_runs}).json()

    assert (answer["cluster"], answer["main"], answer["term"], answer["unseen"]) == (cluster_with_runs, "main", 1, "")
    (job,) = answer["jobs"]
    assert (job["job"], job["state"], job["is_disabled"]) == ("mails", "running", False)
    assert (job["items"], job["given"], job["able"]) == (2, 2, 2)
    assert (job["runs"], job["failures"], job["in_progress"]) == (14, 2, 1)
    assert job["last_failure"] == "OSError: the disk is full"
    assert job["next_at"] is not None
    assert [(node["node"], node["is_member"]) for node in job["nodes"]] == [("main", True), ("other", True)]


def test_a_job_without_a_running_item_is_shown_as_stopped(settings, bench):
    use(settings, bench)
    bench.node("main", joins={"mails": ["north"]})

    (job,) = client_of("viewer").get(API, {"cluster": bench.cluster}).json()["jobs"]

    assert (job["state"], job["items"], job["given"]) == ("stopped", 1, 0)


def test_a_job_is_shown_with_the_nodes_and_holders_of_each_item(cluster_with_runs):
    answer = client_of("viewer").get(f"{API}jobs/mails/", {"cluster": cluster_with_runs}).json()

    north, south = answer["items"]
    assert (north["item"], north["node"], north["lock"]["holder"]) == ("north", "main", "main")
    assert 200 < north["lock"]["remaining"] <= 300
    assert (south["item"], south["node"], south["lock"]) == ("south", "main", None)


def test_the_pages_of_distributed_jobs_show_the_same_as_the_api(cluster_with_runs):
    client = visitor("viewer")

    jobs = client.get("/cluster/jobs/", {"cluster": cluster_with_runs}).content.decode()
    job = client.get("/cluster/jobs/job/mails/", {"cluster": cluster_with_runs}).content.decode()

    assert "2 of 2 assigned" in jobs
    assert "OSError: the disk is full" in jobs
    assert "in 1 h 59 min" in jobs
    assert 'data-key="north"' in job
    assert 'data-key="other"' in job
    assert 'data-key="All distributed jobs (overrides their own switches)"' in jobs
    assert "4 min" in job
    assert 'name="action"' not in jobs


def test_an_open_list_of_distributed_jobs_is_updated(cluster_with_runs):
    client = visitor("viewer")
    shown = client.get("/cluster/jobs/", {"cluster": cluster_with_runs}).content.decode()
    assert f'data-topic="distributed-{cluster_with_runs}"' in shown

    DistributedJobOnNode.objects.filter(node="main").update(runs=1000)

    (job,) = read_screen(f"distributed-{cluster_with_runs}")["jobs"]
    assert (job["key"], job["shared"], job["runs"], job["state"]) == ("mails", "2 of 2 assigned", "1,007", "running")


def test_a_page_cannot_follow_a_cluster_with_an_invalid_name():
    with pytest.raises(TopicUnknown):
        read_screen("distributed-..")
    assert not is_topic("distributed-a/b/c")
    assert is_topic(distributed_topic("c" * 120, "j" * 120))


def test_an_open_page_of_a_distributed_job_is_updated(cluster_with_runs, bench):
    topic = distributed_topic(cluster_with_runs, "mails")
    shown = visitor("viewer").get("/cluster/jobs/job/mails/", {"cluster": cluster_with_runs}).content.decode()
    assert f'data-topic="{topic}"' in shown

    DistributedJobOnNode.objects.filter(node="main").update(runs=1000, problem="OSError: no route")

    screen = read_screen(topic)
    assert (screen["state"], screen["runs"], screen["problem"]) == ("running", "1,007", "OSError: no route")
    assert [(node["key"], node["runs"]) for node in screen["nodes"]] == [("main", "1,000"), ("other", "7")]
    assert [(item["key"], item["node"], item["holder"]) for item in screen["pool"]] == [
        ("north", "main", "main"),
        ("south", "main", ""),
    ]
    with pytest.raises(TopicUnknown):
        read_screen(distributed_topic(cluster_with_runs, "letters"))


def test_a_cluster_without_members_has_no_jobs(settings, bench):
    use(settings, bench)

    answer = client_of("viewer").get(API, {"cluster": "another-one"}).json()

    assert (answer["jobs"], answer["main"], answer["unseen"]) == ([], "", "")


def test_a_cluster_without_members_has_no_plan(settings, bench):
    use(settings, bench)

    shown = visitor("administrator").get("/cluster/jobs/rebalance/", {"cluster": "another-one"}).content.decode()

    assert "no node has joined the cluster another-one yet" in shown


@pytest.mark.parametrize(
    ("of", "name"), [({"job": "mails"}, "mails"), ({"of": "all"}, ALL), ({"of": "others"}, OTHERS)]
)
def test_an_administrator_disables_and_enables_one_or_all_jobs(of, name, cluster_with_runs):
    client = client_of("administrator")

    answer = client.post(f"{API}switch/", {"cluster": cluster_with_runs, "is_disabled": True, **of}).json()

    assert answer["jobs"][0]["is_disabled"] is True
    switch = DistributedJobSwitch.objects.get(cluster=cluster_with_runs, job=name)
    assert (switch.is_disabled, switch.changed_by) == (True, "a administrator")
    again = client.post(f"{API}switch/", {"cluster": cluster_with_runs, "is_disabled": False, **of}).json()
    assert again["jobs"][0]["is_disabled"] is False
    client.post(f"{API}switch/", {"cluster": cluster_with_runs, "is_disabled": None, **of})
    assert not DistributedJobSwitch.objects.exists()


def test_the_switch_of_all_jobs_overrides_a_jobs_switch_and_the_default(cluster_with_runs):
    client = client_of("administrator")

    def disabled(of, value):
        answer = client.post(f"{API}switch/", {"cluster": cluster_with_runs, "is_disabled": value, **of}).json()
        return answer["jobs"][0]["is_disabled"]

    assert disabled({"of": "others"}, True)
    assert not disabled({"job": "mails"}, False)
    assert disabled({"of": "all"}, True)


def test_the_buttons_of_the_page_switch_distributed_jobs(cluster_with_runs):
    client = visitor("administrator")

    page = client.post(
        "/cluster/jobs/switch/", {"cluster": cluster_with_runs, "job": "mails", "action": "disable"}, follow=True
    )

    assert "Nodes apply the switch within seconds" in page.content.decode()
    assert DistributedJobSwitch.objects.get().is_disabled
    client.post("/cluster/jobs/switch/", {"cluster": cluster_with_runs, "job": "mails", "action": "follow"})
    assert not DistributedJobSwitch.objects.exists()


@each_row(
    ("given", "field"),
    [
        ({"is_disabled": True}, "job"),
        ({"is_disabled": True, "of": "all", "job": "mails"}, "job"),
        ({"is_disabled": True, "job": "a job"}, "job"),
        ({"is_disabled": True, "job": "mails", "cluster": "a/b"}, "cluster"),
        ({"job": "mails"}, "is_disabled"),
        ({"job": "mails", "is_disabled": "perhaps"}, "is_disabled"),
        ({"job": "mails", "is_disabled": True, "now": True}, "now"),
    ],
    ids=["of no job", "of all and of one", "a bad job", "a bad cluster", "nothing", "no flag", "something else"],
)
def test_an_invalid_switch_is_refused_and_changes_nothing(given, field):
    answer = client_of("administrator").post(f"{API}switch/", given)

    assert_problem(answer, 400, "invalid")
    assert list(answer.json()["fields"]) == [field]
    assert not DistributedJobSwitch.objects.exists()


def test_a_plan_shows_each_share_and_changes_nothing(cluster_with_runs, bench):
    answer = (
        client_of("administrator")
        .post(f"{API}rebalance/", {"cluster": cluster_with_runs, "dry_run": True, "strategy": "evenly-spread"})
        .json()
    )

    assert (answer["before"], answer["after"]) == ({"main": 2, "other": 0}, {"main": 1, "other": 1})
    (move,) = answer["moves"]
    assert (move["owner"], move["to"]) == ("main", "other")
    assert bench.node("watcher").read_state().shares == {NORTH: "main", SOUTH: "main"}


def test_a_plan_excludes_disabled_jobs(cluster_with_runs):
    client = client_of("administrator")
    client.post(f"{API}switch/", {"cluster": cluster_with_runs, "job": "mails", "is_disabled": True})

    answer = client.post(f"{API}rebalance/", {"cluster": cluster_with_runs, "dry_run": True}).json()

    assert {move["to"] for move in answer["moves"]} == {""}


def test_an_unknown_strategy_is_refused_by_name(cluster_with_runs):
    answer = client_of("administrator").post(
        f"{API}rebalance/", {"cluster": cluster_with_runs, "dry_run": True, "strategy": "by-chance"}
    )

    assert_problem(answer, 400, "invalid")
    assert "there is no strategy 'by-chance'; there are: evenly-rendezvous" in answer.json()["fields"]["strategy"][0]


def test_the_page_of_a_plan_shows_the_shares_and_problems_of_the_plan(cluster_with_runs):
    client = visitor("administrator")

    shown = client.get(
        "/cluster/jobs/rebalance/", {"cluster": cluster_with_runs, "strategy": "evenly-spread"}
    ).content.decode()
    wrong = client.get(
        "/cluster/jobs/rebalance/", {"cluster": cluster_with_runs, "strategy": "by-chance"}
    ).content.decode()

    assert "Strategy evenly-spread would move 1 item" in shown
    assert 'data-key="mails/' in shown
    assert "there is no strategy &#x27;by-chance&#x27;" in wrong


@each_row("role", ["viewer", "operator"])
def test_only_administrators_switch_jobs_or_make_plans(role):
    client = visitor(role)

    assert (
        client.post("/cluster/jobs/switch/", {"cluster": "c", "job": "mails", "action": "disable"}).status_code == 403
    )
    assert client.get("/cluster/jobs/rebalance/").status_code == 403
    assert not DistributedJobSwitch.objects.exists()


def test_a_missing_distributed_job_is_reported(cluster_with_runs):
    answer = client_of("viewer").get(f"{API}jobs/nothing/", {"cluster": cluster_with_runs})

    assert_problem(answer, 404, "not_found")
    assert answer.json()["detail"] == f"Cluster {cluster_with_runs} has no distributed job 'nothing'."
    assert visitor("viewer").get("/cluster/jobs/job/nothing/", {"cluster": cluster_with_runs}).status_code == 404


def test_while_the_store_is_silent_pages_show_database_records_and_a_reason(silent_store):
    store_run_record("jobs", "main")

    answer = client_of("viewer").get(API).json()
    page = visitor("administrator").get("/cluster/jobs/").content.decode()

    assert answer["unseen"]
    assert [(job["job"], job["runs"]) for job in answer["jobs"]] == [("mails", 7)]
    assert "The coordination store cannot be read" in page
    assert_problem(
        client_of("administrator", "viewer").post(f"{API}rebalance/", {"dry_run": True}),
        503,
        "coordination_unavailable",
    )


def test_an_administrator_requests_a_rebalance_by_the_main_manager(cluster_with_runs):
    answer = client_of("administrator").post(f"{API}rebalance/", {"cluster": cluster_with_runs})
    requested_first = RedistributionRequest.objects.get(cluster=cluster_with_runs)
    visitor("administrator").post("/cluster/jobs/rebalance/", {"cluster": cluster_with_runs})
    requested_again = RedistributionRequest.objects.get(cluster=cluster_with_runs)

    assert answer.status_code == 202
    assert requested_first.asked_by == "a administrator"
    assert requested_again.asked_by == "administrator in a browser"
    assert requested_again.asked_at > requested_first.asked_at
