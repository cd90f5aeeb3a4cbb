"""The pages of reports show their rows, explain an invalid query, and link to the right addresses."""

import datetime as dt
import html
import json
import re

import pytest
from django.test import Client

from jobs.models import Activity, QueueItem
from tests.support.api import make_documents, make_job, make_user
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

HISTORY = ("history", "activity", "bandwidth", "results")
PAGES = (*HISTORY, "documents", "queue")


@pytest.fixture
def viewer():
    client = Client()
    client.force_login(make_user("viewer"))
    return client


@pytest.fixture
def job():
    return make_job()


def add_activity(job, ago=60, entity="http://docs.test/1", **facts):
    """Add an entry to the history, `ago` seconds before now."""
    usual = {"activity": "fetch", "bytes": 1500, "seconds": 0.25, "result_code": "200", "job": job}
    at = dt.datetime.now(tz=dt.UTC) - dt.timedelta(seconds=ago)
    return Activity.objects.create(started_at=at, entity=entity, repository=job.repository, **(usual | facts))


def show(client, page, query=""):
    response = client.get(f"/reports/{page}/?{query}")
    assert response.status_code == 200
    return response.content.decode()


def rows(text):
    """Return the cells of each row of the table, as text."""
    body = text.partition("<tbody>")[2].partition("</tbody>")[0]
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in cells] for cells in found]


def chart(text):
    match = re.search(r'data-chart="([^"]*)"', text)
    return json.loads(html.unescape(match[1])) if match else None


@each_row("page", PAGES)
def test_every_report_is_shown_without_any_data(viewer, page):
    yet, filtered = show(viewer, page), show(viewer, page, "repository=&identifier=x&entity=x")

    assert ("No activity in this time." if page in HISTORY else "No documents yet.") in yet
    assert "No rows match these filters." in filtered
    assert chart(yet) is chart(filtered) is None


def test_reports_begin_with_the_simple_history(viewer):
    assert viewer.get("/reports/")["Location"] == "/reports/history/"


def test_the_history_is_shown_with_its_timeline(viewer, job):
    add_activity(job, 60)
    add_activity(job, 120, activity="document ingest", output=job.outputs.get(), seconds=None, result_code="OK")

    text = show(viewer, "history")

    first, second = rows(text)
    assert first[1:6] == ["fetch", "http://docs.test/1", "200", "1,500", "250 ms"]
    assert second[1:6] == ["document ingest (index)", "http://docs.test/1", "OK", "1,500", "—"]
    picture = chart(text)
    assert [(series["label"], sum(series["values"])) for series in picture["series"]] == [
        ("document ingest", 1),
        ("fetch", 1),
    ]
    assert len(picture["labels"]) == 60
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", label) for label in picture["labels"])


def test_column_headings_sort_and_reverse_the_order(viewer, job):
    for size in (2, 9, 5):
        add_activity(job, bytes=size)

    text = show(viewer, "history", "sort=bytes&code=2")
    turned = html.unescape(re.search(r'href="\?([^"]*sort=bytes[^"]*)"', text)[1])

    assert [row[4] for row in rows(text)] == ["9", "5", "2"]
    assert [row[4] for row in rows(show(viewer, "history", turned))] == ["2", "5", "9"]
    assert "code=2" in turned


def test_the_next_page_covers_the_same_period(viewer, job):
    for number in range(51):
        add_activity(job, 60 + number, entity=str(number))
    text = show(viewer, "history", "entity=.&last=4")

    following = html.unescape(re.search(r'href="\?([^"]*)" rel="next"', text)[1])
    add_activity(job, 0, entity="later")

    assert len(rows(text)) == 50
    assert {"since=", "until=", "entity=.", "after="} <= set(re.findall(r"since=|until=|entity=\.|after=", following))
    assert [row[2] for row in rows(show(viewer, "history", following))] == ["50"]


def test_the_page_of_a_job_links_to_its_history(viewer, job):
    other = make_job("other", repository=job.repository)
    add_activity(job, entity="mine")
    add_activity(other, entity="theirs")

    assert f'"/reports/history/?job={job.pk}"' in viewer.get(f"/jobs/{job.pk}/").content.decode()
    assert [row[2] for row in rows(show(viewer, "history", f"job={job.pk}"))] == ["mine"]


def test_busiest_times_are_shown_by_class(viewer, job):
    for host, times in (("a", 3), ("b", 1)):
        for _ in range(times):
            add_activity(job, entity=f"http://{host}.test/")
    pattern = "identifier_class=//([^/]*)&interval=60"

    events, sizes = show(viewer, "activity", pattern), show(viewer, "bandwidth", pattern)

    assert [(row[0], row[3], row[4]) for row in rows(events)] == [("a.test", "3", "3.0"), ("b.test", "1", "1.0")]
    assert [(row[0], row[3]) for row in rows(sizes)] == [("a.test", "4.5 kB"), ("b.test", "1.5 kB")]
    assert chart(events)["labels"] == ["a.test", "b.test"]


def test_results_are_shown_as_a_histogram(viewer, job):
    for code in ("200", "404", "404"):
        add_activity(job, result_code=code)

    text = show(viewer, "results")

    assert rows(text) == [["(all)", "404", "2"], ["(all)", "200", "1"]]
    assert [(series["label"], series["values"]) for series in chart(text)["series"]] == [("404", [2]), ("200", [1])]


def test_documents_are_shown_with_their_status_and_as_files(viewer, job):
    make_documents(job, 2)

    text = show(viewer, "documents", f"job={job.pk}&state=previously_processed&identifier=0$")

    ((identifier, name, state, status, *_),) = rows(text)
    assert (identifier, name, state, status) == ("http://docs.test/0", "manual", "Processed", "Inactive")
    file = html.unescape(re.search(r'href="([^"]*/csv/[^"]*)" download', text)[1])
    assert viewer.get(file).status_code == 200
    assert f"job={job.pk}" in file


def test_a_failing_document_is_shown_with_the_end_of_its_retries(viewer, job):
    now = dt.datetime.now(tz=dt.UTC)
    failing = {"failures": 2, "failing_since": now, "most_failures": 3, "failing_until": now + dt.timedelta(days=2)}
    make_documents(job, 1, stage=0, check_time=now, **failing)

    ((*_, retries, since),) = rows(show(viewer, "documents", f"job={job.pk}"))

    assert retries == "2 of 3"
    assert since.endswith(f", until {failing['failing_until']:%Y-%m-%d %H:%M}")


def test_the_queue_is_shown_by_class(viewer, job):
    make_documents(job, 3)
    make_documents(job, 1, host="other.test", stage=0, seq=1)

    text = show(viewer, "queue", "identifier_class=//([^/]*)")

    assert [(row[0], row[1], row[2]) for row in rows(text)] == [("docs.test", "3", "3"), ("other.test", "1", "0")]
    assert [series["label"] for series in chart(text)["series"]] == ["Inactive", "Ready for processing"]


@each_row("page", PAGES)
def test_an_invalid_pattern_of_a_report_is_named_beside_its_field(viewer, page):
    field = "entity" if page in HISTORY else "identifier"

    text = show(viewer, page, f"{field}=(")

    assert "Invalid regular expression (PostgreSQL): parentheses () not balanced" in text
    assert "<tbody>" not in text


@each_row(
    ("query", "says"),
    [
        ("after=forged", "Invalid page for this report"),
        ("since=2026-01-02T00:00&until=2026-01-01T00:00", "Choose a start before the end"),
        ("since=yesterday", "Enter a valid date/time"),
        ("job=999999", "Select a valid choice"),
        ("last=2", "Select a valid choice"),
        ("until=0001-01-01T00:00", "greater than or equal to"),
        ("activity=%00", "Select a valid choice"),
    ],
)
def test_an_invalid_query_of_a_report_is_explained(viewer, query, says):
    assert says in show(viewer, "history", query)


@each_row("page", PAGES)
def test_crawled_markup_is_escaped_in_reports(viewer, job, page):
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    add_activity(job, entity=hostile, result_code=hostile, result_description=hostile)
    make_documents(job, 1)
    QueueItem.objects.update(identifier=hostile)

    text = show(viewer, page, "identifier_class=(.*)" if page not in {"history", "documents"} else "")

    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img src=x" not in text


@each_row("page", PAGES)
def test_reports_need_a_role(page):
    client = Client()
    assert client.get(f"/reports/{page}/").status_code == 302
    client.force_login(make_user())
    assert client.get(f"/reports/{page}/").status_code == 403
