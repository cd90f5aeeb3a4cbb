"""Proves that the control partition shows clusters, their history and tasks of all partitions, each on one page."""

import datetime as dt
import json
import uuid
from collections import defaultdict

import psycopg
import pytest
from django.utils import timezone

from crawlctl.live.topics import read_screen
from jobs.connectors.repository.base import hash_of as address_hash
from jobs.lifecycle.document import Stage
from jobs.models import (
    Activity,
    ClusterMinute,
    Job,
    LaneState,
    Outcome,
    OutputConnection,
    PartitionedJob,
    Progress,
    QueueItem,
    SearchDocument,
    ThrottleGroup,
)
from jobs.partitions import merged
from jobs.partitions.facts import send_fact
from jobs.partitions.merged import read_in
from jobs.partitions.slots import KEY as MAP_KEY
from jobs.partitions.slots import SlotMap
from jobs.queries.cluster import all_partitions
from jobs.queries.cluster.facts import as_text
from jobs.queries.hosts.latest_requests import _Reading, read_latest_requests
from jobs.queries.jobs.lines import read_first_jobs
from jobs.queries.jobs.page import read_job_page
from jobs.queries.jobs.parts import _cached as cached_jobs
from jobs.queries.meter import METER, Meter
from jobs.queries.overview import _cached as cached_overview
from jobs.queries.overview import read_overview
from jobs.queries.tasks import _cached as cached_tasks
from jobs.settings.partitions import PARTITION, PARTITIONS
from jobs.verdicts.causes import Cause
from nodes.models import ClusterRequest, Node, NodeEvent
from nodes.tasks import verbs
from nodes.tasks.models import ArchivedTask
from tests.support.api import client_of
from tests.support.cluster import fall_silent, register_node
from tests.support.factories import count_folded, make_documents, make_job, make_lane
from tests.support.processes import copy_of
from tests.support.proxy import silent_database
from tests.support.stepping import Main

# Number of tasks in each partition. A page has 50.
TASKS = 40
START = timezone.now()
# Two stored minutes: a past minute of today, and the minute before it.
THEN = START.replace(second=0, microsecond=0) - dt.timedelta(minutes=2)
BEFORE = THEN - dt.timedelta(minutes=1)


def keep_minute(job, *, main, documents):
    """Store a minute with a main manager and the progress of a running job."""
    facts = {
        "main": {"": {"term": 3, "node": "m"}} if main else {},
        "nodes": {"m": {"name": main or "idle", "kind": "manager", "status": "running", "machine": "x", "tags": []}},
        "owners": {"": {"groups": 2, "weight": 2.0}},
        "jobs": {str(job.pk): {"name": job.name, "status": "Running", "run": 1}},
        "progress": {str(job.pk): [documents, 60, 1, 1, 2, 3, 4, 5, 6], "0": [documents, 60, 1, 1, 2, 3, 4, 5, 6]},
    }
    ClusterMinute.objects.create(at=THEN, is_whole=True, facts=as_text(facts))
    Progress.objects.create(job_id=0, step=60, at=BEFORE, documents=documents, bytes=60, requests=1)


def count_failures(lane, number):
    """Count failed documents of a lane."""
    failed = {"measure": "stage", "stage": Stage.DONE, "outcome": Outcome.FAILED, "code": "501"}
    job = lane.seed.job
    count_folded(lane_id=lane.pk, job_id=job.pk, run_no=job.run_no, amount=number, **failed)


def make_tasks(name, *, offset):
    """
    Make waiting and ended tasks. Their times alternate with the times of tasks that have another offset (seconds).
    """
    for n in range(TASKS):
        at = START + dt.timedelta(hours=1, seconds=2 * n + offset)
        verbs.create(kind="sleep", arguments={"seconds": 1}, urn=f"{name}{n}", at=at, made_by="vera")
    known = {"kind": "sleep", "retry_policy": {"policy": "never"}, "created_by": "vera", "why": "done"}
    ArchivedTask.objects.bulk_create(
        ArchivedTask(id=1000 + n, urn=f"{name}{n}", archived_at=START - dt.timedelta(seconds=2 * n + offset), **known)
        for n in range(TASKS)
    )


def write_text_not_found_yet():
    """Write a text that the search index does not find yet."""
    output = OutputConnection.objects.create(name="texts", connector="search")
    texts = dict.fromkeys(("url", "title", "description", "text", "content_type", "language"), "")
    SearchDocument.objects.create(output=output, hash=uuid.UUID(int=7), fetched_at=START, written_at=START, **texts)


@pytest.fixture(scope="module")
def database(template, django_db_blocker):
    """Return the database of partition `b`, with a main manager, a silent worker, a stored minute and tasks."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            make_job("of another number")
            job = make_job("news")
            PartitionedJob.objects.create(job=job, number=job.pk)
            with psycopg.connect(database.dsn, autocommit=True) as there:
                Main(there)
                fall_silent(there, register_node(there, "worker", name="their worker"))
            Node.objects.filter(kind="manager").update(name="their manager")
            keep_minute(job, main="their manager", documents=60)
            NodeEvent.objects.create(scope="cluster", kind="running", message="theirs", at=THEN)
            lane = make_lane(job.seeds.get(), "b.example")
            make_documents(lane, ["7"])
            QueueItem.objects.update(hash=address_hash("http://b.example/7"))
            count_failures(lane, 3)
            ThrottleGroup.objects.create(seed=job.seeds.get(), node_scope="cluster", state="free", weight=1)
            ClusterRequest.objects.create(scope="cluster", kind="drain", asked_by="vera", asked_at=START)
            make_tasks("theirs", offset=1)
            write_text_not_found_yet()
        yield database


@pytest.fixture
def job(connection):
    return make_job("news")


@pytest.fixture
def control(connection, job, database, settings, monkeypatch):
    """Make this database the control partition, and `b` the only other partition."""

    def control(address=database.dsn):
        values = {PARTITION.path: "a", PARTITIONS.path: ("a=postgresql://one/crawl", f"b={address}")}
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}

    monkeypatch.setattr(merged, "_silent_until", {})
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 30.0)
    all_partitions._cached._answers.clear()
    cached_tasks.cache_clear()
    cached_overview.cache_clear()
    cached_jobs.cache_clear()
    owners = SlotMap.even("ab").as_json()
    send_fact(connection, "a", "a", MAP_KEY, owners)
    with psycopg.connect(database.dsn, autocommit=True) as there:
        there.execute("UPDATE jobs_partitionedjob SET number = %s", [job.pk])
    control()
    return control


@pytest.fixture
def silent(control, database, monkeypatch):
    """Make partition `b` silent: put a proxy in front of it that holds all bytes."""
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 1.0)
    with silent_database(database.dsn, given_to=control):
        yield


@pytest.fixture
def operator(connection):
    return client_of("operator")


@pytest.fixture
def administrator(connection):
    return client_of("administrator")


def columns(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


# --- The cluster ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("control")
def test_the_page_of_the_cluster_has_a_line_for_each_partition_and_their_sum(operator, connection):
    register_node(connection, "worker", name="our worker")

    page = operator.get("/cluster/")

    screen, text = page.context["screen"], page.content.decode()
    assert (screen["main_name"], screen["main_tone"]) == ("None in partition a", "failed")
    assert columns(screen["partitions"], "name", "main_name", "managers_count", "workers_count", "silent_names") == [
        ("a", "No main manager", "0", "1", ""),
        ("b", "their manager", "1", "1", "their worker"),
        ("All", "1", "1", "2", ""),
    ]
    assert (screen["managers_count"], screen["workers_count"]) == ("1", "2")
    assert columns(screen["workers"], "name", "partition") == [
        ("our worker", "Partition a"),
        ("their worker", "Partition b"),
    ]
    assert all(row["drain_address"].startswith("/partition/b/cluster/nodes/") for row in screen["managers"])
    assert "This page shows partition" not in text


@pytest.mark.usefixtures("control")
def test_partitions_that_all_have_a_main_manager_are_shown_as_healthy(operator, connection):
    Main(connection)

    screen = operator.get("/cluster/").context["screen"]

    assert (screen["main_name"], screen["main_tone"]) == ("One in each of 2 partitions", "working")
    assert {row["partition"] for row in screen["terms"]} == {"Partition a", "Partition b"}
    assert {row["partition"] for row in screen["events"]} == {"Partition a", "Partition b"}
    assert len({row["key"] for row in screen["events"]}) == len(screen["events"])


@pytest.mark.usefixtures("silent")
def test_sums_without_a_silent_partition_are_shown_as_minimum_values(operator, connection):
    Main(connection)

    page, live = operator.get("/cluster/").context["screen"], read_screen("cluster")

    assert page["main_name"] == live["main_name"] == "No answer from partition b"
    assert (page["managers_count"], page["verdict"]) == ("at least 1", "Not all checked yet")
    assert columns(page["partitions"], "name", "main_name") == [("a", "n"), ("b", "No answer"), ("All", "at least 1")]


@pytest.mark.usefixtures("silent")
def test_the_overview_marks_counts_without_a_silent_partition_as_minimum(operator, connection):
    Main(connection)

    page, live = operator.get("/").context["screen"], read_screen("overview")

    assert page["managers"] == live["managers"] == "at least 1"


@pytest.mark.usefixtures("control")
def test_an_open_page_of_the_cluster_is_updated_for_all_partitions(connection):
    assert columns(read_screen("cluster")["partitions"], "name") == [("a",), ("b",), ("All",)]


def test_the_control_partition_shows_and_changes_clusters_of_other_partitions(
    control, database, administrator, monkeypatch
):
    monkeypatch.setattr("nodes.membership.requests._ANSWER_TIMEOUT", 0.0)

    page = administrator.get("/partition/b/cluster/")
    asked = administrator.post("/partition/b/cluster/rebalance/", format="multipart")

    assert page.context["screen"]["main_name"] == "their manager"
    assert page.context["screen"]["partitions"] == []
    assert asked.headers["Location"] == "/partition/b/cluster/"
    assert not ClusterRequest.objects.exists()
    with psycopg.connect(database.dsn) as there:
        asked = there.execute("DELETE FROM nodes_clusterrequest WHERE kind = 'rebalance' RETURNING asked_by").fetchall()
    assert asked == [("a administrator",)]


@pytest.mark.usefixtures("control")
def test_the_api_lists_the_groups_and_requests_of_all_partitions(administrator):
    groups = administrator.get("/api/v1/groups/").json()
    requests = administrator.get("/api/v1/cluster/requests/").json()

    assert columns(groups["results"], "state", "partition") == [("free", "b")]
    assert columns(requests["results"], "kind", "partition", "progress") == [("drain", "b", {"moves": 0, "arrived": 0})]
    assert administrator.get(f"/partition/b/api/v1/groups/{groups['results'][0]['id']}/").json()["partition"] == "b"


def test_without_partitions_pages_have_no_lines_of_partitions(operator):
    page = operator.get("/cluster/")

    assert page.context["screen"]["partitions"] == []
    assert "Silent nodes" not in page.content.decode()


# --- The overview, the page of a job, and the search for a text ----------------------------------


@pytest.mark.usefixtures("control")
def test_the_overview_has_the_nodes_and_the_progress_of_all_partitions(operator, connection, job):
    register_node(connection, "worker", name="our worker")
    keep_minute(job, main="", documents=120)

    screen = operator.get("/").context["screen"]

    assert (screen["managers"], screen["workers"], screen["documents_in_span"]) == ("1", "2", "180")
    assert columns(screen["nodes"], "name", "partition") == [
        ("our worker", ""),
        ("their manager", "In partition b"),
        ("their worker", "In partition b"),
    ]


@pytest.mark.usefixtures("silent")
def test_the_overview_immediately_names_a_partition_without_an_answer(operator):
    assert "partition b" in operator.get("/").context["screen"]["at_least"]


@pytest.mark.usefixtures("control")
def test_the_page_of_a_job_has_the_hosts_and_results_of_all_partitions(operator, job):
    count_failures(make_lane(job.seeds.get(), "a.example"), 2)

    screen = operator.get(f"/jobs/{job.pk}/").context["screen"]

    assert columns(screen["failing"], "code", "count") == [("501", "5")]
    assert sorted(columns(screen["hosts"], "name", "partition")) == [("a.example", ""), ("b.example", "In partition b")]
    assert next(row for row in screen["hosts"] if row["partition"])["address"].startswith("/partition/b/hosts/")
    assert screen["hosts_in_all"] == "2"


@pytest.mark.usefixtures("control")
def test_the_lag_of_the_search_index_is_the_largest_of_all_partitions(operator, job):
    job.outputs.set([OutputConnection.objects.create(name="texts", connector="search")])

    job_page, overview, search = operator.get(f"/jobs/{job.pk}/"), operator.get("/"), operator.get("/search/?q=x")

    assert [output.behind_since for output in read_job_page(job.pk, now=START).outputs] == [START]
    assert read_overview(now=START).search_behind_since == START
    lags = (
        job_page.context["screen"]["outputs"][0]["lag"],
        overview.context["screen"]["search_lag"],
        search.context["lag"],
    )
    assert "up to date" not in lags


@pytest.mark.usefixtures("control")
def test_the_page_of_a_job_ignores_answers_older_than_the_run_of_a_partition(job):
    later = job.run_no + 1
    Job.objects.filter(pk=job.pk).update(run_no=later)

    answers, partitions = cached_jobs(job.pk, later, runs=False), []
    read = answers._read
    answers._read = lambda name: partitions.append(name) or read(name)

    read_job_page(job.pk, now=START)
    answers._reading["en"].join()

    assert partitions == ["b", "b"]


@pytest.mark.usefixtures("control")
def test_a_job_whose_run_ended_shows_no_partition_answers_from_before_the_end(job):
    Job.objects.filter(pk=job.pk).update(phase="active")
    during = read_job_page(job.pk, now=START)
    cached_jobs(job.pk, job.run_no, runs=True)._answers["en"].held.found.others.clear()
    Job.objects.filter(pk=job.pk).update(phase="inactive")

    assert during.known_hosts == read_job_page(job.pk, now=START).known_hosts


@pytest.mark.usefixtures("silent")
def test_the_page_of_a_job_names_a_partition_whose_figures_are_missing(connection, job):
    send_fact(connection, "b", "a", "life:all", {})

    assert [one.name for one in read_job_page(job.pk, now=timezone.now()).silent] == ["b"]


@pytest.mark.usefixtures("control")
def test_hosts_documents_and_nodes_of_all_partitions_are_found(administrator, job):
    hosts = administrator.get("/find/", {"q": "b.exa"}).json()["results"]
    nodes = administrator.get("/find/", {"q": "their man"}).json()["results"]
    documents = administrator.get("/find/", {"q": "http://b.example/7"}).json()["results"]

    assert columns(hosts, "name", "says") == [("b.example", "In partition b")]
    assert hosts[0]["address"].startswith("/partition/b/hosts/")
    assert columns(nodes, "name", "says", "address") == [("their manager", "In partition b", "/nodes/")]
    assert columns(documents, "name")[-1] == ("http://b.example/7",)
    assert documents[-1]["address"].startswith(f"/documents/{job.pk}/")


@pytest.mark.usefixtures("silent")
def test_a_search_by_a_text_names_a_silent_partition(administrator):
    (found,) = administrator.get("/find/", {"q": "b.exa"}).json()["results"]

    assert (found["kind"], found["name"], found["says"]) == ("Partition", "b", "No answer")


# --- The history of the cluster ---------------------------------------------------------------------------------


def at(moment, **query):
    return {"at": f"{moment:%Y-%m-%dT%H:%M}", **query}


@pytest.mark.usefixtures("control")
def test_a_past_minute_combines_all_partitions(operator, job):
    keep_minute(job, main="", documents=120)
    NodeEvent.objects.create(scope="cluster", kind="running", message="ours", at=THEN)

    page = operator.get("/cluster/history/", at(THEN))

    then = page.context["then"]
    assert columns(then["partitions"], "name", "main", "rate", "free") == [
        ("a", "No main manager", "2.0", "2"),
        ("b", "their manager", "1.0", "2"),
        ("All", "1", "3.0", "4"),
    ]
    assert columns(then["managers"], "name", "partition") == [
        ("their manager", "Partition b"),
        ("idle", "Partition a"),
    ]
    # The states are indexed, unchanged, excluded, failed, active and waiting.
    assert columns(then["jobs"], "name", "address", "rate", "states") == [
        ("news", f"/jobs/{job.pk}/", "3.0", ["6", "8", "12", "10", "4", "2"])
    ]
    events = columns(page.context["events"], "message", "partition")
    assert events[:2] == [("ours", "Partition a"), ("theirs", "Partition b")]
    assert "This page shows partition" not in page.content.decode()


@pytest.mark.usefixtures("control")
def test_the_chart_of_a_day_stacks_a_series_for_each_partition(operator, job):
    keep_minute(job, main="ours", documents=120)

    chart = json.loads(operator.get("/cluster/history/", at(THEN)).context["chart"])

    sums = [sum(series["values"]) for series in chart["series"]]
    assert chart["stacked"] is True
    assert sums[0] == pytest.approx(2 * sums[1], rel=0.01)
    assert [series["label"][-1] for series in chart["series"]] == ["a", "b"]


@pytest.mark.usefixtures("control")
def test_links_of_the_history_keep_the_chosen_partition(operator, job):
    keep_minute(job, main="ours", documents=120)

    page = operator.get("/cluster/history/", at(THEN, partition="b"))

    assert columns(page.context["then"]["partitions"], "name", "main") == [("b", "their manager")]
    assert all("partition=b" in step["address"] for step in page.context["steps"])
    assert operator.get("/cluster/history/", {"partition": "c"}).status_code == 400


@pytest.mark.usefixtures("silent")
def test_a_history_names_the_partition_that_it_lacks(operator, job):
    keep_minute(job, main="ours", documents=120)

    page = operator.get("/cluster/history/", at(THEN))

    assert "Partition b does not answer." in page.content.decode()
    rows = columns(page.context["then"]["partitions"], "name", "main", "rate")
    assert rows == [("a", "ours", "2.0"), ("b", "unknown", "—"), ("All", "at least 1", "at least 2.0")]
    (series,) = json.loads(page.context["chart"])["series"]
    assert series["label"] == "Documents a second in partition a"


# --- Tasks ---------------------------------------------------------------------------------------


def pages_of(client, address):
    """Yield the names and partitions of the tasks on each page of a list."""
    query = ""
    while query is not None:
        page = client.get(f"{address}?{query}")
        yield columns(page.context["screen"]["tasks"], "urn", "partition")
        query = page.context["next_query"] or None


@pytest.mark.usefixtures("control")
@pytest.mark.parametrize("address", ["/tasks/scheduled/", "/tasks/archived/"])
def test_lists_of_tasks_merge_all_partitions_by_date(operator, address):
    make_tasks("ours", offset=0)

    pages = list(pages_of(operator, address))

    expected = [row for n in range(TASKS) for row in ((f"ours{n}", ""), (f"theirs{n}", "In partition b"))]
    assert [len(page) for page in pages] == [50, 30]
    assert [row for page in pages for row in page] == expected


@pytest.mark.usefixtures("control")
def test_tasks_with_the_same_date_occur_on_exactly_one_page(operator):
    # The 25th task in the other partition has the same date as all tasks of this one.
    moment = START + dt.timedelta(hours=1, seconds=49)
    for n in range(30):
        verbs.create(kind="sleep", arguments={"seconds": 1}, urn=f"ours{n}", at=moment, made_by="vera")

    rows = [row for page in pages_of(operator, "/tasks/scheduled/") for row in page]

    ours, theirs = [f"ours{n}" for n in range(30)], [f"theirs{n}" for n in range(TASKS)]
    assert [name for name, _partition in rows] == [*theirs[:24], *ours, *theirs[24:]]


@pytest.mark.usefixtures("control")
def test_the_first_page_of_tasks_counts_tasks_of_all_partitions(operator):
    make_tasks("ours", offset=0)

    page = operator.get("/tasks/")

    screen = page.context["screen"]
    assert screen["postponed_count"] == str(2 * TASKS)
    assert {row["partition"] for row in screen["ended"]} == {"", "In partition b"}
    theirs = next(row for row in screen["due"] if row["partition"])
    assert theirs["address"].startswith("/partition/b/tasks/")
    assert theirs["acts"][0]["address"] == f"{theirs['address']}cancel/"
    assert "This page shows partition" not in page.content.decode()
    assert read_screen("tasks")["postponed_count"] == str(2 * TASKS)


@pytest.mark.usefixtures("control")
def test_templates_and_workers_of_all_partitions_are_listed(operator):
    templates = operator.get("/tasks/templates/").context["screen"]["templates"]

    assert operator.get("/tasks/workers/").status_code == 200
    assert read_screen("tasks-templates")["templates"] == templates
    assert read_screen("tasks-workers") == {"workers": [], "more": ""}


@pytest.mark.usefixtures("control")
def test_all_listed_tasks_are_changed_in_one_partition_at_a_time(operator):
    page = operator.get("/tasks/scheduled/?kind=sleep").content.decode()

    assert 'href="/partition/b/tasks/scheduled/cancel/?kind=sleep"' in page
    assert "Cancel all of these in partition b …" in page


@pytest.mark.usefixtures("silent")
def test_counts_of_tasks_without_a_partition_are_minimum_values(operator):
    make_tasks("ours", offset=0)

    page = operator.get("/tasks/")

    assert page.context["screen"]["postponed_count"] == f"at least {TASKS}"
    for address in ("/tasks/", "/tasks/scheduled/", "/tasks/archived/", "/tasks/templates/", "/tasks/workers/"):
        assert "Partition b does not answer." in operator.get(address).content.decode()


# --- Verdicts on running jobs --------------------------------------------------------------------


@pytest.fixture
def runs_everywhere(control, database, job):
    """
    Let the job run in this partition without documents, and in `b` with a next look in an hour and failing requests.
    """
    running = {"phase": "active", "run_no": 1, "started_at": START - dt.timedelta(hours=1)}
    due_at = START + dt.timedelta(hours=1)
    Job.objects.filter(pk=job.pk).update(**running)
    with database.as_django():
        Job.objects.filter(name="news").update(**running)
        theirs = Job.objects.get(name="news")
        LaneState.objects.filter(seed__job=theirs).update(ready_at=due_at)
        facts = {"job": theirs, "repository": theirs.repository, "activity": "fetch", "seconds": 0.1}
        Activity.objects.bulk_create(
            Activity(
                started_at=timezone.now() - dt.timedelta(seconds=number),
                entity="http://b.example/7",
                result_code="503",
                **facts,
            )
            for number in range(1, 9)
        )
    yield due_at
    with database.as_django():
        Job.objects.filter(name="news").update(phase="inactive", run_no=0)
        Activity.objects.all().delete()


@pytest.fixture
def nodes(connection):
    Main(connection)
    register_node(connection, "worker", name="our worker")


@pytest.mark.usefixtures("nodes")
def test_verdicts_combine_next_looks_and_failures_of_all_partitions(runs_everywhere, job):
    now = timezone.now()

    overview, page = read_overview(now=now), read_job_page(job.pk, now=now)

    for verdict in (overview.verdict.verdict, page.verdict):
        assert (verdict.cause, verdict.until) == (Cause.NOT_DUE, runs_everywhere)
        assert (verdict.failing.failed, verdict.failing.code) == (8, "503")
    assert overview.jobs[0].latest.is_failing


@pytest.mark.usefixtures("runs_everywhere", "nodes", "job")
def test_the_list_of_jobs_has_the_failures_of_all_partitions(operator):
    (row,) = operator.get("/jobs/").context["screen"]["jobs"]

    assert row["tone"] == "failed"


@pytest.mark.usefixtures("runs_everywhere", "nodes")
def test_stored_requests_and_rates_of_partitions_are_kept_apart(job, monkeypatch):
    monkeypatch.setattr("jobs.queries.hosts.latest_requests._FRESH", 60.0)
    monkeypatch.setattr("jobs.queries.hosts.latest_requests._STALEST", 60.0)
    monkeypatch.setattr("jobs.queries.hosts.latest_requests._READINGS", defaultdict(_Reading))

    theirs = read_in("b", lambda: read_first_jobs(now=timezone.now())[0])
    own = read_latest_requests(now=timezone.now())

    assert (theirs.name, theirs.latest.failed) == ("news", 8)
    assert (own.failing_hosts, own.job_ids) == ([], [])
    assert METER.history(theirs.id) == Meter().history(theirs.id)
