"""Proves that pages and the API of the control partition show data of all partitions, and name silent partitions."""

import datetime as dt
import threading
import time
from io import StringIO
from itertools import pairwise

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import DataError
from django.db import connection as django_connection
from django.db.models.functions import Now

from crawlctl.languages import speaking
from jobs.api import cluster_metrics
from jobs.attention import all_partitions as attention
from jobs.connectors.repository.base import hash_of as address_hash
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import RunEnd
from jobs.models import (
    FailureGroup,
    IndexedDocument,
    Job,
    JobCounter,
    Outcome,
    OutputConnection,
    PartitionedJob,
    QueueItem,
    Run,
)
from jobs.notices import verbs as notices
from jobs.notices.channels.signing import new_secret
from jobs.notices.checking import check_notices
from jobs.notices.models import NotificationCondition, NotificationMessage, NotificationRule
from jobs.partitions import merged
from jobs.partitions.facts import send_fact
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import ANSWERS_WITHIN, change_in, read_everywhere, read_in
from jobs.partitions.placement import SLOTS, slot_of
from jobs.partitions.slots import KEY as MAP_KEY
from jobs.partitions.slots import SlotMap
from jobs.queries.documents import failures
from jobs.queries.documents.all_partitions import list_documents_everywhere, read_story_everywhere
from jobs.queries.documents.lists import A_PAGE, DocumentFilter
from jobs.settings.partitions import PARTITION, PARTITIONS
from nodes.tasks.context import TaskContext
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_documents, make_job, make_lane
from tests.support.partitions import be_partition
from tests.support.processes import copy_of
from tests.support.proxy import Proxy, silent_database
from tests.support.tables import each_row

HERE, THERE = 30, 45
ENDED = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200", "fetched_at": NOON}
RUN = {"run_no": 1, "started_at": NOON, "ended_at": NOON, "run_end": RunEnd.FINISHED}


def make_failures(job, lane, *, documents):
    """
    Make three groups of failures and this number of failed documents. Two of the groups were last seen at the same
    moment.
    """
    for number, last_at in enumerate((NOON, NOON, NOON - dt.timedelta(hours=1)), 1):
        seen = {"first_at": NOON - dt.timedelta(days=1), "last_at": last_at}
        FailureGroup.objects.create(
            pk=number, job=job, bin=lane.bin, code=f"50{number}", times=number, sample=hash_of("gone"), **seen
        )
    failed = {"measure": "stage", "stage": Stage.DONE, "outcome": Outcome.FAILED, "code": "501"}
    JobCounter.objects.create(job_id=job.pk, run_no=job.run_no, amount=documents, **failed)


@pytest.fixture
def job(connection):
    """Return a job of the control partition, with its documents here."""
    job = make_job("news")
    lane = make_lane(job.seeds.get(), "a.example")
    make_documents(lane, [f"a{n}" for n in range(HERE)], depth=1, **ENDED)
    make_failures(job, lane, documents=2)
    Run.objects.create(job=job, **RUN, indexed=HERE, failed=2)
    return job


@pytest.fixture(scope="module")
def database(template, django_db_blocker):
    """Return the database of partition `b`, with the other documents of the job. In `b`, the job has another id."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            OutputConnection.objects.create(name="of another number", connector="null")
            make_job("of another number")
            other = make_job("news")
            PartitionedJob.objects.create(job=other, number=other.pk)
            lane = make_lane(other.seeds.get(), "b.example")
            make_documents(lane, [f"b{n}" for n in range(THERE)], depth=2, **ENDED)
            make_failures(other, lane, documents=3)
            Run.objects.create(job=other, **RUN, indexed=THERE, failed=3)
            held = {"hash": hash_of("b3"), "version": "1", "indexed_at": NOON}
            IndexedDocument.objects.create(output=other.outputs.get(), **held)
            QueueItem.objects.filter(hash=hash_of("b3")).update(indexed_before=True)
            Job.objects.filter(pk=other.pk).update(run_end=RunEnd.ERROR, reason="The disk is full", ended_at=Now())
            QueueItem.objects.filter(identifier="http://b.example/b0").update(hash=address_hash("http://b.example/b0"))
        yield database


@pytest.fixture
def control(job, database, settings):
    """Make this database the control partition, and return a function that gives `b` another address."""

    def control(address=database.dsn):
        values = {PARTITION.path: "a", PARTITIONS.path: ("a=postgresql://one/crawl", f"b={address}")}
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}

    with psycopg.connect(database.dsn, autocommit=True) as partition_b:
        partition_b.execute("UPDATE jobs_partitionedjob SET number = %s", [job.pk])
    control()
    return control


@pytest.fixture
def silent(control, database):
    """Make partition `b` silent: put a proxy in front of it that holds all bytes."""
    with silent_database(database.dsn, given_to=control):
        yield


@pytest.fixture(autouse=True)
def without_caches(monkeypatch):
    """Clear the caches of silent partitions and of answers that other tests filled."""
    monkeypatch.setattr(merged, "_silent_until", {})
    monkeypatch.setattr(attention, "_cached", HeldAnswers(attention._read_elsewhere))


def pages(**wanted):
    """Yield all pages of a list in order."""
    after = None
    while True:
        found = list_documents_everywhere(DocumentFilter(after=after, **wanted))
        yield found
        after = found.next_key
        if after is None:
            return


def test_pages_of_a_list_merge_the_documents_of_all_partitions(control, job):
    found = list(pages(job_id=job.pk))

    assert [len(page.lines) for page in found] == [A_PAGE, HERE + THERE - A_PAGE]
    lines = [one for page in found for one in page.lines]
    assert all(before.line.hash < after.line.hash for before, after in pairwise(lines))
    assert {one.line.job_id for one in lines} == {job.pk}
    assert {(one.partition, one.line.host) for one in lines} == {("", "a.example"), ("b", "b.example")}


def test_documents_of_all_partitions_are_ordered_together(control, job):
    lines = [one.line for page in pages(job_id=job.pk, sort="-depth") for one in page.lines]

    assert [line.depth for line in lines] == [2] * THERE + [1] * HERE


def test_a_document_is_read_from_the_partition_that_has_it(control, job):
    story = read_story_everywhere(job_id=job.pk, document=hash_of("b3"), now=NOON)

    assert (story.item.identifier, story.item.job_id, story.job.pk) == ("http://b.example/b3", job.pk, job.pk)


def test_documents_of_another_partition_can_be_selected_for_an_operation(control, job):
    page = client_of("operator").get(f"/documents/?job={job.pk}&host=b.example").content.decode()

    assert page.count("In partition b") == page.count('name="document"') == THERE


# --- Documents in the API ------------------------------------------------------------------------


@pytest.fixture
def viewer(connection):
    return client_of("viewer")


def rows_of(client, address):
    """Yield the rows of all pages of a list."""
    while address:
        page = client.get(address).json()
        assert page["silent"] == []
        yield from page["results"]
        address = page["next"]


@pytest.mark.usefixtures("control", "long_wait")
def test_the_api_lists_the_documents_of_all_partitions(viewer, job):
    rows = list(rows_of(viewer, f"/api/v1/documents/?job={job.pk}&limit=20"))

    assert len(rows) == HERE + THERE
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert {(row["partition"], row["host"]) for row in rows} == {("", "a.example"), ("b", "b.example")}


@pytest.mark.usefixtures("control", "long_wait")
def test_the_api_orders_the_documents_of_all_partitions_by_a_value(viewer, job):
    rows = rows_of(viewer, f"/api/v1/documents/?job={job.pk}&ordering=-depth&limit=40")

    assert [row["depth"] for row in rows] == [2] * THERE + [1] * HERE


@pytest.mark.usefixtures("control", "long_wait")
def test_a_document_of_another_partition_is_shown_with_the_local_ids(viewer, job):
    (listed,) = viewer.get("/api/v1/documents/?url=http://b.example/b0").json()["results"]
    shown = viewer.get(f"/api/v1/documents/{job.pk}-{hash_of('b3').hex}/").json()

    assert (listed["job"], listed["partition"]) == (job.pk, "b")
    assert (shown["job"], shown["seed"], shown["partition"]) == (job.pk, job.seeds.get().pk, "b")
    assert [(held["output"], held["name"]) for held in shown["held_by"]] == [(job.outputs.get().pk, "null")]


def test_the_api_names_a_silent_partition(silent, viewer):
    page = viewer.get("/api/v1/documents/?limit=50").json()

    assert (len(page["results"]), page["silent"]) == (HERE, ["b"])


def test_reads_in_another_partition_cannot_write(control):
    def write(_name):
        PartitionedJob.objects.update(round_no=1)

    assert [one.name for one in read_everywhere(lambda: None, write).silent] == ["b"]


def test_a_silent_partition_is_named_with_the_age_of_its_figures(silent, connection, job):
    send_fact(connection, "b", "a", "life:all", {})
    connection.execute("UPDATE jobs_partitionfact SET sent_at = now() - interval '10 minutes'")

    page = client_of("viewer").get("/documents/").content.decode()

    assert "Partition b does not answer. Its part is missing here. Its last figures came 10 min ago." in page
    assert page.count("http://a.example/") >= HERE


def test_after_one_wait_a_silent_partition_is_not_asked_for_a_while(silent):
    began_at = time.monotonic()
    assert list_documents_everywhere(DocumentFilter()).silent
    assert time.monotonic() - began_at < 2 * ANSWERS_WITHIN
    began_at = time.monotonic()

    assert list_documents_everywhere(DocumentFilter()).silent

    assert time.monotonic() - began_at < ANSWERS_WITHIN / 2


def test_an_error_of_a_query_in_another_partition_is_raised(control):
    def fail(_name):
        raise LookupError("nothing")

    with pytest.raises(LookupError):
        read_everywhere(lambda: None, fail)


def run_in_b(statement):
    with django_connection.cursor() as cursor:
        cursor.execute(statement)


@each_row("ask", [read_in, change_in])
def test_an_error_of_a_statement_in_another_partition_is_raised_with_its_name(control, ask):
    with pytest.raises(DataError) as raised:
        ask("b", lambda: run_in_b("SELECT 1 / 0"))

    assert raised.value.__notes__ == ["This is an error of a call to partition b."]


def test_a_partition_with_tables_of_another_version_is_named_as_silent(control):
    found = read_everywhere(lambda: None, lambda _name: run_in_b("SELECT FROM jobs_of_tomorrow"))

    assert [one.name for one in found.silent] == ["b"]


# --- Failures ------------------------------------------------------------------------------------

# Expected order of the groups: the group that was seen last comes first. If groups of both partitions have the same
# time, the groups of `a` come first.
GROUPS = [("", 2), ("", 1), ("b", 2), ("b", 1), ("", 3), ("b", 3)]


@each_row("size", [1, 2, 4])
@pytest.mark.usefixtures("control", "long_wait")
def test_pages_of_failures_merge_the_groups_of_all_partitions(monkeypatch, viewer, job, size):
    monkeypatch.setattr(failures, "A_PAGE", size)
    query, rows = f"job={job.pk}", []
    while query:
        page = viewer.get(f"/failures/?{query}")
        rows += page.context["rows"]
        query = page.context["next_query"]

    assert [(row["partition"], row["code"]) for row in rows] == [(name, f"50{number}") for name, number in GROUPS]
    assert {row["job_address"] for row in rows} == {f"/jobs/{job.pk}/"}
    assert {row["host_address"].startswith("/partition/b/hosts/") == (row["partition"] == "b") for row in rows} == {
        True
    }


@each_row("size", [1, 2, 4])
@pytest.mark.usefixtures("control", "long_wait")
def test_the_api_lists_the_failures_of_all_partitions(viewer, job, size):
    rows = list(rows_of(viewer, f"/api/v1/failures/?job={job.pk}&limit={size}"))

    assert [(row["partition"], row["id"]) for row in rows] == GROUPS
    assert {row["job"] for row in rows} == {job.pk}


@pytest.mark.usefixtures("control", "long_wait")
def test_failed_documents_of_a_cause_are_summed_over_all_partitions(viewer):
    (cause,) = viewer.get("/failures/").context["causes"]

    assert (cause["code"], cause["documents"]) == ("501", "5 documents")


def test_failure_counts_without_a_partition_are_marked_as_incomplete(silent, viewer):
    page = viewer.get("/failures/")

    assert "Partition b does not answer." in page.content.decode()
    assert [cause["documents"] for cause in page.context["causes"]] == ["at least 2 documents"]
    assert viewer.get("/api/v1/failures/").json()["silent"] == ["b"]


# --- Runs ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("control", "long_wait")
def test_a_run_has_the_counts_of_all_partitions(viewer, job):
    run = job.runs.get()
    (listed,) = viewer.get("/runs/").context["rows"]
    shown = viewer.get(f"/runs/{run.pk}/").context["row"]
    (row,) = viewer.get("/api/v1/runs/").json()["results"]

    assert {row["processed"] for row in (listed, shown)} == {str(HERE + THERE + 5)}
    assert (row["indexed"], row["failed"], row["silent"]) == (HERE + THERE, 5, [])
    assert viewer.get(f"/api/v1/runs/{run.pk}/").json() == row


@pytest.mark.usefixtures("control", "long_wait")
def test_the_api_adds_the_counts_of_the_present_run_in_all_partitions(viewer, job):
    counts = viewer.get(f"/api/v1/jobs/{job.pk}/counts/").json()

    assert (counts["failed"], counts["processed"], counts["result_codes"]) == (5, 5, {"501": 5})
    assert counts["silent"] == []


def test_the_api_names_a_partition_whose_counts_are_missing(silent, viewer, job):
    counts = viewer.get(f"/api/v1/jobs/{job.pk}/counts/").json()

    assert (counts["failed"], counts["silent"]) == (2, ["b"])


def test_a_run_that_lacks_the_counts_of_a_partition_names_the_partition(silent, viewer, job):
    for address in ("/runs/", f"/runs/{job.runs.get().pk}/"):
        assert "The true counts may be higher: partition b" in viewer.get(address).content.decode()
    (row,) = viewer.get("/api/v1/runs/").json()["results"]
    assert (row["indexed"], row["silent"]) == (HERE, ["b"])


# --- Attention -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("control", "long_wait")
def test_attention_lines_of_another_partition_link_to_local_pages(viewer, job):
    lines = viewer.get("/api/v1/attention/").json()["results"]
    (line,) = [one for one in lines if one["kind"] == "job_fails"]

    assert (line["partition"], line["key"], line["link"]) == ("b", str(job.pk), f"/jobs/{job.pk}/")
    assert (
        line["sentence"] == "The last run of the job failed: The disk is full. Repair the cause, then start it again."
    )
    assert f"{line['sentence']} (partition b)" in viewer.get("/").content.decode()
    with pytest.raises(CommandError):
        call_command("status", stdout=(out := StringIO()))
    assert "partition b: news: The last run of the job failed" in out.getvalue()


@pytest.mark.usefixtures("control", "long_wait")
def test_attention_lines_of_another_partition_have_the_readers_language():
    with speaking("de"):
        (line,) = [one for one in attention.read_attention_everywhere(now=NOON) if one.kind == "job_fails"]

    assert line.sentence.startswith("Der letzte Lauf")


def test_a_silent_partition_needs_attention_and_delays_no_open_page(silent, viewer):
    lines = viewer.get("/api/v1/attention/").json()["results"]
    attention.read_attention_for_open_page(now=NOON)
    attention._cached._answers["en"].read_at -= 10
    began_at = time.monotonic()
    shown = attention.read_attention_for_open_page(now=NOON)

    assert time.monotonic() - began_at < ANSWERS_WITHIN / 2
    assert [one["key"] for one in lines if one["kind"] == "partition_silent"] == ["b"]
    assert [one.key for one in shown if one.kind == "partition_silent"] == ["b"]


@pytest.mark.usefixtures("control")
def test_a_page_that_is_opened_later_shows_no_old_answers_of_a_partition():
    answers = iter(["old", "new"])
    held = HeldAnswers(lambda _name: next(answers))
    assert held.answers().with_own("own").others == {"b": "old"}

    held._answers["en"].read_at -= 3600

    assert held.answers().with_own("own").others == {"b": "new"}


@pytest.mark.usefixtures("control")
def test_an_open_page_shows_a_change_in_another_partition_immediately():
    answers = iter(["stopped", "released"])
    held = HeldAnswers(lambda _name: next(answers))
    assert held.answers().with_own("own").others == {"b": "stopped"}

    change_in("b", lambda: None)

    assert held.answers().with_own("own").others == {"b": "released"}


@pytest.mark.usefixtures("control")
def test_an_open_page_ignores_answers_to_queries_from_before_a_change():
    begins, goes_on, answers = threading.Event(), threading.Event(), iter(["stopped", "released"])

    def read(_name):
        answer = next(answers)
        begins.set()
        assert goes_on.wait(10)
        return answer

    held = HeldAnswers(read)
    held.renew()
    assert begins.wait(10)
    change_in("b", lambda: None)
    goes_on.set()

    assert held.answers().with_own("own").others == {"b": "released"}


# --- Notifications, and the metric ---------------------------------------------------------------


@pytest.fixture
def rule(connection):
    """
    Return a rule about failing jobs and silent partitions. Its channel is never used. `b` has just sent a sign of life.
    """
    send_fact(connection, "b", "a", "life:all", {})
    hook = {"url": "http://127.0.0.1:9/hook", "secret": new_secret()}
    channel = notices.create_channel(name="hook", kind="webhook", configuration=hook, made_by="vera")
    topics = ["job_fails", "partition_silent"]
    return notices.create_rule(name="rule", channels=[channel.pk], topics=topics, made_by="vera")


def subjects_after_a_check():
    check_notices(TaskContext(task=1, group="generic"), {})
    return list(NotificationMessage.objects.order_by("pk").values_list("subject", flat=True))


@pytest.mark.usefixtures("control", "long_wait", "rule")
def test_a_condition_of_another_partition_makes_one_message_with_its_name():
    assert subjects_after_a_check() == subjects_after_a_check() == ["A job fails: news"]

    assert "(partition b)" in NotificationMessage.objects.get().text


@pytest.mark.usefixtures("rule")
def test_conditions_of_a_partition_do_not_end_because_it_is_silent(control, database, monkeypatch):
    with monkeypatch.context() as patient:
        patient.setattr(merged, "ANSWERS_WITHIN", 30.0)
        subjects_after_a_check()
    with Proxy.of_database(database.dsn) as proxy:
        control(proxy.dsn(database.dsn))
        proxy.cut()
        found = subjects_after_a_check()

    assert found == ["A job fails: news", "A partition does not answer: b"]
    assert not NotificationCondition.objects.exclude(missing_since=None, ended_at=None).exists()


@pytest.mark.usefixtures("control", "long_wait", "rule")
def test_a_rule_for_a_job_reports_the_job_in_another_partition(job):
    NotificationRule.objects.update(job=job)

    assert subjects_after_a_check() == ["A job fails: news"]


def test_only_the_control_partition_sends_messages_about_conditions(rule, job, settings):
    be_partition(settings, "b")
    Job.objects.filter(pk=job.pk).update(run_end=RunEnd.ERROR, reason="The disk is full", ended_at=Now())

    assert subjects_after_a_check() == []
    page = client_of("administrator").get("/notifications/").content.decode()
    assert "The control partition, a, sends messages about the conditions of all partitions." in page


@pytest.mark.usefixtures("control", "long_wait")
def test_the_metric_counts_each_line_of_the_attention_list_once():
    assert cluster_metrics._count_attention(NOON)["job_fails", "b"] == 1


def test_the_metric_names_a_silent_partition_only_in_the_control_partition(silent, settings):
    assert cluster_metrics._count_attention(NOON)["partition_silent", "b"] == 1
    be_partition(settings, "b")
    assert cluster_metrics._count_attention(NOON) == {}


# --- Explain -------------------------------------------------------------------------------------


@pytest.fixture
def owners(control, connection):
    """Give all hosts except `a.example` to partition `b`."""
    names = ["b"] * SLOTS
    names[slot_of("a.example")] = "a"
    send_fact(connection, "a", "a", MAP_KEY, SlotMap(1, tuple(names)).as_json())


@pytest.fixture
def long_wait(monkeypatch):
    """Set a long limit of the wait for an answer, since the machine may be busy."""
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 30.0)


@pytest.mark.usefixtures("owners", "long_wait")
def test_an_address_is_explained_by_the_partition_that_has_its_host(job):
    found = client_of("operator").get("/api/v1/explain/?url=http://b.example/b0").json()

    assert (found["partition"], found["silent"], found["is_known"]) == ("b", [], True)
    assert [one["job"] for one in found["jobs"]] == [job.pk]
    assert found["jobs"][0]["document"] == f"{job.pk}-{address_hash('http://b.example/b0')}"


@pytest.mark.usefixtures("owners", "long_wait")
def test_an_explanation_of_another_partition_has_only_buttons_that_work():
    page = client_of("operator").get("/explain/?url=http://b.example/b0").content.decode()

    assert "Partition b has this address, and explains it." in page
    assert "Fetch again now" in page
    assert "Fetch this branch again" not in page
    assert "/hosts/" not in page.partition("<main")[2]


def test_an_address_of_this_partition_is_explained_without_other_partitions(owners, silent):
    QueueItem.objects.filter(identifier="http://a.example/a0").update(hash=address_hash("http://a.example/a0"))

    found = client_of("operator").get("/api/v1/explain/?url=http://a.example/a0").json()

    assert (found["partition"], found["silent"], found["is_known"]) == ("", [], True)


def test_a_silent_partition_of_a_host_is_named(owners, silent):
    page = client_of("operator").get("/explain/?url=http://b.example/b0").content.decode()

    assert "Partition b does not answer." in page
    assert "No job of this partition knows this address." in page


# --- Operations on documents ---------------------------------------------------------------------


@pytest.fixture
def partition_b(database, control):
    """Return a connection to `b`. After the test, the job and the documents of `b` are as before."""
    with psycopg.connect(database.dsn, autocommit=True) as partition_b:
        partition_b.execute("UPDATE jobs_queueitem SET run_no = (SELECT run_no FROM jobs_job WHERE name = 'news')")
        yield partition_b
        partition_b.execute("DELETE FROM jobs_counterdelta")
        partition_b.execute("DELETE FROM jobs_jobevent")
        partition_b.execute(
            "UPDATE jobs_queueitem SET stage = %s, outcome = %s, result_code = '200'", [Stage.DONE, Outcome.INDEXED]
        )


def stage_in_b(partition_b, name):
    ((stage,),) = partition_b.execute("SELECT stage FROM jobs_queueitem WHERE hash = %s", [hash_of(name)]).fetchall()
    return Stage(stage)


def events(connection):
    return connection.execute("SELECT kind, made_by, message FROM jobs_jobevent WHERE kind <> 'created'").fetchall()


@pytest.mark.usefixtures("long_wait")
def test_a_document_of_another_partition_can_be_requested_again(partition_b, connection, job):
    wanted = {"document": f"{job.pk}-{hash_of('b3').hex}"}
    done = client_of("operator").post("/api/v1/explain/fetch-again/", wanted, format="json")

    assert done.json() == {"url": "http://b.example/b3", "job": job.pk, "partition": "b"}
    assert stage_in_b(partition_b, "b3") == Stage.PENDING
    message = "http://b.example/b3 is to be fetched again"
    assert events(partition_b) == [("fetch again", "a operator", message)]
    assert events(connection) == [("fetch again", "a operator", f"{message} (partition b)")]


@pytest.mark.usefixtures("long_wait")
def test_an_operation_is_refused_with_the_reason_of_the_other_partition(partition_b, job):
    document = {"job": job.pk, "document": hash_of("b3").hex, "url": "http://b.example/b3"}
    page = client_of("administrator").post("/explain/forget/", document, format="multipart", follow=True)

    assert page.request["QUERY_STRING"].startswith("url=http%3A%2F%2Fb.example%2Fb3")
    assert "The document is kept: an output may hold it" in page.content.decode()
    assert stage_in_b(partition_b, "b3") == Stage.DONE


def test_a_document_of_a_silent_partition_is_not_reported_as_unknown(silent, job, monkeypatch):
    monkeypatch.setattr(merged, "CHANGES_WITHIN", 0.5)
    wanted = {"document": f"{job.pk}-{hash_of('b3').hex}"}

    refused = client_of("operator").post("/api/v1/explain/fetch-again/", wanted, format="json")

    assert_problem(refused, 409, "partition_away")
    assert "partition b" in refused.json()["detail"]


@pytest.mark.usefixtures("long_wait")
def test_failed_documents_are_retried_in_all_partitions(partition_b, job):
    failed = {"stage": Stage.DONE, "outcome": Outcome.FAILED, "result_code": "501"}
    QueueItem.objects.filter(identifier="http://a.example/a0").update(run_no=job.run_no, **failed)
    partition_b.execute(
        "UPDATE jobs_queueitem SET outcome = %s, result_code = '501' WHERE hash = ANY(%s)",
        [Outcome.FAILED, [hash_of("b3"), hash_of("b4")]],
    )

    done = client_of("operator").post(f"/api/v1/jobs/{job.pk}/send-back/", {}, format="json").json()

    assert done == {"documents": 3, "has_more": False, "left_out": []}
    assert stage_in_b(partition_b, "b3") == Stage.PENDING


def test_a_partition_that_cannot_retry_failed_documents_is_named(silent, job, monkeypatch):
    monkeypatch.setattr(merged, "CHANGES_WITHIN", 0.5)

    with pytest.raises(CommandError, match="Nothing was done in partition b: no answer"):
        call_command("job", "news", "send-back")


# --- What only the partition of a host can do, or show -------------------------------------------


def test_an_operation_on_a_host_that_has_moved_away_is_refused(owners, job):
    left, client = make_lane(job.seeds.get(), "moved.example").bin, client_of("administrator")

    for operation, body in (("stop", {"reason": "its owner asked"}), ("release", {}), ("end-back-off", {})):
        refused = client.post(f"/api/v1/hosts/{left.pk}/{operation}/", body, format="json")
        assert_problem(refused, 409, "host_elsewhere")


@pytest.fixture
def administrator(connection):
    return client_of("administrator")


@each_row("address", ["/tasks/run/", "/cluster/jobs/", "/settings/", "/admin/jobs/queueitem/"])
@pytest.mark.usefixtures("control", "long_wait")
def test_a_page_of_one_partition_names_this_partition(administrator, address):
    page = administrator.get(address).content.decode()

    assert "This page shows partition a only." in page


@each_row(
    "address",
    [
        *("/", "/documents/", "/jobs/", "/jobs/deleted/", "/hosts/", "/hosts/denied/", "/nodes/", "/traps/"),
        *("/reports/history/", "/exports/", "/archive/verification/"),
        *("/cluster/", "/cluster/history/", "/tasks/", "/tasks/archived/"),
    ],
)
@pytest.mark.usefixtures("control", "long_wait")
def test_a_page_of_all_partitions_does_not_claim_to_show_only_one(administrator, address):
    assert "This page shows partition" not in administrator.get(address).content.decode()


def test_pages_with_one_database_name_no_partition(viewer):
    assert "This page shows partition" not in viewer.get("/tasks/").content.decode()
