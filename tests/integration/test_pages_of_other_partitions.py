"""Proves that the control partition lists hosts, nodes, tasks and traps of all partitions, and links to their pages."""

import datetime as dt
import json
from io import StringIO

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from jobs.connectors.repository.freshness_goals import read_goals
from jobs.evidence.chain import NOTHING_BEFORE, Head, next_block
from jobs.evidence.coverage import OF_GAPS
from jobs.models import (
    Bin,
    EvidenceBlock,
    EvidenceChain,
    GoalTotal,
    Job,
    OutputVerification,
    PartitionedJob,
    TrapDecision,
    TrapSuspect,
)
from jobs.partitions import merged
from jobs.partitions.facts import send_fact
from jobs.partitions.placement import SLOTS, slot_of
from jobs.partitions.slots import KEY as MAP_KEY
from jobs.partitions.slots import SlotMap
from jobs.settings.partitions import PARTITION, PARTITIONS
from nodes.tasks import verbs
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_bin, make_job, make_lane
from tests.support.processes import copy_of
from tests.support.proxy import silent_database
from tests.support.tables import each_row

OURS = [f"host{n}.example" for n in range(0, 90, 3)]
THEIRS = [f"host{n}.example" for n in range(90) if n % 3]
STOPPED = {"stopped_at": NOON, "stopped_by": "vera", "stopped_why": "asked"}


# Number of suspects of traps in each partition. A page has 100.
SUSPECTS = 60


def make_suspects(job, host, number):
    """Make suspects of traps with these numbers."""
    usual = {"host": host, "rule": "x", "suspected_at": NOON, "run_no": 1}
    lists = {"samples": [], "new_samples": [], "proven": []}
    TrapSuspect.objects.bulk_create(
        TrapSuspect(pk=n, job=job, template=f"/{host}/{n}/*", **usual, **lists) for n in range(1, number + 1)
    )


GOALS = [{"pattern": ".*", "percent": 90, "within": 3600}]


def measure_freshness(job, *, documents, fresh):
    """Give a job a freshness goal, with measurements of these documents."""
    Job.objects.filter(pk=job.pk).update(freshness_goals=GOALS)
    measured = {"documents": documents, "fresh": fresh, "expected": fresh, "needs": 2, "gets": 1, "measured_at": NOON}
    GoalTotal.objects.create(job=job, goals=read_goals(GOALS).version, number=0, **measured)


def record_request(host):
    """Make the evidence of one minute of requests to a host."""
    EvidenceChain.objects.create(host=OF_GAPS, complete_until=NOON + dt.timedelta(hours=1))
    block = next_block(Head(0, NOTHING_BEFORE), {"minute": f"{NOON:%FT%R}Z"})
    chain = EvidenceChain.objects.create(host=host, seq=block.seq, hash=block.hash)
    stored = {"seq": block.seq, "content": block.content, "hash": block.hash}
    EvidenceBlock.objects.create(chain=chain, minute=NOON, appended_at=NOON, **stored)


@pytest.fixture(scope="module")
def database(template, django_db_blocker):
    """Return the database of partition `b`, with hosts whose ids are those of other hosts in `a`."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            make_job("of another number")
            job = make_job("news")
            PartitionedJob.objects.create(job=job, number=job.pk)
            for name in THEIRS:
                make_bin(name)
            make_lane(job.seeds.get(), "b.example")
            Bin.objects.filter(name=THEIRS[0]).update(**STOPPED)
            make_suspects(job, "b.example", SUSPECTS)
            with psycopg.connect(database.dsn, autocommit=True) as there:
                register_node(there, "worker", name="their worker")
            verbs.create(kind="sleep", arguments={"seconds": 1}, urn="theirs", made_by="vera")
            measure_freshness(job, documents=300, fresh=150)
            make_bin("recorded.example")
            record_request("recorded.example")
            OutputVerification.objects.create(output=job.outputs.get(), missing=7)
        yield database


@pytest.fixture
def job(connection):
    job = make_job("news")
    for name in OURS:
        make_bin(name)
    return job


@pytest.fixture
def control(connection, job, database, settings, monkeypatch):
    """Make this database the control partition, which has all hosts of `OURS`, and let it wait for `b`."""

    def control(address=database.dsn):
        values = {PARTITION.path: "a", PARTITIONS.path: ("a=postgresql://one/crawl", f"b={address}")}
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}

    monkeypatch.setattr(merged, "_silent_until", {})
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 30.0)
    names = ["b"] * SLOTS
    for name in OURS:
        names[slot_of(name)] = "a"
    owners = SlotMap(1, tuple(names)).as_json()
    send_fact(connection, "a", "a", MAP_KEY, owners)
    with psycopg.connect(database.dsn, autocommit=True) as there:
        there.execute("UPDATE jobs_partitionedjob SET number = %s", [job.pk])
        there.execute("DELETE FROM jobs_partitionfact")
        send_fact(there, "b", "b", MAP_KEY, owners)
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


def id_in_b(database, name):
    with psycopg.connect(database.dsn) as there:
        ((found,),) = there.execute("SELECT id FROM jobs_bin WHERE name = %s", [name]).fetchall()
    return found


# --- Hosts ---------------------------------------------------------------------------------------


def pages_of_hosts(client, address):
    """Yield the names and partitions of the rows of each page of a list."""
    while address:
        page = client.get(address)
        yield [(row["name"], row["partition"]) for row in page.context["screen"]["hosts"]]
        query = page.context.get("next_query")
        address = f"/hosts/?{query}" if query else ""


@pytest.mark.usefixtures("control")
def test_pages_of_hosts_are_merged_by_name(operator):
    found = list(pages_of_hosts(operator, "/hosts/?name=host"))

    assert [len(page) for page in found] == [50, len(OURS) + len(THEIRS) - 50]
    expected = sorted([(name, "") for name in OURS] + [(name, "In partition b") for name in THEIRS])
    assert [one for page in found for one in page] == expected


@pytest.mark.usefixtures("control")
def test_hosts_in_a_state_are_listed_one_partition_after_the_other(operator):
    Bin.objects.filter(name=OURS[5]).update(**STOPPED)

    ((own, other),) = pages_of_hosts(operator, "/hosts/?state=stopped")

    assert (own, other) == ((OURS[5], ""), (THEIRS[0], "In partition b"))
    assert THEIRS[0] in operator.get("/hosts/denied/").content.decode()


@pytest.mark.usefixtures("control")
def test_the_api_lists_the_hosts_of_all_partitions_in_bounded_pages(operator):
    address, rows, sizes = "/api/v1/hosts/?name=host&limit=40", [], []
    while address:
        page = operator.get(address).json()
        assert page["silent"] == []
        sizes.append(len(page["results"]))
        rows += [(row["name"], row["partition"]) for row in page["results"]]
        address = page["next"]

    assert sizes == [40, 40, 10]
    assert sorted(rows) == sorted([(name, "") for name in OURS] + [(name, "b") for name in THEIRS])


@pytest.mark.usefixtures("silent")
def test_local_hosts_are_shown_while_another_partition_is_silent(operator):
    page = operator.get("/hosts/?name=host")

    assert len(page.context["screen"]["hosts"]) == len(OURS)
    assert "Partition b does not answer." in page.content.decode()
    assert operator.get("/api/v1/hosts/?name=host").json()["silent"] == ["b"]


def test_a_host_of_another_partition_has_a_page_below_its_partition(control, database, operator):
    there = id_in_b(database, "b.example")

    page = operator.get(f"/partition/b/hosts/{there}/")

    text = page.content.decode()
    assert "This page shows partition b." in text
    assert "b.example" in text
    # The page leads back to the lists of all partitions. Its forms lead to partition b, and the page gets no live
    # updates of this partition.
    assert 'href="/hosts/"' in text
    assert f'href="/partition/b/hosts/{there}/stop/"' in text
    assert "data-topic" not in text


def test_a_host_of_another_partition_is_stopped_and_released_by_its_page(control, database, operator):
    address = f"/partition/b/hosts/{id_in_b(database, 'b.example')}/"

    stopped = operator.post(f"{address}stop/", {"reason": "asked"}, format="multipart")
    page = operator.get(stopped.headers["Location"]).content.decode()
    operator.post(f"{address}release/", format="multipart")

    assert stopped.headers["Location"] == address
    assert "b.example is stopped." in page
    assert operator.get("/partition/b/api/v1/hosts/?name=b.example").json()["results"][0]["stopped"] is None
    assert not Bin.objects.exclude(stopped_at=None).exists()


def test_the_role_of_a_user_holds_in_other_partitions(control, database):
    viewer, address = client_of("viewer"), f"/partition/b/hosts/{id_in_b(database, 'b.example')}/stop/"

    assert viewer.get(address).status_code == 403
    assert viewer.post("/partition/b/api/v1/hosts/1/stop/", {"reason": "x"}, format="json").status_code == 403


def test_the_api_reaches_a_host_of_another_partition(control, database, operator):
    address = f"/partition/b/api/v1/hosts/{id_in_b(database, 'b.example')}/"

    shown = operator.get(address)
    stopped = operator.post(f"{address}stop/", {"reason": "asked"}, HTTP_IF_MATCH=shown.headers["ETag"], format="json")
    released = operator.post(f"{address}release/", {}, format="json")

    assert (shown.json()["name"], shown.json()["partition"]) == ("b.example", "b")
    assert stopped.json()["stopped"]["by"] == "a operator"
    assert released.json()["stopped"] is None


@pytest.mark.usefixtures("control")
def test_a_host_stopped_by_name_is_stopped_in_its_own_partition(operator):
    wanted = {"name": "b.example", "reason": "asked", "confirm": True}

    stopped = operator.post("/api/v1/hosts/stop/", wanted, format="json").json()
    call_command("host", "b.example", "release", stdout=(out := StringIO()))

    assert (stopped["name"], stopped["partition"]) == ("b.example", "b")
    assert out.getvalue().startswith("b.example: ")
    assert out.getvalue().endswith("(partition b)\n")
    assert not Bin.objects.filter(name="b.example").exists()


@pytest.mark.usefixtures("silent")
def test_a_page_of_a_silent_partition_names_the_partition(operator, monkeypatch):
    monkeypatch.setattr(merged, "CHANGES_WITHIN", 1.0)

    page = operator.get("/partition/b/hosts/1/")

    assert page.status_code == 503
    assert "Partition b does not answer." in page.content.decode()
    assert_problem(operator.get("/partition/b/api/v1/hosts/1/"), 409, "partition_away")
    with pytest.raises(CommandError, match="Partition b does not answer"):
        call_command("host", "b.example", "release")


def test_links_to_pages_of_all_partitions_use_the_local_number_of_a_job(control, database, job, operator):
    with psycopg.connect(database.dsn) as there:
        ((number,),) = there.execute("SELECT job_id FROM jobs_partitionedjob").fetchall()

    page = operator.get(f"/partition/b/jobs/{number}/")
    documents = operator.get(f"/partition/b/documents/?job={number}&host=b.example")

    assert number != job.pk
    assert page.headers["Location"] == f"/jobs/{job.pk}/"
    assert documents.headers["Location"] == f"/documents/?job={job.pk}&host=b.example"


@each_row("address", ["/partition/b/settings/", "/partition/b/admin/auth/user/", "/partition/b/authorities/"])
@pytest.mark.usefixtures("control")
def test_set_up_pages_of_another_partition_are_not_shown(administrator, address):
    assert administrator.get(address).headers["Location"].startswith(("/settings/", "/admin/", "/authorities/"))


@each_row(
    "address", ["/partition/c/hosts/1/", "/partition/a/hosts/1/", "/partition/b/nothing/", "/partition/b/api/v1/jobs/"]
)
@pytest.mark.usefixtures("control")
def test_addresses_of_this_or_an_unknown_partition_are_not_found(operator, address):
    assert operator.get(address).status_code == 404


def test_pages_of_other_partitions_need_a_login(control, client):
    assert client.get("/partition/b/hosts/1/").headers["Location"].startswith("/login/")
    assert client.get("/partition/b/api/v1/hosts/1/").status_code == 401


def test_without_partitions_no_pages_of_other_partitions_exist(operator):
    assert operator.get("/partition/b/hosts/1/").status_code == 404


# --- Nodes and tasks -----------------------------------------------------------------------------


@pytest.mark.usefixtures("control")
def test_nodes_of_all_partitions_are_one_list(connection, operator):
    register_node(connection, "worker", name="our worker")

    page = operator.get("/nodes/")
    rows = operator.get("/api/v1/nodes/").json()["results"]

    shown = [(row["name"], row["partition"]) for row in page.context["screen"]["live"]]
    assert shown == [("our worker", ""), ("their worker", "In partition b")]
    assert {(row["name"], row["partition"]) for row in rows} == {("our worker", ""), ("their worker", "b")}


@pytest.mark.usefixtures("silent")
def test_a_list_of_nodes_names_the_partition_that_it_lacks(operator):
    assert "Partition b does not answer." in operator.get("/nodes/").content.decode()
    assert operator.get("/api/v1/nodes/").json()["silent"] == ["b"]


@pytest.mark.usefixtures("control")
def test_tasks_of_all_partitions_are_listed_and_shown_in_their_partition(operator):
    ours = verbs.create(kind="sleep", arguments={"seconds": 1}, urn="ours", made_by="vera")

    rows = operator.get("/api/v1/tasks/?limit=1").json()
    following = operator.get(rows["next"]).json()
    (theirs,) = following["results"]
    page = operator.get(f"/partition/b/tasks/{theirs['id']}/").content.decode()

    assert [(row["id"], row["urn"], row["partition"]) for row in rows["results"]] == [(ours.pk, "ours", "")]
    assert (theirs["urn"], theirs["partition"], following["next"]) == ("theirs", "b", None)
    assert "theirs" in page
    assert f'href="/partition/b/tasks/{theirs["id"]}/"' in operator.get("/tasks/").content.decode()


# --- Traps ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("control")
def test_pages_of_traps_have_the_suspects_of_one_partition_after_the_other(job, operator):
    make_suspects(job, "a.example", SUSPECTS)

    first = operator.get(f"/traps/?job={job.pk}")
    second = operator.get(f"/traps/?{first.context['next_query']}")

    shown = [(row["host"], row["partition"]) for page in (first, second) for row in page.context["rows"]]
    assert len(first.context["rows"]) == 100
    assert shown == [("a.example", "")] * SUSPECTS + [("b.example", "b")] * SUSPECTS
    assert {row["job_address"] for row in second.context["rows"]} == {f"/jobs/{job.pk}/"}


@pytest.mark.usefixtures("control")
def test_a_suspect_of_another_partition_can_be_released_and_opened_again(operator):
    released = operator.post("/partition/b/api/v1/trap-suspects/7/release/", {}, format="json").json()["suspect"]
    call_command("trap", "undo", "b:7", stdout=(undone := StringIO()))
    call_command("trap", "list", stdout=(listed := StringIO()))

    assert (released["decision"], released["partition"]) == (TrapDecision.RELEASED, "b")
    assert "The suspect is open again." in undone.getvalue()
    assert "b:7: b.example /b.example/7/*" in listed.getvalue()


# --- Freshness, verifications, evidence --------------------------------------------------------------------


@pytest.mark.usefixtures("control")
def test_freshness_goals_count_the_documents_of_all_partitions(job, operator):
    measure_freshness(job, documents=100, fresh=90)

    found = operator.get(f"/api/v1/jobs/{job.pk}/freshness/").json()
    call_command("freshness", "news", stdout=(output := StringIO()))
    page = operator.get(f"/jobs/{job.pk}/")

    (goal,) = found["goals"]
    assert (goal["documents"], goal["achieved"], goal["needs"], found["silent"]) == (400, 0.6, 4.0, [])
    assert "60 % of 400 documents are fresh" in output.getvalue()
    assert page.context["screen"]["freshness"][0]["documents"] == "400"


@pytest.mark.usefixtures("silent")
def test_freshness_figures_that_lack_a_partition_name_the_partition(job, operator):
    measure_freshness(job, documents=100, fresh=90)

    found = operator.get(f"/api/v1/jobs/{job.pk}/freshness/").json()

    assert (found["goals"][0]["documents"], found["silent"]) == (100, ["b"])


@pytest.mark.usefixtures("control")
def test_verifications_of_all_partitions_are_listed_with_local_outputs(job, operator):
    (found,) = operator.get("/api/v1/verifications/").json()["results"]
    there = operator.get(f"/partition/b/api/v1/verifications/{found['id']}/").json()

    assert (found["output"], found["partition"], found["missing"]) == (job.outputs.get().pk, "b", 7)
    assert (there["partition"], there["missing"]) == ("b", 7)


@pytest.mark.usefixtures("control")
def test_evidence_of_another_partition_is_exported_by_the_command_and_the_api(database, operator):
    call_command("evidence", "export", "recorded.example", "--partition", "b", stdout=(output := StringIO()))
    file = operator.get(f"/partition/b/api/v1/hosts/{id_in_b(database, 'recorded.example')}/evidence/file/")

    header, block = output.getvalue().splitlines()
    assert json.loads(header)["partition"] == "b"
    assert f"{NOON:%FT%R}Z" in block
    assert async_to_sync(text_of)(file) == output.getvalue()
    with pytest.raises(CommandError, match="Partition c does not exist"):
        call_command("evidence", "export", "recorded.example", "--partition", "c")


async def text_of(response):
    return "".join([chunk.decode() async for chunk in response])
