"""Proves that all failed documents of a job, or those with a result code, can be retried together."""

import pytest

from crawlctl.access.roles import OPERATOR, VIEWER
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Job, JobEvent, Outcome, QueueItem
from jobs.queue.send_back import send_back
from jobs.state.transitions import TransitionRefused
from jobs.verbs import control
from tests.integration.test_queue_flush import OneWorker
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import make_documents

FAILED = {"stage": Stage.DONE, "outcome": Outcome.FAILED}


@pytest.fixture
def crawl(connection):
    made = OneWorker(connection)
    make_documents(made.lane, ["broken"], result_code="500", failures=3, **FAILED)
    make_documents(made.lane, ["absent"], result_code="404", **FAILED)
    make_documents(made.lane, ["fine"], stage=Stage.DONE, outcome=Outcome.INDEXED, result_code="200")
    return made


def pending():
    return {item.identifier.rpartition("/")[2] for item in QueueItem.objects.filter(stage=Stage.PENDING)}


def test_all_failed_documents_become_due_immediately(crawl):
    sent = send_back(crawl.connection, job_id=crawl.job.pk, codes=(), now=NOON)

    assert (sent.documents, sent.has_more) == (2, False)
    assert set(crawl.claim()) == {"broken", "absent"}


def test_only_documents_with_the_given_code_are_retried(crawl):
    send_back(crawl.connection, job_id=crawl.job.pk, codes=["500"], now=NOON)

    assert pending() == {"broken"}
    assert QueueItem.objects.get(stage=Stage.PENDING).failures == 0


def test_counts_of_a_job_follow_its_retried_documents(crawl):
    send_back(crawl.connection, job_id=crawl.job.pk, codes=(), now=NOON)

    rows = crawl.connection.execute("SELECT stage, code, amount FROM jobs_counterdelta WHERE amount <> 0").fetchall()
    assert sorted(rows) == [(Stage.PENDING, "", 2), (Stage.DONE, "404", -1), (Stage.DONE, "500", -1)]


def test_a_job_in_a_transition_retries_no_documents(crawl):
    Job.objects.update(phase=Phase.SHUTTING_DOWN)

    assert send_back(crawl.connection, job_id=crawl.job.pk, codes=(), now=NOON) is None
    with pytest.raises(TransitionRefused):
        control.send_back_failed(crawl.job.pk, made_by="a test", now=NOON)
    assert pending() == set()


def test_the_journal_names_the_author_and_the_number_of_retried_documents(crawl):
    control.send_back_failed(crawl.job.pk, codes=["500"], made_by="ada", now=NOON)

    event = JobEvent.objects.get(kind="sent back")
    assert event.made_by == "ada"
    assert "500" in event.message


def test_operators_may_use_the_api_and_viewers_may_not(crawl):
    address = f"/api/v1/jobs/{crawl.job.pk}/send-back/"

    assert_problem(client_of(VIEWER).post(address, {}), 403, "permission_denied")
    operator = client_of(OPERATOR)
    assert_problem(operator.post(address, {"codes": "500"}), 400, "invalid")
    assert operator.post(address, {"codes": ["500"]}).json() == {"documents": 1, "has_more": False, "left_out": []}
    assert pending() == {"broken"}


def test_denied_documents_are_not_failed_and_are_retried_only_by_code(crawl):
    make_documents(crawl.lane, ["denied"], stage=Stage.DONE, outcome=Outcome.EXCLUDED, result_code="DENIED")

    send_back(crawl.connection, job_id=crawl.job.pk, codes=(), now=NOON)
    assert "denied" not in pending()

    send_back(crawl.connection, job_id=crawl.job.pk, codes=["DENIED"], now=NOON)
    assert "denied" in pending()
