"""Proves that a worker closes a gate, that documents wait behind the gate, and that each gate opens again."""

import uuid

import pytest

from jobs.connectors.repository.base import Ending
from jobs.duties.context import Pass
from jobs.duties.failover import open_gates
from jobs.duties.finish import end_runs
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Gate, GatedDocument, Job, LaneState, QueueItem
from jobs.queue.flushing.flush import flush
from jobs.queue.flushing.gates import close_gate, open_gate
from jobs.verbs import control
from nodes.membership import leadership, members
from nodes.membership.fences import FenceRefused
from nodes.models import Node
from tests.integration.test_queue_flush import OneWorker, document
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds
from tests.support.factories import make_documents, make_result

GATE = "connection 1: login"
KEY, OTHER_KEY = uuid.uuid4(), uuid.uuid4()
WAITS = {"ending": Ending.WAITING, "code": "LOGIN", "gate": GATE, "references": None}


@pytest.fixture
def crawl(connection):
    made = OneWorker(connection)
    made.term = elect_main(connection, made.running.manager)
    return made


def shut_for(crawl, *, key=KEY, connection=None):
    return close_gate(connection or crawl.connection, gate=GATE, key=key, node=crawl.worker.id, job=crawl.job.pk)


def one_pass(crawl):
    manager = crawl.running.manager
    return Pass(
        connection=crawl.connection,
        me=manager.id,
        scope=manager.scope,
        now=NOON,
        term=crawl.term,
        groups=(crawl.running.group,),
    )


def is_over(crawl):
    """Let the main manager check once. True if the run has ended."""
    end_runs(one_pass(crawl))
    return Job.objects.get(pk=crawl.job.pk).phase != Phase.ACTIVE


# --- Closed and open ------------------------------------------------------------------------------


def test_a_gate_is_closed_by_one_worker_which_may_repeat_the_call(crawl):
    assert shut_for(crawl)
    assert not shut_for(crawl, key=OTHER_KEY)
    assert shut_for(crawl)


def test_only_the_worker_that_closed_a_gate_opens_it(crawl):
    shut_for(crawl)

    open_gate(crawl.connection, gate=GATE, key=OTHER_KEY)
    assert Gate.objects.exists()
    open_gate(crawl.connection, gate=GATE, key=KEY)
    assert not Gate.objects.exists()
    assert shut_for(crawl, key=OTHER_KEY)


def test_no_gate_is_closed_for_a_job_that_must_not_continue(crawl):
    control.pause(crawl.job.pk, made_by="a test", now=NOON)

    assert not shut_for(crawl)
    assert not Gate.objects.exists()


def test_a_worker_that_was_marked_failed_closes_no_gate(crawl):
    leadership.mark_failed(crawl.connection, verdict=fall_silent(crawl.connection, crawl.worker), term=crawl.term)

    with pytest.raises(FenceRefused, match="node fence"):
        shut_for(crawl)


@pytest.mark.parametrize("end", ["failed", "stopped", "forgotten"])
def test_gates_of_lost_nodes_open(crawl, end):
    make_documents(crawl.lane, ["page"])
    other = register_node(crawl.connection, "worker")
    close_gate(crawl.connection, gate=GATE, key=KEY, node=other.id, job=crawl.job.pk)
    crawl.flush(crawl.claim()["page"], **WAITS)
    assert open_gates(one_pass(crawl)) == 0

    if end == "failed":
        leadership.mark_failed(crawl.connection, verdict=fall_silent(crawl.connection, other), term=crawl.term)
    elif end == "stopped":
        members.stop(crawl.connection, node_id=other.id, reason="a test")
    else:
        Node.objects.filter(pk=other.id).delete()

    assert open_gates(one_pass(crawl)) == 1
    assert set(crawl.claim()) == {"page"}


# --- Documents that wait -------------------------------------------------------------------------


def test_documents_behind_a_gate_are_handed_out_when_it_opens(crawl):
    make_documents(crawl.lane, ["a", "b", "c"])
    shut_for(crawl)
    claims = crawl.claim()
    for name in "ab":
        crawl.flush(claims[name], **WAITS)
    assert crawl.claim(now=NOON + seconds(86_400)) == {}
    LaneState.objects.update(ready_at=None)

    open_gate(crawl.connection, gate=GATE, key=KEY)

    assert LaneState.objects.get().ready_at is not None
    assert set(crawl.claim()) == {"a", "b"}
    assert not GatedDocument.objects.exists()


def test_a_document_that_arrives_at_an_open_gate_is_due_immediately(crawl):
    make_documents(crawl.lane, ["page"])

    flushed = crawl.flush(crawl.claim()["page"], **WAITS)

    assert flushed.lanes == {crawl.lane.pk}
    assert set(crawl.claim()) == {"page"}


def test_waiting_at_a_gate_is_no_failure_and_keeps_a_documents_data(crawl):
    make_documents(crawl.lane, ["page"], version="1:v", validators="etag", indexed_before=True)
    shut_for(crawl)

    crawl.flush(crawl.claim()["page"], **{**WAITS, "version": "1:v", "validators": "etag"})

    page = document("page")
    assert (page.stage, page.failures, page.version, page.validators) == (Stage.PENDING, 0, "1:v", "etag")
    assert page.indexed_before


def test_a_run_does_not_end_while_a_document_waits_behind_a_gate(crawl):
    make_documents(crawl.lane, ["page"])
    shut_for(crawl)
    crawl.flush(crawl.claim()["page"], **WAITS)

    assert not is_over(crawl)
    open_gate(crawl.connection, gate=GATE, key=KEY)
    assert not is_over(crawl)
    crawl.flush(crawl.claim()["page"])
    assert is_over(crawl)


def test_a_run_without_other_documents_waits_for_those_behind_a_gate(connection):
    crawl = OneWorker(connection, max_documents=1)
    crawl.term = elect_main(connection, crawl.running.manager)
    make_documents(crawl.lane, ["a", "b"])
    shut_for(crawl)
    crawl.flush(crawl.claim()["a"], **WAITS)

    assert not is_over(crawl)
    open_gate(crawl.connection, gate=GATE, key=KEY)
    assert set(crawl.claim()) == {"a"}


def test_documents_of_a_new_run_do_not_wait_behind_the_gate_of_an_old_run(crawl):
    make_documents(crawl.lane, ["page", "other"])
    shut_for(crawl)
    claims = crawl.claim()
    crawl.flush(claims["page"], **WAITS)
    crawl.begin_the_next_run()
    crawl.flush(claims["other"], names=["page"])
    due = document("page").seq

    open_gate(crawl.connection, gate=GATE, key=KEY)

    assert due is not None
    assert document("page").seq == due


# --- Races ---------------------------------------------------------------------------------------


def test_a_gate_that_opens_waits_for_new_documents_behind_it(crawl, other_connection, rival):
    make_documents(crawl.lane, ["page"])
    shut_for(crawl)
    claimed = crawl.claim()["page"]

    with crawl.connection.transaction():
        crawl.flush(claimed, **WAITS)
        rival.start_and_wait(open_gate, other_connection, gate=GATE, key=KEY)

    rival.result()
    assert QueueItem.objects.get().seq is not None
    assert set(crawl.claim()) == {"page"}


def test_a_document_that_arrives_while_the_gate_opens_finds_it_open(crawl, other_connection, rival):
    make_documents(crawl.lane, ["page"])
    shut_for(crawl)
    claimed = crawl.claim()["page"]
    result = make_result(claimed, crawl.running.facts, lanes=[crawl.lane], **WAITS)

    with crawl.connection.transaction():
        open_gate(crawl.connection, gate=GATE, key=KEY)
        rival.start_and_wait(flush, other_connection, worker=crawl.worker.id, results=[result], now=NOON)

    assert rival.result().lanes == {crawl.lane.pk}
    assert set(crawl.claim()) == {"page"}
