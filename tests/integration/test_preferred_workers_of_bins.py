"""Proves that each host goes to the same worker, its preferred worker, as long as this worker takes batches."""

import pytest

from jobs.models import Bin, LaneState
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from jobs.throttling.preferred_workers import rank_workers
from nodes.models import Node
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import make_documents, make_lane, make_policy, make_running_job

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
    ids = [worker.id for worker in workers]
    stuff(
        connection,
        manager=running.manager.id,
        group=running.group,
        room=1000,
        workers=len(ids),
        worker_ids=ids,
        now=now,
    )


def hosts_preferring(worker, *, among):
    workers = [node.id for node in among]
    ids = dict(Bin.objects.values_list("name", "id"))
    return {host for host in HOSTS if rank_workers(ids[host], workers)[0] == worker.id}


def hosts_of(connection, worker, *, now=NOON, **facts):
    taken = take(connection, worker=worker.id, room=1000, idle=True, now=now, **facts)
    return {turn.bin for turn in taken.turns}


def all_hosts_of(connection, worker, **facts):
    """Let the worker take batches until none is left for it, because each call takes only some. Return the hosts."""
    found = set()
    while more := hosts_of(connection, worker, **facts):
        found |= more
    return found


def test_each_host_goes_to_its_preferred_worker(connection, running, workers):
    stuff_all(connection, running, workers)

    shares = [hosts_of(connection, worker) for worker in workers]

    assert shares == [hosts_preferring(worker, among=workers) for worker in workers]
    assert set.union(*shares) == set(HOSTS)
    assert all(shares)


def test_hosts_go_to_other_workers_if_their_preferred_worker_takes_none(connection, running, workers):
    stuff_all(connection, running, workers)
    mine = hosts_of(connection, workers[0])

    assert hosts_of(connection, workers[0]) == set()
    assert mine | all_hosts_of(connection, workers[0], now=NOON + seconds(1)) == set(HOSTS)


@pytest.mark.parametrize("end", [{"status": "stopped", "stopped_at": NOON}, {"status": "failed", "stopped_at": NOON}])
def test_a_strict_worker_takes_hosts_of_another_worker_only_after_its_end(connection, running, workers, end):
    first, second, third = workers
    stuff_all(connection, running, workers)
    later = NOON + seconds(60)

    taken = [all_hosts_of(connection, first, strict=True, now=later)]
    for worker in (second, third):
        Node.objects.filter(pk=worker.id).update(**end)
        taken.append(all_hosts_of(connection, first, strict=True, now=later))

    assert taken == [hosts_preferring(worker, among=workers) for worker in workers]


def test_a_successor_is_taken_before_older_offers(connection, workers):
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
