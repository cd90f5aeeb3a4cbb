"""Proves that an operation on many documents, started in the control partition, changes documents of all partitions."""

import psycopg
import pytest
from django.core.management import call_command

from jobs.bulk import kinds, other_partitions, verbs
from jobs.bulk.models import BulkOperation
from jobs.lifecycle.document import Stage
from jobs.models import Outcome, PartitionedJob, QueueItem
from jobs.partitions import merged
from jobs.settings.partitions import PARTITION, PARTITIONS
from nodes.tasks.context import TaskContext
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_job, make_lane
from tests.support.processes import copy_of
from tests.support.proxy import Proxy

HERE, THERE = 2, 3
FAILED = {"stage": Stage.DONE, "outcome": Outcome.FAILED, "result_code": "500", "fetched_at": NOON}


@pytest.fixture
def job(connection):
    job = make_job("news")
    make_documents(make_lane(job.seeds.get(), "a.example"), HERE, **FAILED)
    return job


@pytest.fixture
def database(template, job, django_db_blocker):
    """Return the database of partition `b`, where the job has another number."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            make_job("of another number")
            other = make_job("news")
            PartitionedJob.objects.create(job=other, number=job.pk)
            make_documents(make_lane(other.seeds.get(), "b.example"), ["x", "y", "z"], **FAILED)
        yield database


def be_control(settings, monkeypatch, address):
    values = {PARTITION.path: "a", PARTITIONS.path: ("a=postgresql://one/crawl", f"b={address}")}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}
    monkeypatch.setattr(merged, "_silent_until", {})


@pytest.fixture
def control(database, settings, monkeypatch):
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 30.0)
    be_control(settings, monkeypatch, database.dsn)


@pytest.fixture
def proxy(database, settings, monkeypatch):
    """Return the proxy to partition `b`, which a test may cut."""
    monkeypatch.setattr(merged, "CHANGES_WITHIN", 1.0)
    with Proxy.of_database(database.dsn) as proxy:
        be_control(settings, monkeypatch, proxy.dsn(database.dsn))
        yield proxy


def may(_permission):
    return True


def begin(job):
    return verbs.start(verbs.preview("retry", job.pk, {}, may=may).token, may=may, made_by="vera")


def work(operation, **facts):
    """Run the task of an operation. Return the operation, read again from the database."""
    kinds.carry_out(TaskContext(task=operation.task, group="generic", **facts), {})
    operation.refresh_from_db()
    return operation


def work_in_b(database, monkeypatch, key):
    """Run the task of the operation's part in partition `b`, as a task worker of `b` does."""
    with database.as_django(), monkeypatch.context() as there:
        there.setattr(kinds, "database_dsn", lambda: database.dsn)
        work(BulkOperation.objects.get(key=key))


def stages(database):
    with psycopg.connect(database.dsn) as there:
        return {stage for (stage,) in there.execute("SELECT stage FROM jobs_queueitem")}


@pytest.mark.usefixtures("control")
def test_previews_and_operations_cover_documents_of_all_partitions(job, database, monkeypatch):
    shown = verbs.preview("retry", job.pk, {}, may=may)
    made = verbs.start(shown.token, may=may, made_by="vera")
    assert other_partitions.begin(made) == other_partitions.begin(made) == []
    work_in_b(database, monkeypatch, made.key)
    done = work(made)

    assert (shown.documents, {one.partition for one in shown.examples}) == (HERE + THERE, {"", "b"})
    progress = verbs.progress_of(done)
    assert (verbs.state_of(done), progress.shown, progress.changed) == ("done", HERE + THERE, HERE + THERE)
    assert set(QueueItem.objects.values_list("stage", flat=True)) == stages(database) == {Stage.PENDING}


@pytest.mark.usefixtures("control")
def test_the_journal_of_each_partition_has_its_part_of_an_operation(job, database, connection):
    other_partitions.begin(begin(job))

    query = "SELECT made_by, message FROM jobs_jobevent WHERE kind = 'bulk operation'"
    assert [row[1].partition(" was")[0] for row in connection.execute(query)] == ["retry of 5 documents"]
    with psycopg.connect(database.dsn) as there:
        ((made_by, message),) = there.execute(query).fetchall()
    assert (made_by, message.partition(" was")[0]) == ("vera", "retry of 3 documents")


@pytest.mark.usefixtures("control")
def test_an_operation_that_is_cancelled_ends_in_all_partitions(job, database):
    made = begin(job)
    other_partitions.begin(made)
    other_partitions.cancel_all(made.pk, may=may, made_by="vera")

    with database.as_django():
        assert verbs.state_of(BulkOperation.objects.get(key=made.key)) == "ended early"
    assert stages(database) == {Stage.DONE}


@pytest.mark.usefixtures("control")
def test_pages_the_api_and_the_command_show_the_documents_of_all_partitions(job, capsys):
    client = client_of("operator")
    wanted = {"operation": "retry", "job": job.pk, "filter": {"codes": ["500"]}}
    shown = client.post("/api/v1/bulk/preview/", wanted, format="json").json()
    made = client.post("/api/v1/bulk/", {"token": shown["token"]}, format="json").json()
    call_command("bulk", "retry", "news")
    page = client.get(f"/jobs/{job.pk}/bulk/?operation=retry").content.decode()

    assert (shown["documents"], shown["partition"], shown["silent"]) == (5, "", [])
    part = {"name": "b", "state": "waiting", "shown": 3, "changed": 0, "skipped": 0, "silent": False}
    assert (made["shown"], made["partitions"]) == (5, [part])
    assert "retry: 5 documents of news." in (output := capsys.readouterr().out)
    assert "http://b.example/x failed 500 (partition b)" in output
    assert page.count("In partition b") == THERE
    assert "0 / 5" in page
    assert "This page shows partition" not in page


def test_a_silent_partition_is_named_and_left_unchanged(job, proxy):
    proxy.cut()
    page = client_of("operator").get(f"/jobs/{job.pk}/bulk/?operation=retry").content.decode()
    done = work(begin(job))

    assert "Partition b does not answer." in page
    assert (done.elsewhere, done.changed, verbs.state_of(done)) == ({}, HERE, "done")


def test_an_operation_waits_for_a_partition_that_stopped_answering(job, proxy, database, monkeypatch):
    made = begin(job)
    proxy.cut()
    with pytest.raises(merged.PartitionAway, match="has not begun there"):
        work(made)
    made.refresh_from_db()
    assert (made.changed, verbs.state_of(made)) == (HERE, "waiting")

    monkeypatch.setattr(merged, "_silent_until", {})
    proxy.heal()
    other_partitions.begin(made)
    work_in_b(database, monkeypatch, made.key)
    assert verbs.progress_of(work(made, retry_number=1)).changed == HERE + THERE


def test_a_part_of_an_operation_begins_once_despite_two_requests(job, control, database, monkeypatch):
    made = begin(job)
    other_partitions.begin(made)
    has_begun, answers = other_partitions._has_begun, iter([False])
    monkeypatch.setattr(other_partitions, "_has_begun", lambda key: next(answers, None) is None and has_begun(key))

    assert other_partitions.begin(made) == []
    assert database.value("SELECT count(*) FROM bulk_bulkoperation") == 1


def test_a_preview_with_a_partition_that_stopped_answering_is_refused(job, proxy):
    shown = verbs.preview("retry", job.pk, {}, may=may)
    proxy.cut()

    refused = client_of("operator").post("/api/v1/bulk/", {"token": shown.token}, format="json")

    assert_problem(refused, 409, "partition_away")
    assert not BulkOperation.objects.exists()
