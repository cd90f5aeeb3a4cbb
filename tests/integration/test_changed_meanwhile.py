"""Proves that no concurrent change of a lane, a bin or a counter is lost while another step waits for the same row."""

import pytest

from jobs.models import Bin, BinState, Counter, CounterDelta, LaneState, Turn
from jobs.queue.counting.counters import fold
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.close import ClosedTurn, close_turns
from jobs.queue.take import take
from tests.support.cluster import NOON, elect_main
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_running_job

OTHERS_CHANGE = "UPDATE jobs_lanestate SET served_at = clock_timestamp(), version = version + 1"


@pytest.fixture
def running(manager):
    return make_running_job(manager, policy=make_policy(open_requests=1000))


def stuff_all(connection, running):
    return stuff(connection, manager=running.manager.id, group=running.group, room=1000, workers=1, now=NOON).documents


def take_all(connection, worker):
    return take(connection, worker=worker.id, room=1000, idle=True, now=NOON).documents


def test_a_lane_that_changes_while_its_turn_is_taken_is_still_woken(
    connection, other_connection, rival, running, worker
):
    make_documents(make_lane(running.seed), 100)
    assert stuff_all(connection, running)
    assert LaneState.objects.get().ready_at > NOON

    with connection.transaction():
        connection.execute(OTHERS_CHANGE)
        rival.start_and_wait(take_all, other_connection, worker)

    assert rival.result()
    assert LaneState.objects.get().ready_at == NOON


def test_a_lane_that_changes_while_it_is_filled_is_still_woken(connection, other_connection, rival, running):
    lane = make_lane(running.seed, ready_at=None)

    with connection.transaction():
        connection.execute(OTHERS_CHANGE)
        rival.start_and_wait(close_turns, other_connection, filled=[lane.pk], now=NOON)

    assert rival.result() == 1
    assert LaneState.objects.get().ready_at == NOON


def test_a_closing_turn_frees_its_places_at_the_old_and_the_new_ip_address(
    connection, other_connection, rival, running
):
    lane = make_lane(running.seed)
    address = make_bin("192.0.2.1", namespace=Bin.ADDRESS, state={"open_turns": 1, "open_requests": 2})
    BinState.objects.filter(bin=lane.bin_id).update(open_turns=1, open_requests=2)
    turn = Turn.objects.create(
        batch_id=1, lane=lane, bin=lane.bin, documents=1, requests=2, gap=0.0, parents={address.pk: [0.0, None]}
    )

    with connection.transaction():
        connection.execute(
            "UPDATE jobs_binstate SET closed_at = clock_timestamp(), version = version + 1 WHERE bin_id = %s",
            [address.pk],
        )
        rival.start_and_wait(close_turns, other_connection, turns=[ClosedTurn(turn.pk, None)], now=NOON)
    rival.result()

    assert set(BinState.objects.values_list("open_turns", "open_requests")) == {(0, 0)}
    assert Turn.objects.get().closed_at is not None


def test_counts_that_two_mains_add_concurrently_are_not_lost(connection, other_connection, rival, running, manager):
    term = elect_main(connection, manager)
    facts = {"job_id": 1, "lane_id": 1, "run_no": 1, "measure": "stage"}
    Counter.objects.create(**facts, amount=10)
    CounterDelta.objects.create(**facts, amount=3)

    with connection.transaction():
        connection.execute("UPDATE jobs_counter SET amount = amount + 4")
        rival.start_and_wait(fold, other_connection, term=term, now=NOON)
    rival.result()

    assert Counter.objects.get().amount == 17
    assert not CounterDelta.objects.exists()
