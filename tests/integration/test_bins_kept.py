"""Workers keep their bins: the same hosts go to the same worker, as long as it comes for them."""

import pytest

from jobs.models import LaneState
from jobs.queue.stuff import stuff
from jobs.queue.take import take
from nodes.models import Node
from tests.cluster import NOON, register_node, seconds
from tests.factories import make_documents, make_lane, make_policy, make_running_job

HOSTS = [f"h{number}.example" for number in range(24)]


@pytest.fixture
def workers(connection):
    return [register_node(connection, "worker") for _ in range(3)]


@pytest.fixture
def running(connection):
    running = make_running_job(register_node(connection, "manager"), policy=make_policy(open_requests=2, min_gap=1.0))
    for host in HOSTS:
        make_documents(make_lane(running.seed, host), [f"{host} {number}" for number in range(3)])
    return running


def stuff_all(connection, running, workers, *, now=NOON):
    keepers = [worker.id for worker in workers]
    stuff(
        connection,
        manager=running.manager.id,
        group=running.group,
        room=1000,
        workers=len(keepers),
        keepers=keepers,
        now=now,
    )


def hosts_of(connection, worker, *, now=NOON, **facts):
    taken = take(connection, worker=worker.id, room=1000, idle=True, now=now, **facts)
    return {turn.bin for turn in taken.turns}


def test_each_worker_gets_the_hosts_that_it_keeps(connection, running, workers):
    stuff_all(connection, running, workers)

    shares = [hosts_of(connection, worker) for worker in workers]

    assert set.union(*shares) == set(HOSTS)
    assert sum(len(share) for share in shares) == len(HOSTS)
    assert all(shares)


def test_what_its_keeper_does_not_come_for_another_worker_takes(connection, running, workers):
    stuff_all(connection, running, workers)
    hosts_of(connection, workers[0])

    assert hosts_of(connection, workers[0]) == set()
    assert hosts_of(connection, workers[0], now=NOON + seconds(1))


def test_a_strict_worker_leaves_the_hosts_of_others_alone_until_they_are_gone(connection, running, workers):
    stuff_all(connection, running, workers)
    mine = hosts_of(connection, workers[0], strict=True)
    later = NOON + seconds(60)
    assert hosts_of(connection, workers[0], strict=True, now=later) == set()

    Node.objects.filter(pk__in=[worker.id for worker in workers[1:]]).update(status="stopped", stopped_at=NOON)
    rest = set()
    while found := hosts_of(connection, workers[0], strict=True, now=later):
        rest |= found

    assert mine | rest == set(HOSTS)


def test_what_follows_a_turn_comes_before_what_was_offered_earlier_and_has_its_room(connection, workers):
    running = make_running_job(register_node(connection, "manager"), policy=make_policy(open_requests=2, min_gap=0.5))
    worker, lane = workers[0], make_lane(running.seed, "long.example")
    make_documents(lane, [f"long {number}" for number in range(30)])
    stuff_all(connection, running, [])
    (open_turn,) = take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns
    LaneState.objects.update(ready_at=None)
    for host in HOSTS:
        make_documents(make_lane(running.seed, host), [f"{host} {number}" for number in range(3)])
    stuff_all(connection, running, [])
    LaneState.objects.filter(lane=lane).update(ready_at=NOON)
    stuff_all(connection, running, [])

    size = len(open_turn.documents)
    narrow = take(connection, worker=worker.id, room=size + 72, reserved=size + 10, idle=False, now=NOON)
    none = take(connection, worker=worker.id, room=72, reserved=10, idle=False, now=NOON)
    others = take(connection, worker=worker.id, room=72, idle=False, now=NOON)

    assert [turn.follows for turn in narrow.turns] == [open_turn.id]
    assert (none.documents, others.documents) == (0, 63)
