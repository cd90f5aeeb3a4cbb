"""What workers that are gone held comes back: documents to their lanes, places to their bins."""

import pytest

from jobs.models import Batch, Bin, Turn
from jobs.queue.close import close_turns
from jobs.queue.release import release_of_lost_workers
from jobs.queue.stuff import stuff
from jobs.queue.take import take
from nodes import membership
from tests.cluster import NOON, elect_main, fall_silent, register_node
from tests.factories import make_documents, make_lane, make_policy, make_running_job


@pytest.fixture
def worker(connection):
    return register_node(connection, "worker")


@pytest.fixture
def taken(connection, worker):
    """What a worker was given of a job in the middle of its run."""
    manager = register_node(connection, "manager")
    running = make_running_job(manager, policy=make_policy(open_requests=4))
    make_documents(make_lane(running.seed), 3)
    stuff(connection, manager=manager.id, group=running.group, room=100, workers=1, now=NOON)
    return take(connection, worker=worker.id, room=100, idle=True, now=NOON)


def release_after_its_death(connection, worker):
    main = register_node(connection, "manager")
    term = elect_main(connection, main)
    membership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
    return release_of_lost_workers(connection, scope="cluster", term=term, now=NOON)


def places():
    """Turns and requests that are handed out of the one bin."""
    bin_ = Bin.objects.get()
    return bin_.open_turns, bin_.open_requests


def test_the_place_of_a_lost_batch_is_free_again(connection, worker, taken):
    assert places() == (1, 4)

    assert release_after_its_death(connection, worker) == 3

    assert places() == (0, 0)


def test_the_place_of_a_turn_is_free_again_when_its_worker_died_after_its_last_outcome(connection, worker, taken):
    # The batch ends with the flush of its last outcome, its turn is closed by a later statement.
    close_turns(connection, batches=[turn.batch_id for turn in taken.turns], now=NOON)
    assert (Batch.objects.get().state, places()) == ("done", (1, 4))

    release_after_its_death(connection, worker)

    assert places() == (0, 0)
    assert Turn.objects.get().closed_at is not None
    assert Batch.objects.get().state == "done"
