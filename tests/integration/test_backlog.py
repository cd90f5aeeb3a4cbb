"""Proves that the backlog (documents offered and not yet taken) is bounded, and that each group has its share of it."""

import pytest

from jobs.duties.stuff import stuff_groups
from jobs.models import Batch
from tests.support.cluster import register_node
from tests.support.factories import make_documents, make_lane, make_policy, make_running_job
from tests.support.stepping import Manager

CAPACITY = 100


@pytest.fixture
def manager(connection):
    register_node(connection, "worker", capacity=CAPACITY)
    return Manager(connection)


def make_job_of_hosts(manager, name, *, hosts):
    """Return a running job in a separate group, with a document on each of its hosts."""
    running = make_running_job(manager.node, policy=make_policy(name))
    for number in range(hosts):
        make_documents(make_lane(running.seed, f"{name}{number}.example"), [f"{name} {number}"])
    return running


def offered(running):
    return sum(Batch.objects.filter(group_id=running.group.id, state="available").values_list("documents", flat=True))


def test_a_backlog_that_is_not_taken_does_not_grow(manager):
    running = make_job_of_hosts(manager, "a", hosts=3 * CAPACITY)

    for _ in range(10):
        manager.step(stuff_groups)

    assert offered(running) == CAPACITY


def test_a_group_that_fills_the_backlog_leaves_other_groups_their_share(manager):
    first = make_job_of_hosts(manager, "a", hosts=3 * CAPACITY)
    for _ in range(5):
        manager.step(stuff_groups)
    second = make_job_of_hosts(manager, "b", hosts=10)

    for _ in range(20):
        manager.step(stuff_groups)

    assert offered(second) == 10
    assert offered(first) == CAPACITY
