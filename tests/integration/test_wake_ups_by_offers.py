"""Proves that an offer first wakes its preferred worker, and then a few others if the offer is not taken."""

import psycopg
import pytest

from jobs.duties.stuff import stuff_groups
from jobs.models import Batch
from jobs.queue.offering.workers import Workers
from jobs.queue.take import take
from jobs.state import channels
from jobs.throttling.preferred_workers import rank_workers
from nodes.membership import members
from tests.support.cluster import NOON, elect_main, register_node, seconds
from tests.support.factories import make_documents, make_lane, make_running_job
from tests.support.stepping import Manager

AT_ONCE = seconds(0)


class Listeners:
    """A session that listens on the channels of some workers."""

    def __init__(self, dsn, workers):
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._workers = {channels.take_of(worker.id): worker.id for worker in workers}
        for channel in self._workers:
            self._connection.execute(f'LISTEN "{channel}"')

    def woken(self):
        """Return the workers that were woken since the last call."""
        return {self._workers[note.channel] for note in self._connection.notifies(timeout=0.05)}

    def close(self):
        self._connection.close()


@pytest.fixture
def workers(connection):
    return [register_node(connection, "worker", capacity=100) for _ in range(5)]


@pytest.fixture
def listeners(dsn, workers):
    listeners = Listeners(dsn, workers)
    yield listeners
    listeners.close()


def offer(connection, running, *, preferred=None, tag="", age=AT_ONCE):
    return Batch.objects.create(
        group_id=running.group.id, node_scope="cluster", kind="process", state="available", documents=1,
        preferred=preferred, tag=tag, created_at=NOON - age,
    )  # fmt: skip


def helpers(connection, workers, *, now=NOON):
    """Return the other workers that a manager wakes for batches that their preferred worker does not take."""
    known = Workers()
    known.read(connection, scope="cluster", now=now)
    return known._helpers(connection, scope="cluster", now=now)


def test_an_offer_wakes_only_the_preferred_worker(connection, workers, listeners):
    manager = Manager(connection)
    running = make_running_job(manager.node)
    lane = make_lane(running.seed, "a.example")
    make_documents(lane, 1)

    assert manager.step(stuff_groups) == 1

    assert listeners.woken() == {rank_workers(lane.bin_id, [worker.id for worker in workers])[0]}


def test_a_worker_with_an_open_offer_is_not_woken_again(connection, workers, listeners):
    manager = Manager(connection)
    running = make_running_job(manager.node)
    for host in range(20):
        make_documents(make_lane(running.seed, f"a{host}.example"), [f"{host}"])
    assert manager.step(stuff_groups) == 20
    assert listeners.woken() == {worker.id for worker in workers}
    for host in range(20):
        make_documents(make_lane(running.seed, f"b{host}.example"), [f"b {host}"])

    assert manager.step(stuff_groups) == 20

    assert listeners.woken() == set()


def test_a_late_batch_wakes_a_few_other_workers_once(connection, workers):
    running = make_running_job(register_node(connection, "manager"))
    offer(connection, running, preferred=workers[0].id, age=seconds(0.4))
    known = Workers()

    first = known._helpers(connection, scope="cluster", now=NOON)
    second = known._helpers(connection, scope="cluster", now=NOON + seconds(1))

    assert len(first) == 2
    assert workers[0].id not in first
    assert second == set()


def test_the_idlest_workers_are_woken_for_a_late_batch(connection, workers):
    running = make_running_job(register_node(connection, "manager"))
    offer(connection, running, preferred=workers[0].id, age=seconds(0.4))
    for worker, claimed in zip(workers, (0, 90, 5, 80, 4), strict=True):
        members.beat(connection, node_id=worker.id, progress={"claimed": claimed})

    assert helpers(connection, workers) == {workers[2].id, workers[4].id}


def test_a_late_batch_wakes_only_workers_with_its_tag(connection, workers):
    running = make_running_job(register_node(connection, "manager"))
    tagged = register_node(connection, "worker", tags=("blue",))
    offer(connection, running, tag="blue", age=seconds(0.4))

    assert helpers(connection, workers) == {tagged.id}


def test_a_fresh_batch_waits_for_its_preferred_worker(connection, workers):
    running = make_running_job(register_node(connection, "manager"))
    offer(connection, running, preferred=workers[0].id)

    assert helpers(connection, workers) == set()


def test_workers_are_found_and_woken_after_the_clock_was_set_back(connection, workers):
    running = make_running_job(register_node(connection, "manager"))
    known = Workers()
    known.read(connection, scope="cluster", now=NOON + seconds(3600))
    known._helpers(connection, scope="cluster", now=NOON + seconds(3600))
    late = register_node(connection, "worker")
    offer(connection, running, preferred=workers[0].id, age=seconds(0.4))

    known.read(connection, scope="cluster", now=NOON)

    assert late.id in known.ids
    assert len(known._helpers(connection, scope="cluster", now=NOON)) == 2


@pytest.mark.parametrize(("workers_counted", "taken"), [(3, 2), (1000, 1)])
def test_a_worker_computes_its_share_from_the_main_managers_count(connection, workers_counted, taken):
    main, worker = register_node(connection), register_node(connection, "worker")
    elect_main(connection, main)
    running = make_running_job(main)
    for host in range(6):
        lane = make_lane(running.seed, f"{host}.example")
        batch = offer(connection, running)
        make_documents(lane, [f"{host}"], stage=1, batch_id=batch.pk)

    members.beat(connection, node_id=main.id, progress={"workers": workers_counted})

    got = take(connection, worker=worker.id, room=100, idle=True, now=NOON)
    assert Batch.objects.filter(state="sent").count() == taken, got
