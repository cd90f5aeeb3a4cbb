"""Proves that continuous jobs recrawl documents, let them expire, and end when nothing is left to wait for."""

import datetime as dt
import json

import pytest

from jobs.connectors.repository.base import RetryLimit, ScheduleBounds
from jobs.lifecycle.job import Kind
from jobs.lifecycle.scan import Model
from jobs.models import Job, OutputConnection, QueueItem
from jobs.verbs import connections
from tests.support.factories import make_output
from tests.support.processes import held_by, wait_for

SHORTLY = dt.timedelta(seconds=1)
CONTINUOUS = {"kind": Kind.CONTINUOUS}


@pytest.fixture
def daemons(world, cluster):
    """Start a manager and a worker that know the scriptable connector."""
    cluster.start("runmanager", "runworker")
    return cluster


def texts_in(lines):
    return {json.loads(line).get("text") for line in lines.read_text().splitlines()}


def begin(daemons, world, **facts):
    job = world.make_job(seeds=["a"], outputs=[make_output(daemons.output)], **(CONTINUOUS | facts))
    daemons.start_job(job)
    return job


def test_a_document_is_read_after_its_interval_and_its_change_is_indexed(daemons, world):
    world.put("a", text="old")
    begin(daemons, world, recrawl_after=SHORTLY, recrawl_at_most=SHORTLY)

    wait_for(lambda: world.asked("a") >= 2, saying="the document was read again")
    world.put("a", text="new")

    wait_for(lambda: "new" in texts_in(daemons.output), saying="the change arrived")
    assert Job.objects.get().manifoldcf_status == "ACTIVE"


def test_a_document_lost_at_its_source_is_noticed_at_its_next_check(daemons, world):
    world.put("a", links=["b"])
    world.put("b")
    begin(daemons, world, recrawl_after=SHORTLY, recrawl_at_most=SHORTLY)
    wait_for(lambda: len(held_by(daemons.output)) == 2, saying="both documents are indexed")

    world.remove("b")

    wait_for(lambda: held_by(daemons.output) == {world.url("a")}, saying="documents that no longer exist have left")


def test_a_job_ends_by_itself_after_all_its_documents_expired(daemons, world):
    world.put("a", links=["b", "c", "d"])
    for name, links in (("b", ["e", "f"]), ("c", []), ("d", ["g"]), ("e", []), ("f", []), ("g", [])):
        world.put(name, links=links)

    job = begin(daemons, world, expire_after=dt.timedelta(seconds=2))

    wait_for(lambda: len(set(world.processed())) == 7, saying="all documents were read")
    assert daemons.wait_for_end(job) == "finished"
    assert held_by(daemons.output) == set()
    assert not QueueItem.objects.exists()


def test_a_source_may_request_an_earlier_check_than_the_job(daemons, world):
    world.put("a", bounds=ScheduleBounds(recrawl_most=0.5))
    begin(daemons, world, recrawl_after=dt.timedelta(days=1))

    wait_for(lambda: world.asked("a") >= 2, saying="the document was read again")


# --- Scans by the connector's model --------------------------------------------------------------


def test_documents_of_a_source_that_lists_only_additions_are_rechecked(daemons, world):
    world.put("a", links=["b"])
    world.put("b")
    job = world.make_job(seeds=["a"], model=Model.ADD, outputs=[make_output(daemons.output)])
    daemons.run(job)

    # The document exists, but no link leads to it. A source of this model must report its removal itself.
    world.put("a")
    daemons.run(job)
    assert held_by(daemons.output) == {world.url("a"), world.url("b")}
    assert world.asked("b") == 2

    world.remove("b")
    daemons.run(job)
    assert held_by(daemons.output) == {world.url("a")}


def test_a_run_checks_only_changed_documents_if_its_source_lists_changes(daemons, world):
    world.put("a")
    world.put("b")
    world.seeding(names=["b"], version="1")
    job = world.make_job(seeds=["a"], model=Model.ADD_CHANGE_DELETE, outputs=[make_output(daemons.output)])
    daemons.run(job)

    world.seeding(version="2")
    daemons.run(job)

    assert world.asked("b") == 1
    assert held_by(daemons.output) == {world.url("a"), world.url("b")}


def test_after_a_reset_of_seeding_the_whole_source_is_read(daemons, world):
    from django.utils import timezone

    from jobs.verbs import control

    world.put("a")
    world.put("b")
    world.seeding(names=["b"])
    job = world.make_job(seeds=["a"], model=Model.ADD_CHANGE_DELETE)
    daemons.run(job)
    world.seeding()

    control.reset_seeding(job.pk, made_by="a test", now=timezone.now())
    daemons.run(job)

    assert world.asked("b") == 2


# --- Limits of retries ---------------------------------------------------------------------------


def test_a_document_with_too_many_failures_is_skipped_and_the_job_continues(daemons, world):
    world.put("a", links=["b"])
    world.put("b", interruptions=-1, limit=RetryLimit(attempts=2))
    job = world.make_job(seeds=["a"])

    assert daemons.run(job) == "finished"
    assert world.asked("b") == 2
    assert QueueItem.objects.get(identifier=world.url("b")).outcome == 3


def test_a_document_with_too_many_failures_can_end_the_run_with_a_reason(daemons, world):
    world.put("a", links=["b"])
    world.put("b", interruptions=-1, limit=RetryLimit(attempts=2, aborts_job=True))
    job = world.make_job(seeds=["a"], outputs=[make_output(daemons.output)])

    assert daemons.run(job) == "error"
    assert world.url("b") in Job.objects.get().reason
    # A run that ended with an error removes no document.
    assert held_by(daemons.output) == {world.url("a")}


# --- Outputs -------------------------------------------------------------------------------------


def test_a_worker_clears_an_output_and_the_next_run_fills_it_again(daemons, world):
    from nodes.database.clock import read_clock

    world.put("a", links=["b"])
    world.put("b")
    job = world.make_job(seeds=["a"], outputs=[make_output(daemons.output)])
    daemons.run(job)

    output = OutputConnection.objects.get(connector="jsonl")
    connections.clear(output.pk, made_by="a test", now=read_clock())
    wait_for(lambda: held_by(daemons.output) == set(), saying="the output is empty")

    assert daemons.run(job) == "finished"
    assert held_by(daemons.output) == {world.url("a"), world.url("b")}


def test_a_removal_that_an_output_refuses_is_retried_until_it_succeeds(daemons, world):
    world.put("a", links=["b"])
    world.put("b")
    job = world.make_job(seeds=["a"], outputs=[make_output(daemons.output)])
    daemons.run(job)
    world.put("a")

    # An output cannot append to a directory.
    kept = daemons.output.rename(daemons.output.with_suffix(".kept"))
    daemons.output.mkdir()
    daemons.start_job(job)
    wait_for(
        lambda: Job.objects.get().phase == "shutting_down" and Job.objects.get().reason,
        saying="the job shows the reason of the refusal",
    )
    daemons.output.rmdir()
    kept.rename(daemons.output)

    assert daemons.wait_for_end(job) == "finished"
    assert held_by(daemons.output) == {world.url("a")}
    assert Job.objects.get().reason == ""


def test_a_new_output_of_a_job_gets_all_documents_at_the_next_run(daemons, world, tmp_path):
    from django.utils import timezone

    from jobs.verbs import editing

    world.put("a", links=["b"])
    world.put("b")
    first, second = make_output(daemons.output), make_output(tmp_path / "second.jsonl")
    job = world.make_job(seeds=["a"], outputs=[first])
    daemons.run(job)

    editing.change_job(job.pk, outputs=[first, second], made_by="a test", now=timezone.now())
    daemons.run(job)

    assert held_by(tmp_path / "second.jsonl") == {world.url("a"), world.url("b")}
