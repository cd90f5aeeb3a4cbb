"""Proves that failures of all jobs are grouped by cause and host, and that documents that do not fail cost nothing."""

import datetime as dt

import pytest
from django.db import connection as django_connection

from crawlctl.access.roles import VIEWER
from jobs.connectors.repository.base import Ending
from jobs.duties.cleaning import clean
from jobs.duties.retention_subjects import SUBJECTS
from jobs.models import FailureGroup, FailureHour, QueueItem
from jobs.queries.documents.failures import STEPS, FailureFilter, list_failures
from jobs.queue.counting.counters import fold, forget
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.release import release_of_lost_workers
from jobs.queue.take import take
from nodes.membership import leadership
from tests.integration.test_pages import page_client
from tests.support.api import client_of
from tests.support.cluster import NOON, elect_main, fall_silent, register_node
from tests.support.factories import facts_of, make_documents, make_lane, make_result, make_running_job

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


class Crawl:
    """A job whose documents end as a test requires. After each flush, its counters are folded."""

    def __init__(self, connection):
        self.connection = connection
        self.main = register_node(connection, "manager")
        self.term = elect_main(connection, self.main)
        self.worker = register_node(connection, "worker")
        self.running = make_running_job(self.main)
        self.job = self.running.job

    def end(self, *names, host="a.example", at=NOON, **outcome):
        """Make these new documents, and let them end."""
        make_documents(make_lane(self.running.seed, host), names)
        taken = self.claim(at)
        results = [
            make_result(claimed, facts_of(self.job), **outcome) for turn in taken.turns for claimed in turn.documents
        ]
        assert len(results) == len(names)
        flush(self.connection, worker=self.worker.id, results=results, now=at)
        self.fold(at)

    def claim(self, at=NOON):
        stuff(self.connection, manager=self.main.id, group=self.running.group, room=100, workers=1, now=at)
        return take(self.connection, worker=self.worker.id, room=100, idle=True, now=at)

    def fold(self, at=NOON):
        fold(self.connection, term=self.term, now=at)


@pytest.fixture
def crawl(connection):
    return Crawl(connection)


def listed(now=NOON, **filters):
    return [one.line for one in list_failures(FailureFilter(**filters), now=now).lines]


def test_failures_are_grouped_by_host_and_cause(crawl):
    crawl.end("one", "two", ending=Ending.FAILED, code="500", references=None)
    crawl.end("three", host="b.example", at=NOON + HOUR, ending=Ending.FAILED, code="500", references=None)

    newest, oldest = listed(now=NOON + HOUR)

    assert (newest.host, newest.code, newest.times, newest.failed) == ("b.example", "500", 1, 1)
    assert (oldest.host, oldest.code, oldest.times, oldest.failed) == ("a.example", "500", 2, 2)
    assert newest.sample == "http://b.example/three"
    assert oldest.sample in {"http://a.example/one", "http://a.example/two"}


def test_a_failure_that_occurs_again_keeps_its_first_moment_and_has_a_trend(crawl):
    crawl.end("one", ending=Ending.FAILED, code="500", references=None)
    crawl.end("two", at=NOON + 24 * HOUR, ending=Ending.FAILED, code="500", references=None)

    (line,) = listed(now=NOON + 24 * HOUR)

    assert (line.first_at, line.last_at, line.times) == (NOON, NOON + 24 * HOUR, 2)
    assert len(line.trend) == STEPS
    assert line.trend[-5:] == [1, 0, 0, 0, 1]
    assert line.sample == "http://a.example/two"


def test_documents_that_do_not_fail_leave_no_group(crawl):
    crawl.end("fine")
    crawl.end("away", ending=Ending.RETRY, code="503", references=None, retry_after=5.0)

    assert not FailureGroup.objects.exists()


def test_a_document_that_was_lost_with_its_workers_is_a_failure(crawl):
    make_documents(make_lane(crawl.running.seed), ["deadly"], losses=4)
    crawl.claim()
    leadership.mark_failed(crawl.connection, verdict=fall_silent(crawl.connection, crawl.worker), term=crawl.term)
    release_of_lost_workers(crawl.connection, scope=crawl.main.scope, term=crawl.term, now=NOON)
    crawl.fold()

    (line,) = listed()

    assert (line.code, line.sample) == ("WORKER_LOST", "http://a.example/deadly")


def test_a_retried_document_is_not_counted_as_failed_and_its_group_stays(crawl):
    crawl.end("one", ending=Ending.FAILED, code="500", references=None)
    QueueItem.objects.all().delete()
    with django_connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_counter SET amount = 0")
        cursor.execute("UPDATE jobs_jobcounter SET amount = 0")

    (line,) = listed()

    assert (line.failed, line.times, line.sample) == (0, 1, "")
    assert list_failures(FailureFilter(), now=NOON).causes == []


def test_the_page_shows_failures_and_leads_to_their_documents(crawl):
    crawl.end("one", "<b>two", ending=Ending.FAILED, code="500", references=None)

    client = page_client(VIEWER)
    page = client.get(f"/failures/?job={crawl.job.pk}&code=500")

    (row,) = page.context["rows"]
    assert (row["failed"], row["times"], row["meaning"]) == ("2", "2", "Internal Server Error")
    assert "<b>two" not in page.content.decode()
    behind = client.get(row["failed_address"]).context["rows"]
    assert {document["identifier"] for document in behind} == {"http://a.example/one", "http://a.example/<b>two"}
    assert [(cause["code"], cause["documents"]) for cause in page.context["causes"]] == [("500", "2 documents")]


def test_the_api_lists_failures_page_by_page(crawl):
    for number, host in enumerate(("a.example", "b.example", "c.example")):
        crawl.end(host, host=host, at=NOON + number * HOUR, ending=Ending.FAILED, code="500", references=None)
    client = client_of(VIEWER)

    first = client.get("/api/v1/failures/?limit=2").json()
    second = client.get(first["next"]).json()

    assert [row["host"] for row in first["results"] + second["results"]] == ["c.example", "b.example", "a.example"]
    assert second["next"] is None
    assert client.get("/api/v1/failures/?host=b.example").json()["results"][0]["sample"] == "http://b.example/b.example"


def test_old_failures_are_deleted_unless_they_occur_again(crawl):
    crawl.end("old", ending=Ending.FAILED, code="500", references=None)
    crawl.end("new", at=NOON + 31 * 24 * HOUR, ending=Ending.FAILED, code="404", references=None)

    deleted = clean(crawl.connection, SUBJECTS["failures"], now=NOON + 31 * 24 * HOUR)

    assert deleted == 2
    assert [group.code for group in FailureGroup.objects.all()] == ["404"]
    assert FailureHour.objects.count() == 1


def test_a_deleted_job_leaves_no_failures(crawl):
    crawl.end("one", ending=Ending.FAILED, code="500", references=None)

    forget(crawl.connection, job_id=crawl.job.pk)

    assert not FailureGroup.objects.exists()
    assert not FailureHour.objects.exists()
