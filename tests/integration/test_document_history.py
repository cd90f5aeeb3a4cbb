"""The page of a document shows its latest activities from the history, with a bounded read."""

import re

import pytest

from jobs.models import Activity, OutputConnection
from jobs.queries.documents import history
from tests.support.api import client_of, make_documents, make_job
from tests.support.cluster import seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def document():
    return make_documents(make_job(), 1)[0]


@pytest.fixture
def note(document, connection):
    """Return a function that adds an activity of the document, this number of seconds ago."""
    (now,) = connection.execute("SELECT clock_timestamp()").fetchone()

    def add(ago, activity="fetch", **facts):
        known = {"job": document.job, "repository": document.job.repository, "entity": document.identifier}
        Activity.objects.create(started_at=now - seconds(ago), activity=activity, **(known | facts))

    return add


def rows_of(document):
    page = client_of("viewer").get(f"/documents/{document.job_id}/{document.hash.hex}/").content.decode()
    part = page[page.index('id="history"') :]
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in re.findall(r"<tr.*?</tr>", part, re.DOTALL)]


def test_a_document_shows_its_latest_activities(document, note):
    output = OutputConnection.objects.get(name="index")
    note(30, result_code="500", seconds=2.5)
    note(20, result_code="200", bytes=1500, seconds=0.25, node="worker-7")
    note(10, "document ingest", output=output, result_code="OK", result_description="<b>kept</b>")
    note(5, entity="http://docs.test/other")

    first, second, third = rows_of(document)

    assert first.endswith("document ingest (index) OK &lt;b&gt;kept&lt;/b&gt;")
    assert second.endswith("fetch 200 OK 1.5 kB 250 ms worker-7")
    assert third.endswith("fetch 500 Internal Server Error 2.5 s")


def test_only_a_limited_number_of_the_newest_entries_is_read(document, note, monkeypatch):
    monkeypatch.setattr(history, "EXAMINED", 2)
    note(60, result_code="500")
    for ago in (2, 1):
        note(ago, entity="http://docs.test/other")

    assert rows_of(document) == []
