"""Proves that the control partition sends the map of slots, and that the other partitions apply it."""

import asyncio
from dataclasses import replace

import pytest

from jobs.loops.worker.jobs import JobTable, read_job
from jobs.models import PartitionedJob
from jobs.partitions.facts import send_fact, sent_fact
from jobs.partitions.placement import SLOTS, slot_of
from jobs.partitions.slots import KEY, SlotMap, keep_map
from jobs.partitions.this_partition import following, placement, placement_of_hosts
from jobs.queries.partitions import read_partitions
from tests.support.cluster import NOON
from tests.support.factories import make_running_job
from tests.support.partitions import be_partition
from tests.support.stepping import Main

HOST = "news.example"


def with_host_in(name):
    """
    Return a second map: the slot of the host is in this partition, and all other slots are in the other partition.
    """
    other = {"a": "b", "b": "a"}[name]
    return SlotMap(2, tuple(name if slot == slot_of(HOST) else other for slot in range(SLOTS)))


def test_the_control_partition_sends_a_map_with_equal_parts_at_first(connection, settings):
    be_partition(settings, "a")

    assert keep_map(connection, placement())

    first = sent_fact(connection, "a", "b", KEY)
    assert first == {"epoch": 0, "owners": [["a", 512], ["b", 512]]}
    assert SlotMap.from_json(first, "ab") == SlotMap.even("ab")


def test_a_received_map_is_stored_once(connection, settings):
    be_partition(settings, "a")
    keep_map(connection, placement())

    assert not keep_map(connection, placement())


@pytest.fixture
def follower(connection, settings):
    be_partition(settings, "b")
    send_fact(connection, "a", "b", KEY, with_host_in("a").as_json())


def test_a_partition_applies_the_map_that_it_receives(connection, follower):
    assert placement_of_hosts(connection) == replace(placement(), owners=SlotMap.even("ab").owners)

    assert keep_map(connection, placement())

    assert placement_of_hosts(connection).foreign(HOST) == "a"
    assert [one.slots for one in read_partitions(placement(), now=NOON)] == [1, 1023]


def test_a_partition_keeps_its_map_while_a_subscription_begins_again(connection, follower):
    keep_map(connection, placement())

    connection.execute("DELETE FROM jobs_partitionfact WHERE source = 'a'")
    keep_map(connection, placement())

    assert placement_of_hosts(connection).foreign(HOST) == "a"


def test_workers_read_a_job_again_after_a_new_map(connection, follower):
    with following():
        running = make_running_job(Main(connection).node)
    PartitionedJob.objects.create(job=running.job, number=7)
    before = read_job(connection, job_id=running.job.pk)

    keep_map(connection, placement())

    after = read_job(connection, job_id=running.job.pk)
    assert after.revision == before.revision + 1
    assert asyncio.run(partition_of_host(after)) == "a"


async def partition_of_host(row):
    """Return the partition to which a worker sends references to the host."""
    table = JobTable()
    table.add(row)
    (job,) = table._jobs.values()
    await table.close()
    return job.facts.partitioned.foreign(HOST)
