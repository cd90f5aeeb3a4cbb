"""The API shows reports, refuses invalid queries, and sends reports as files."""

import csv
import datetime as dt
import io
import json

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from crawlctl.access.roles import VIEWER
from jobs.models import Activity, QueueItem
from tests.support.api import NOON, assert_problem, client_of, make_documents, make_job, make_user
from tests.support.partitions import be_partition
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

REPORTS = "/api/v1/reports/"
HISTORY = ("history", "activity", "bandwidth", "results")
DOCUMENTS = ("documents", "queue")
AT_NOON = "since=2026-06-01T12:00:00Z&until=2026-06-01T13:00:00Z"


@pytest.fixture
def viewer():
    return client_of(VIEWER)


@pytest.fixture
def job():
    return make_job()


def add_activity(job, minute, entity="http://docs.test/1", **facts):
    usual = {"activity": "fetch", "bytes": 100, "seconds": 0.5, "result_code": "200"}
    return Activity.objects.create(
        started_at=NOON + dt.timedelta(minutes=minute),
        entity=entity,
        job=job,
        repository=job.repository,
        **(usual | facts),
    )


def results(viewer, report, query=""):
    response = viewer.get(f"{REPORTS}{report}/?{query}")
    assert response.status_code == 200, response.content
    return response.json()["results"]


# --- The history ---------------------------------------------------------------------------------


def test_the_history_is_listed_row_by_row(viewer, job):
    add_activity(job, 1, result_description="fine", node="worker-7")

    (row,) = results(viewer, "history", AT_NOON)

    assert row == {
        "started_at": "2026-06-01T12:01:00Z",
        "activity": "fetch",
        "identifier": "http://docs.test/1",
        "result_code": "200",
        "bytes": 100,
        "seconds": 0.5,
        "result_description": "fine",
        "repository": "the web",
        "job": "manual",
        "node": "worker-7",
        "partition": "",
    }


def test_the_history_can_be_sorted_and_filtered(viewer, job):
    add_activity(job, 1, entity="a", bytes=3)
    add_activity(job, 2, entity="b", bytes=1, result_code="503")
    add_activity(job, 3, entity="c", activity="document ingest", output=job.outputs.get(), bytes=2)

    def identifiers_for(query):
        return [row["identifier"] for row in results(viewer, "history", f"{AT_NOON}&{query}")]

    assert identifiers_for("sort=bytes&order=ascending") == ["b", "c", "a"]
    assert identifiers_for("activity=fetch&activity=document+ingest+(index)") == ["c", "b", "a"]
    assert identifiers_for("activity=document+ingest") == ["c"]
    assert identifiers_for("entity=^[ab]&code=^5") == ["b"]
    assert identifiers_for(f"job={job.pk}&repository={job.repository_id}") == ["c", "b", "a"]
    assert identifiers_for(f"job={job.pk + 1}") == []


def test_without_a_period_a_report_covers_the_last_hour(viewer, job):
    now = dt.datetime.now(tz=dt.UTC)
    for ago in (1, 59, 61):
        Activity.objects.create(
            started_at=now - dt.timedelta(minutes=ago), entity=str(ago), activity="fetch", repository=job.repository
        )

    assert [row["identifier"] for row in results(viewer, "history")] == ["1", "59"]


def test_reports_and_exports_name_the_partition_that_they_cover(viewer, job, settings):
    assert viewer.get(f"{REPORTS}history/").json()["partition"] == ""

    be_partition(settings, "b")
    export = client_of("operator").post("/api/v1/exports/", {"what": "documents", "format": "csv"}, format="json")

    assert viewer.get(f"{REPORTS}history/").json()["partition"] == "b"
    assert export.json()["partition"] == "b"


def test_every_page_of_a_report_covers_the_same_period(viewer, job):
    now = dt.datetime.now(tz=dt.UTC)
    for ago in range(3):
        Activity.objects.create(
            started_at=now - dt.timedelta(minutes=1 + ago), entity=str(ago), activity="fetch", repository=job.repository
        )
    first = viewer.get(f"{REPORTS}history/?limit=2").json()
    Activity.objects.create(started_at=now, entity="later", activity="fetch", repository=job.repository)

    second = viewer.get(first["next"]).json()

    assert "until=" in first["next"]
    assert [row["identifier"] for row in first["results"] + second["results"]] == ["0", "1", "2"]
    assert second["next"] is None


def test_busiest_intervals_are_listed_by_class(viewer, job):
    for minute in (0, 1, 9):
        add_activity(job, minute)
    add_activity(job, 30, bytes=1000)

    (events,) = results(viewer, "activity", f"{AT_NOON}&interval=120")
    (size,) = results(viewer, "bandwidth", f"{AT_NOON}&interval=120&identifier_class=//([^/]*)")

    assert (events["identifier_class"], events["amount"], events["per_minute"]) == ("", 2, 1.0)
    assert (events["began_at"], events["ended_at"]) == ("2026-06-01T12:00:00Z", "2026-06-01T12:02:00Z")
    assert (size["identifier_class"], size["amount"], size["began_at"]) == ("docs.test", 1000, "2026-06-01T12:30:00Z")


def test_a_report_counts_documents_by_result(viewer, job):
    for code in ("200", "404", "404"):
        add_activity(job, 1, result_code=code)

    assert results(viewer, "results", AT_NOON) == [
        {"identifier_class": "", "result_class": "404", "amount": 2},
        {"identifier_class": "", "result_class": "200", "amount": 1},
    ]
    (row,) = results(viewer, "results", f"{AT_NOON}&result_class=%5E(4)&code=4")
    assert (row["result_class"], row["amount"]) == ("4", 2)


# --- Documents -----------------------------------------------------------------------------------


def test_documents_are_shown_with_their_next_step(viewer, job):
    make_documents(job, 1, stage=0, check_time=NOON, result_code="503", failures=2, failing_since=NOON, most_failures=3)

    (row,) = results(viewer, "documents", "now=2026-06-01T11:00:00Z")

    assert row == {
        "identifier": "http://docs.test/0",
        "job": "manual",
        "state": "never_processed",
        "status": "waiting_for_processing",
        "scheduled_at": "2026-06-01T12:00:00Z",
        "scheduled_action": "process",
        "retry_count": 2,
        "failing_since": "2026-06-01T12:00:00Z",
        "retry_limit": 3,
        "retry_until": None,
        "result_code": "503",
        "partition": "",
    }


def test_documents_are_listed_in_pages_and_by_filters(viewer, job):
    make_documents(job, 5)
    first = viewer.get(f"{REPORTS}documents/?limit=3&state=previously_processed&job={job.pk}").json()
    second = viewer.get(first["next"]).json()

    assert len({row["identifier"] for row in first["results"] + second["results"]}) == 5
    assert second["next"] is None
    assert results(viewer, "documents", "status=processing&status=expiring") == []
    assert len(results(viewer, "documents", "identifier=[01]$")) == 2


def test_documents_are_counted_by_class(viewer, job):
    make_documents(job, 3)
    make_documents(job, 2, host="other.test", stage=0, seq=1)

    rows = results(viewer, "queue", "identifier_class=//([^/]*)")

    assert [(row["identifier_class"], row["documents"]) for row in rows] == [("docs.test", 3), ("other.test", 2)]
    assert (rows[0]["inactive"], rows[1]["ready_for_processing"]) == (3, 2)
    assert len(rows[0]) == 12


# --- Files ---------------------------------------------------------------------------------------


def fetch_file(address, user):
    """
    Return the response and the body of a file as the web server
    sends it: piece by piece, from a view in a separate thread.
    """

    async def fetch():
        client = AsyncClient()
        await client.aforce_login(user)
        response = await client.get(address)
        body = b"".join([piece async for piece in response]).decode()
        return response, body

    return async_to_sync(fetch)()


@pytest.mark.django_db(transaction=True)
def test_all_documents_can_be_downloaded_as_a_file(job, monkeypatch):
    monkeypatch.setattr("jobs.queries.reports.all_partitions._AT_ONCE", 2)
    make_documents(job, 5)
    user = make_user(VIEWER)

    response, text = fetch_file(f"{REPORTS}documents/csv/?job={job.pk}", user)
    _, as_json = fetch_file(f"{REPORTS}documents/json/", user)

    rows = list(csv.DictReader(io.StringIO(text)))
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"].startswith('attachment; filename="documents-')
    assert {row["identifier"] for row in rows} == {f"http://docs.test/{number}" for number in range(5)}
    assert {row["status"] for row in rows} == {"inactive"}
    assert [row["identifier"] for row in json.loads(as_json)] == [row["identifier"] for row in rows]


@pytest.mark.django_db(transaction=True)
def test_the_queue_can_be_downloaded_as_a_file(job):
    make_documents(job, 3)
    user = make_user(VIEWER)

    _, text = fetch_file(f"{REPORTS}queue/csv/?identifier_class=(.*)", user)
    _, as_json = fetch_file(f"{REPORTS}queue/json/?identifier=nothing", user)

    assert [row["inactive"] for row in csv.DictReader(io.StringIO(text))] == ["1", "1", "1"]
    assert json.loads(as_json) == []


@pytest.mark.django_db(transaction=True)
def test_an_exported_text_cannot_become_a_formula_of_a_spreadsheet(job):
    make_documents(job, 1)
    QueueItem.objects.update(identifier='=HYPERLINK("http://evil.test/","click"),"x"')

    _, text = fetch_file(f"{REPORTS}documents/csv/", make_user(VIEWER))

    (row,) = csv.DictReader(io.StringIO(text))
    assert row["identifier"] == '\'=HYPERLINK("http://evil.test/","click"),"x"'


@each_row("report", DOCUMENTS)
def test_an_invalid_export_is_refused_before_a_byte_is_sent(viewer, report):
    assert_problem(viewer.get(f"{REPORTS}{report}/csv/?identifier=("), 400, "invalid", fields=["identifier"])
    assert_problem(viewer.get(f"{REPORTS}{report}/xml/"), 404, "not_found")


# --- Refusals ------------------------------------------------------------------------------------


@each_row(
    ("address", "field"),
    [
        ("history/?entity=(", "entity"),
        ("history/?code=*", "code"),
        ("activity/?identifier_class=[", "identifier_class"),
        ("results/?result_class=[", "result_class"),
        ("documents/?identifier=(", "identifier"),
        ("queue/?identifier_class=(", "identifier_class"),
        ("history/?sort=colour", "sort"),
        ("history/?since=yesterday", "since"),
        (f"history/?{AT_NOON.replace('13', '12')}", "since"),
        ("activity/?interval=0", "interval"),
        ("activity/?interval=86401", "interval"),
        ("documents/?state=happy", "state.0"),
        ("documents/?status=happy", "status.0"),
        ("documents/?job=x", "job.0"),
        ("history/?colour=blue", "colour"),
        ("history/?entity=a&entity=b", "entity"),
        ("history/?cursor=forged", "cursor"),
        ("queue/?cursor=forged", "cursor"),
    ],
)
def test_an_invalid_parameter_of_a_report_is_refused_by_name(viewer, address, field):
    assert_problem(viewer.get(f"{REPORTS}{address}"), 400, "invalid", fields=[field])


def test_a_report_that_takes_too_long_ends_with_an_error(viewer, job, monkeypatch):
    monkeypatch.setattr("jobs.queries.reports.execution._STATEMENT_TIMEOUT_SECONDS", 0.001)
    rows = {"started_at": NOON, "activity": "fetch", "repository": job.repository}
    Activity.objects.bulk_create(Activity(entity=f"{number}{'x' * 500}", **rows) for number in range(3000))

    problem = viewer.get(f"{REPORTS}results/?{AT_NOON}&identifier_class=(.*)*(.*)*\\1y")

    assert "Choose a shorter time" in assert_problem(problem, 503, "too_slow")["detail"]


@each_row("report", [*HISTORY, *DOCUMENTS])
def test_a_user_without_a_role_cannot_read_reports(report):
    assert client_of(VIEWER).get(f"{REPORTS}{report}/").status_code == 200
    assert client_of().get(f"{REPORTS}{report}/").status_code == 403
    assert client_of("operator").post(f"{REPORTS}{report}/").status_code == 405
