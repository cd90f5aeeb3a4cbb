"""Proves that the documents of a dead worker return to their lanes, and its open requests to their bins."""

import pytest

from jobs.duties.housekeep import forget_scope
from jobs.lifecycle.document import Action, Stage
from jobs.models import Batch, BinState, IndexedDocument, Job, LaneState, QueueItem, Turn
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.close import ClosedTurn, Pace, close_turns
from jobs.queue.release import give_back, give_back_batches, release_of_lost_workers, withdraw_reserved_for_absent
from jobs.queue.take import take
from jobs.throttling.bins import DOCUMENTS_A_TURN
from nodes.membership import leadership
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds
from tests.support.factories import (
    make_documents,
    make_lane,
    make_output,
    make_policy,
    make_reference,
    make_result,
    make_running_job,
    state_of,
)


@pytest.fixture
def running(connection):
    """Return a job in the middle of its run."""
    return make_running_job(register_node(connection, "manager"), policy=make_policy(open_requests=4))


@pytest.fixture
def taken_turns(connection, running, worker):
    """Return the turns that the worker took from this job."""
    make_documents(make_lane(running.seed), 3)
    stuff_all(connection, running)
    return take_all(connection, worker)


def stuff_all(connection, running):
    return stuff(connection, manager=running.manager.id, group=running.group, room=100, workers=1, now=NOON)


def take_all(connection, worker):
    return take(connection, worker=worker.id, room=100, idle=True, now=NOON)


def release_after_its_death(connection, worker):
    main = register_node(connection, "manager")
    term = elect_main(connection, main)
    leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
    return release_of_lost_workers(connection, scope="cluster", term=term, now=NOON)


def places():
    """Return the open turns and requests of the only bin."""
    state = BinState.objects.get()
    return state.open_turns, state.open_requests


def test_the_place_of_a_lost_batch_is_free_again(connection, worker, taken_turns):
    assert places() == (1, 4)

    assert release_after_its_death(connection, worker) == 3

    assert places() == (0, 0)


def test_one_pass_of_the_main_manager_releases_a_limited_number(connection, running, worker, monkeypatch):
    monkeypatch.setattr("jobs.queue.release._BATCHES_A_CHUNK", 1)
    for host in ("a.example", "b.example"):
        make_documents(make_lane(running.seed, host), [f"{host}/{number}" for number in range(2)])
        stuff_all(connection, running)
    take_all(connection, worker)
    sent_batches = Batch.objects.filter(state="sent").count()
    assert sent_batches > 1
    term = elect_main(connection, register_node(connection, "manager"))
    leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)

    passes = [
        release_of_lost_workers(connection, scope="cluster", term=term, now=NOON, enough=1)
        for _ in range(sent_batches + 1)
    ]

    assert (sum(passes), passes[-1]) == (4, 0)
    assert all(passes[:-1])


def test_a_worker_that_was_marked_failed_closes_no_turn_and_ends_no_batch(connection, worker, taken_turns):
    term = elect_main(connection, register_node(connection, "manager"))
    leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
    before = places()

    close_turns(
        connection,
        turns=[ClosedTurn(turn.id, None) for turn in taken_turns.turns],
        batches=[turn.batch_id for turn in taken_turns.turns],
        now=NOON,
    )

    assert (Batch.objects.get().state, places()) == ("sent", before)


def test_the_place_of_a_turn_is_free_after_its_worker_died(connection, worker, taken_turns):
    # The flush of the last outcome ends the batch. A later statement closes the turn.
    close_turns(connection, batches=[turn.batch_id for turn in taken_turns.turns], now=NOON)
    assert (Batch.objects.get().state, places()) == ("done", (1, 4))

    release_after_its_death(connection, worker)

    assert places() == (0, 0)
    assert Turn.objects.get().closed_at is not None
    assert Batch.objects.get().state == "done"


def test_an_ended_batch_is_not_released_since_its_requests_may_be_open(connection, worker, taken_turns):
    batches = [turn.batch_id for turn in taken_turns.turns]
    close_turns(connection, batches=batches, now=NOON)

    give_back_batches(connection, worker=worker.id, batches=batches, now=NOON)

    assert (Batch.objects.get().state, places()) == ("done", (1, 4))


def test_a_document_given_back_by_its_worker_does_not_count_as_failed(connection, worker, taken_turns):
    claims = [claimed for turn in taken_turns.turns for claimed in turn.documents]

    assert give_back(connection, worker=worker.id, claims=claims, now=NOON) == 3

    assert set(QueueItem.objects.values_list("stage", "failures", "failing_since", "losses")) == {
        (Stage.PENDING, 0, None, 0)
    }


def test_new_links_are_handed_out_although_their_worker_died_unnoticed(connection, running, worker, taken_turns):
    """A worker wakes lanes after its flush. This lane slept too long to be among the recently served ones."""
    term = elect_main(connection, running.manager)
    found = make_lane(running.seed, "b.example", ready_at=None, served_at=NOON - seconds(3600))
    claimed = taken_turns.turns[0].documents[0]
    result = make_result(claimed, running.facts, lanes=[found], names=[make_reference("new", host="b.example")])
    flush(connection, worker=worker.id, results=[result], now=NOON)
    leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)

    release_of_lost_workers(connection, scope=worker.scope, term=term, now=NOON)

    assert state_of(found).ready_at == NOON


def test_a_deleted_scope_leaves_no_places_of_its_turns_in_use(connection, worker, taken_turns):
    assert places() == (1, 4)

    forget_scope(connection, scope="cluster")

    assert places() == (0, 0)
    assert not Batch.objects.exists()
    assert not Turn.objects.exists()


def test_documents_lost_with_workers_are_offered_alone_and_then_fail(connection, running):
    make_documents(make_lane(running.seed), 3)
    term = elect_main(connection, register_node(connection, "manager"))
    handed_out = []

    while QueueItem.objects.filter(stage=Stage.PENDING).exists():
        LaneState.objects.update(ready_at=NOON)
        stuff_all(connection, running)
        worker = register_node(connection, "worker")
        handed_out.append(take_all(connection, worker).documents)
        leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
        release_of_lost_workers(connection, scope="cluster", term=term, now=NOON)

    assert handed_out == [3, 3, *9 * [1]]
    assert set(QueueItem.objects.values_list("stage", "result_code")) == {(Stage.DONE, "WORKER_LOST")}


@pytest.mark.parametrize(
    ("intervals", "then"),
    [
        ({"recrawl_after": seconds(60)}, (NOON + seconds(60), Action.PROCESS)),
        ({"recrawl_after": seconds(60), "expire_after": seconds(30)}, (NOON + seconds(30), Action.EXPIRE)),
        ({"expire_after": seconds(90)}, (NOON + seconds(90), Action.EXPIRE)),
        ({}, (None, Action.PROCESS)),
    ],
)
def test_a_lost_document_of_a_continuous_job_is_due_again_after_it_failed(connection, running, worker, intervals, then):
    make_documents(make_lane(running.seed), 1, losses=4)
    Job.objects.update(kind="continuous", **intervals)
    stuff_all(connection, running)
    take_all(connection, worker)

    release_after_its_death(connection, worker)

    item = QueueItem.objects.get()
    assert (item.stage, item.result_code) == (Stage.DONE, "WORKER_LOST")
    assert (item.check_time, item.action) == then


def test_a_lost_document_is_read_whole_and_written_only_if_it_changed(connection, tmp_path):
    output = make_output(tmp_path / "out.jsonl")
    running = make_running_job(register_node(connection, "manager"), policy=make_policy(), output=output)
    (page,) = make_documents(make_lane(running.seed), ["page"], version="1:v1", validators="etag", indexed_before=True)
    IndexedDocument.objects.create(output=output, hash=page.hash, version="1:v1", indexed_at=NOON)
    term = elect_main(connection, running.manager)
    known = []

    for _ in range(2):
        LaneState.objects.update(ready_at=NOON)
        stuff_all(connection, running)
        worker = register_node(connection, "worker")
        document = take_all(connection, worker).turns[0].documents[0].document
        known.append((document.version, document.validators))
        leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
        release_of_lost_workers(connection, scope="cluster", term=term, now=NOON)

    assert known == [("1:v1", "etag"), ("1:v1", "")]


# --- Batches kept for one worker -----------------------------------------------------------------


@pytest.fixture
def reserved_batch(connection, running, worker):
    """Return the turn of a worker, and the batch that continues this turn and is reserved for the same worker."""
    make_documents(make_lane(running.seed), DOCUMENTS_A_TURN + 8)
    stuff_all(connection, running)
    (turn,) = take_all(connection, worker).turns
    LaneState.objects.update(ready_at=NOON)
    assert stuff_all(connection, running).documents == 8
    return turn, Batch.objects.get(state="available")


def withdraw_in(connection, after):
    return withdraw_reserved_for_absent(connection, scope="cluster", now=NOON + seconds(after))


def test_a_batch_that_its_worker_does_not_take_is_offered_to_other_workers(connection, running, reserved_batch):
    turn, batch = reserved_batch
    close_turns(connection, turns=[ClosedTurn(turn.id, Pace(0.0))], now=NOON)

    assert withdraw_in(connection, after=10) == 0
    assert withdraw_in(connection, after=20) == 8

    batch.refresh_from_db()
    assert (batch.state, places()) == ("released", (0, 0))
    assert QueueItem.objects.filter(batch=batch.pk).count() == 0
    LaneState.objects.update(ready_at=NOON)
    stuff_all(connection, running)
    assert take_all(connection, register_node(connection, "worker")).documents == 8


def test_a_batch_is_reserved_as_long_as_its_preceding_turn_lasts(connection, reserved_batch):
    assert withdraw_in(connection, after=3600) == 0


def test_a_batch_for_a_worker_of_another_scope_is_released_immediately(connection, reserved_batch):
    elsewhere = register_node(connection, "worker", scope="crawl:elsewhere")
    Batch.objects.filter(state="available").update(worker_id=elsewhere.id)

    assert withdraw_in(connection, after=0) == 8
