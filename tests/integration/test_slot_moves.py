"""Moves of slots between partitions: held jobs, copies of documents, and the steps of each partition."""

import pytest

from jobs.lifecycle.job import Guard, Phase
from jobs.models import Job
from jobs.queries.jobs.page import read_job_page
from jobs.state.transitions import SlotsMove, make_transition
from jobs.verbs import control
from jobs.verdicts.causes import Cause
from tests.integration.test_queue_flush import OneWorker
from tests.support.cluster import NOON
from tests.support.factories import make_documents
from tests.support.tables import each_row


@pytest.fixture
def crawl(connection):
    return OneWorker(connection)


# --- Held jobs -----------------------------------------------------------------------------------


def test_a_held_job_hands_out_no_document_until_the_move_is_over(crawl):
    make_documents(crawl.lane, ["page"])
    Job.objects.update(move_hold=3)

    assert crawl.claim() == {}
    assert read_job_page(Job.objects.get().pk, now=NOON).verdict.cause == Cause.SLOTS

    Job.objects.update(move_hold=0)
    assert set(crawl.claim()) == {"page"}


@each_row(
    "name, state",
    [
        ("begin reseeding", {}),
        ("shut down", {}),
        ("prepare", {"phase": Phase.READY_FOR_STARTUP}),
        ("allow removals", {"phase": Phase.INACTIVE, "guard": Guard.WAITING}),
        ("delete", {"phase": Phase.INACTIVE}),
    ],
)
def test_a_held_job_begins_nothing_that_reads_seeds_or_removes_documents(crawl, name, state):
    Job.objects.update(move_hold=3, **state)
    job = Job.objects.get()

    with pytest.raises(SlotsMove, match="while slots move between partitions"):
        make_transition(job.pk, name, made_by="vera", now=NOON)

    Job.objects.update(move_hold=0)
    make_transition(job.pk, name, made_by="vera", now=NOON)


def test_operators_pause_and_abort_a_held_job(crawl):
    Job.objects.update(move_hold=3)
    job = Job.objects.get()

    control.pause(job.pk, made_by="vera", now=NOON)
    control.abort(job.pk, made_by="vera", now=NOON)

    job.refresh_from_db()
    assert (job.move_hold, job.stop_request) == (3, "abort")
