"""Proves that reports, downloads and exports of the control partition have the rows of all partitions."""

import csv
import datetime as dt
import io
import json
from functools import partial

import psycopg
import pytest
from asgiref.sync import async_to_sync

from jobs.exports import files
from jobs.exports.models import Export
from jobs.exports.writing import write_export
from jobs.lifecycle.activity import ActivityName
from jobs.lifecycle.document import Stage
from jobs.models import Activity, JobCounter, Outcome, PartitionedJob, RepositoryConnection
from jobs.partitions import merged
from jobs.queries.reports import all_partitions
from jobs.settings.partitions import PARTITION, PARTITIONS
from nodes.tasks.context import TaskContext
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_job, make_lane
from tests.support.partitions import be_partition
from tests.support.processes import copy_of
from tests.support.proxy import silent_database
from tests.support.tables import each_row

HERE, THERE = 4, 5
REPORTS = "/api/v1/reports/"
ENDED = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200", "fetched_at": NOON}
HOUR = {"since": NOON.isoformat(), "until": (NOON + dt.timedelta(hours=1)).isoformat()}
BY_HOST = "//([^/]*)"


def make_part(job, host, *, documents):
    """Make documents of a host, and the history of their fetches: two in the first minute, others a minute apart."""
    make_documents(make_lane(job.seeds.get(), host), [f"{host[0]}{n}" for n in range(documents)], **ENDED)
    ended = {"measure": "stage", "stage": Stage.DONE, "outcome": Outcome.INDEXED, "code": "200"}
    JobCounter.objects.create(job_id=job.pk, run_no=job.run_no, amount=documents, **ended)
    for number in range(documents):
        started_at = NOON + dt.timedelta(seconds=60 * max(0, number - 1))
        facts = {"entity": f"http://{host}/{number}", "activity": "fetch", "result_code": "200", "bytes": number}
        Activity.objects.create(started_at=started_at, repository=job.repository, job=job, **facts)


@pytest.fixture(scope="module")
def database(template, django_db_blocker):
    """Return the database of partition `b`, where the job and its source have other numbers."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            make_job("of another number")
            other = make_job("news")
            RepositoryConnection.objects.filter(pk=other.repository_id).update(name="the web")
            PartitionedJob.objects.create(job=other, number=other.pk)
            make_part(other, "b.example", documents=THERE)
        yield database


@pytest.fixture
def job(connection, database):
    job = make_job("news")
    RepositoryConnection.objects.filter(pk=job.repository_id).update(name="the web")
    make_part(job, "a.example", documents=HERE)
    with psycopg.connect(database.dsn, autocommit=True) as there:
        there.execute("UPDATE jobs_partitionedjob SET number = %s", [job.pk])
    return job


@pytest.fixture(autouse=True)
def directory(tmp_path, settings):
    """Keep files of exports in a directory of the test."""
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, "exports.directory": str(tmp_path)}


@pytest.fixture(autouse=True)
def without_caches(monkeypatch):
    """Clear the cache of silent partitions that other tests filled."""
    monkeypatch.setattr(merged, "_silent_until", {})


def be_control(settings, address):
    values = {PARTITION.path: "a", PARTITIONS.path: ("a=postgresql://one/crawl", f"b={address}")}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


@pytest.fixture
def control(job, database, settings, monkeypatch):
    """Make this database the control partition."""
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 30.0)
    be_control(settings, database.dsn)


@pytest.fixture
def silent(job, database, settings):
    """Make this database the control partition of a partition whose proxy holds all bytes."""
    with silent_database(database.dsn, given_to=partial(be_control, settings)):
        yield


@pytest.fixture
def operator(connection):
    return client_of("operator")


def rows_of(client, report, **query):
    """Return the rows of all pages of a report."""
    rows, address = [], f"{REPORTS}{report}/"
    while address:
        page = client.get(address, query).json()
        assert (page["partition"], page["silent"]) == ("", [])
        rows += page["results"]
        address, query = page["next"], {}
    return rows


# --- In the API, and on pages --------------------------------------------------------------------


@each_row("size", [1, 2, 100])
@pytest.mark.usefixtures("control")
def test_documents_of_all_partitions_are_listed_once(operator, job, size):
    rows = rows_of(operator, "documents", limit=size, job=job.pk, repository=job.repository_id)

    assert sorted((row["partition"], row["job"], row["identifier"]) for row in rows) == [
        *(("", "news", f"http://a.example/a{n}") for n in range(HERE)),
        *(("b", "news", f"http://b.example/b{n}") for n in range(THERE)),
    ]


@each_row("size, order", [(1, "ascending"), (2, "descending"), (100, "descending")])
@pytest.mark.usefixtures("control")
def test_the_histories_of_all_partitions_are_merged_in_order_of_time(operator, job, size, order):
    rows = rows_of(operator, "history", limit=size, order=order, job=job.pk, **HOUR)

    starts = [row["started_at"] for row in rows]
    assert starts == sorted(starts, reverse=order == "descending")
    assert len({(row["partition"], row["identifier"]) for row in rows}) == len(rows) == HERE + THERE


@pytest.mark.usefixtures("control")
def test_results_and_documents_of_a_class_are_added_over_all_partitions(operator):
    (result,) = rows_of(operator, "results", **HOUR)
    (queue,) = rows_of(operator, "queue")
    by_host = [rows_of(operator, "queue", limit=size, identifier_class=BY_HOST) for size in (1, 100)]

    assert (result["result_class"], result["amount"]) == ("200", HERE + THERE)
    assert (queue["documents"], queue["inactive"]) == (HERE + THERE, HERE + THERE)
    assert by_host[0] == by_host[1]
    assert [(row["identifier_class"], row["documents"]) for row in by_host[0]] == [
        ("b.example", THERE),
        ("a.example", HERE),
    ]


@pytest.mark.usefixtures("control")
def test_the_start_of_a_job_in_all_partitions_counts_once(operator, job, database):
    started = {"started_at": NOON, "entity": "news", "activity": ActivityName.JOB_START, "result_code": "started"}
    Activity.objects.create(repository=job.repository, job=job, **started)
    with psycopg.connect(database.dsn, autocommit=True) as there:
        there.execute(
            "INSERT INTO jobs_activity SELECT (jsonb_populate_record(one, %s)).* FROM jobs_activity AS one LIMIT 1",
            [json.dumps({"id": 9_999, **started}, default=str)],
        )
        results = rows_of(operator, "results", **HOUR)
        history = rows_of(operator, "history", activity="job start", **HOUR)
        there.execute("DELETE FROM jobs_activity WHERE id = 9999")

    assert [(row["result_class"], row["amount"]) for row in results] == [("200", HERE + THERE), ("started", 1)]
    # The list names the partition of each row, so the two rows differ.
    assert sorted(row["partition"] for row in history) == ["", "b"]


@each_row("size", [1, 100])
@pytest.mark.usefixtures("control")
def test_the_busiest_interval_is_found_for_each_partition(operator, size):
    rows = rows_of(operator, "activity", limit=size, interval=60, **HOUR)

    assert [(row["partition"], row["amount"]) for row in rows] == [("", 2), ("b", 2)]


@pytest.mark.usefixtures("control")
def test_counts_by_too_many_classes_of_identifiers_are_refused(operator, monkeypatch):
    monkeypatch.setattr(all_partitions, "MOST_CLASSES", THERE - 1)
    refused = operator.get(f"{REPORTS}results/", {**HOUR, "identifier_class": "(.*)"})

    assert_problem(refused, 409, "too_many_classes")


@each_row("report", ["history", "activity", "results", "documents", "queue"])
@pytest.mark.usefixtures("control")
def test_pages_of_reports_are_about_all_partitions(operator, report):
    page = operator.get(f"/reports/{report}/", {"since": HOUR["since"], "until": HOUR["until"]}).content.decode()

    rows = page.partition("<tbody>")[2]
    assert "This page shows partition" not in page
    # A row has the name of its partition in a column, or is the sum of all partitions.
    assert ('data-label="Partition"' in rows) != (f">{HERE + THERE}<" in rows)


def test_a_report_names_a_silent_partition(silent, operator):
    answer = operator.get(f"{REPORTS}documents/").json()

    assert (len(answer["results"]), answer["silent"]) == (HERE, ["b"])
    assert "Partition b does not answer." in operator.get("/reports/queue/").content.decode()


def test_a_report_of_another_partition_names_the_partition(job, operator, settings):
    be_partition(settings, "b")

    answer = operator.get(f"{REPORTS}documents/").json()

    assert (answer["partition"], len(answer["results"])) == ("b", HERE)


# --- Files -----------------------------------------------------------------------------------------


def text_of(response):
    """Return the text of a file that is sent in chunks."""

    async def read():
        return b"".join([chunk async for chunk in response.streaming_content])

    return async_to_sync(read)().decode()


@pytest.mark.usefixtures("control")
def test_files_of_reports_have_the_rows_of_all_partitions(operator):
    documents = csv.DictReader(io.StringIO(text_of(operator.get(f"{REPORTS}documents/csv/"))))
    (counts,) = json.loads(text_of(operator.get(f"{REPORTS}queue/json/")))

    assert len(list(documents)) == counts["documents"] == HERE + THERE


def test_the_download_of_a_report_without_a_silent_partition_is_refused(silent, operator):
    for name in ("documents", "queue"):
        refused = operator.get(f"{REPORTS}{name}/csv/")

        assert_problem(refused, 409, "partition_away")


# --- Exports ---------------------------------------------------------------------------------------


def write(what, **filter_):
    """Write an export of a task, and return its rows."""
    task = 1 + Export.objects.count()
    write_export(TaskContext(task=task, group="generic"), {"what": what, "format": "csv", "filter": filter_})
    export = Export.objects.get(task=task)
    with (files.directory() / export.file).open(newline="") as file:
        return list(csv.DictReader(file))


@each_row("rows_of_a_part", [2, 1000])
@pytest.mark.usefixtures("control")
def test_an_export_has_the_documents_of_all_partitions(monkeypatch, job, rows_of_a_part):
    monkeypatch.setattr("jobs.exports.writing.ROWS_OF_A_PART", rows_of_a_part)

    rows = write("documents", job=[job.pk])

    assert sorted(row["identifier"] for row in rows) == [
        *(f"http://a.example/a{n}" for n in range(HERE)),
        *(f"http://b.example/b{n}" for n in range(THERE)),
    ]
    assert Export.objects.latest("task").total == HERE + THERE


@each_row("what, rows", [("history", HERE + THERE), ("results", 1), ("activity", 2)])
@pytest.mark.usefixtures("control")
def test_exports_of_reports_have_all_partitions(what, rows):
    assert len(write(what, **HOUR)) == rows


def test_an_export_waits_for_a_silent_partition(silent):
    with pytest.raises(merged.PartitionAway):
        write("documents")
