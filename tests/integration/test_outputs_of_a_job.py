"""Proves that the page of a job shows its outputs, and the lag of each output behind the crawl."""

import pytest

from jobs.models import OutputConnection, SearchDocument
from jobs.queries.jobs.page import read_job_page
from jobs.ui.job_screen import job_screen
from tests.support.cluster import NOON, seconds
from tests.support.factories import hash_of, make_job, make_output

pytestmark = pytest.mark.django_db


@pytest.fixture
def job():
    """Return a job with the search index and a file as outputs."""
    job = make_job(output=OutputConnection.objects.create(name="index", connector="search"))
    job.outputs.add(make_output("/var/pages.jsonl"))
    return job


def lags(job):
    screen = job_screen(read_job_page(job.pk, now=NOON), now=NOON)
    return {row["connector"]: row["lag"] for row in screen["outputs"]}


def test_the_index_is_behind_while_it_lacks_a_written_document(job):
    index = job.outputs.get(connector="search")
    SearchDocument.objects.create(
        output=index, hash=hash_of("page"), url="http://a.example/page", title="", description="", text="words",
        content_type="text/html", language="en", fetched_at=NOON, written_at=NOON - seconds(12),
    )  # fmt: skip

    assert lags(job)["search"] == "12 s behind"


def test_an_index_that_lacks_no_document_is_up_to_date(job):
    assert lags(job)["search"] == "up to date"


def test_a_file_output_shows_no_lag(job):
    assert lags(job)["jsonl"] == "none: a document counts after it is written"
