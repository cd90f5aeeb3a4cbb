"""Proves that daemons choose a main manager, and see which daemons are present, by membership sessions in ZooKeeper."""

import threading

import pytest

from nodes.assignment.pools import WorkItem
from nodes.coordination.membership_session import GROUPS, StoreSession, reach, session_timeout
from nodes.coordination.port import Refused, Unreachable
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address
from nodes.metrics import node_metrics
from tests.integration.coordination.conftest import TIMEOUT
from tests.support.waiting import wait_until


class SessionOfNode:
    """
    A membership session of a node with its own network connection. The node is fit to be main until a test changes
    that.
    """

    def __init__(self, bench, name, *, is_candidate=True, **facts):
        self.is_fit = self.acts = True
        self.changes = threading.Semaphore(0)
        self.store = bench.node(name, timeout=session_timeout(TIMEOUT), **facts)
        self.membership = StoreSession(
            self.store,
            timeout=TIMEOUT,
            is_candidate=is_candidate,
            is_fit=self._is_fit,
            changed=self.changes.release,
        )
        self.membership.start()

    def _is_fit(self):
        if self.acts:
            self.membership.note_leading()
        return self.is_fit

    @property
    def is_chosen(self):
        return self.membership.is_chosen


@pytest.fixture
def open_membership(zookeeper_bench):
    sessions = []

    def make(name, **facts):
        sessions.append(SessionOfNode(zookeeper_bench, name, **facts))
        return sessions[-1]

    yield make
    zookeeper_bench.thaw()
    for one in sessions:
        one.membership.stop()


@pytest.fixture
def two(open_membership):
    """Return the session of the elected main, then the session of the other node."""
    first = open_membership("first")
    wait_until(lambda: first.is_chosen)
    second = open_membership("second")
    wait_until(lambda: first.membership.present == {"first", "second"})
    return first, second


def test_one_member_is_chosen_and_knows_the_present_members(two, open_membership):
    first, second = two

    worker = open_membership("worker", is_candidate=False)

    wait_until(lambda: first.membership.present == {"first", "second", "worker"})
    assert (first.is_chosen, second.is_chosen, worker.is_chosen) == (True, False, False)
    assert second.membership.present is None


def test_other_members_are_notified_that_a_lost_member_is_no_longer_present(two):
    first, second = two
    while first.changes.acquire(blocking=False):
        pass

    second.membership.stop()

    assert first.changes.acquire(timeout=10)
    wait_until(lambda: first.membership.present == {"first"})


def test_an_unfit_member_gives_up_the_latch_and_is_a_candidate_again_later(two):
    first, second = two

    first.is_fit = False
    wait_until(lambda: second.is_chosen)

    assert not first.is_chosen
    first.is_fit = True
    wait_until(lambda: second.membership.present == {"first", "second"})
    second.is_fit = False
    wait_until(lambda: first.is_chosen)


def test_a_node_that_stays_unfit_loses_its_session(two):
    first, second = two

    second.is_fit = False

    wait_until(lambda: first.membership.present == {"first"})


def test_a_node_shows_whether_it_has_its_membership_session(open_membership):
    one = open_membership("one")
    wait_until(lambda: node_metrics.IS_MEMBER.read() == {(): 1})

    one.is_fit = False

    wait_until(lambda: node_metrics.IS_MEMBER.read() == {(): 0})


def test_a_node_that_withdraws_its_candidacy_is_still_present(two):
    first, second = two

    first.membership.stand_down()

    wait_until(lambda: second.is_chosen and second.membership.present == {"first", "second"})
    second.membership.stop()
    assert not first.is_chosen


def test_a_chosen_node_that_does_not_become_main_lets_another_try(two):
    first, second = two

    first.acts = False

    wait_until(lambda: second.is_chosen)
    assert not first.is_chosen


def test_a_cut_off_node_is_no_longer_chosen_when_another_node_is_chosen(two, zookeeper_bench):
    first, second = two

    zookeeper_bench.cut(first.store)
    while not second.is_chosen:
        assert not (first.is_chosen and second.is_chosen)

    assert not first.is_chosen
    zookeeper_bench.heal(first.store)
    wait_until(lambda: second.membership.present == {"first", "second"})


@pytest.fixture
def mirrored(zookeeper_bench):
    """Return a function that reads the mirrored owners and groups, or (None, None) if the store shows nothing."""
    watcher = zookeeper_bench.node("watcher")

    def look():
        try:
            seen = watcher.read_state()
        except (Refused, Unreachable):
            return None, None
        return dict(seen.shares), seen.pools.get(GROUPS)

    return look


def test_groups_are_shown_as_a_pool_and_their_owners_as_shares(two, mirrored):
    first, _second = two

    first.membership.mirror({"1": "first", "2": "second", "3": None, "4": "an absent node"})

    shown = {WorkItem(GROUPS, "1"): "first", WorkItem(GROUPS, "2"): "second"}
    wait_until(lambda: mirrored() == (shown, {"1", "2", "3", "4"}))


def test_only_the_chosen_member_mirrors_groups_and_writes_only_changes(two, zookeeper_bench, mirrored):
    first, second = two
    first.membership.mirror({"1": "first"})
    shown = ({WorkItem(GROUPS, "1"): "first"}, {"1"})
    wait_until(lambda: mirrored() == shown)
    before = zookeeper_bench.server.writes()

    second.membership.mirror({"7": "second"})
    first.membership.mirror({"1": "first"})
    mirrored()

    assert zookeeper_bench.server.writes() == before
    assert mirrored() == shown


def test_mirrored_groups_are_written_again_after_zookeeper_was_wiped(two, zookeeper_bench, mirrored):
    first, second = two
    first.membership.mirror({"1": "first", "2": "second"})
    second.membership.mirror({"1": "first", "2": "second"})
    wait_until(lambda: len(mirrored()[0] or ()) == 2)

    zookeeper_bench.server.stop()
    zookeeper_bench.server.restore(None)
    zookeeper_bench.server.start()

    wait_until(lambda: len(mirrored()[0] or ()) == 2)
    assert first.is_chosen != second.is_chosen


def test_each_retry_of_a_lost_store_is_logged_until_the_last_one(caplog):
    nowhere = Address.parse("127.0.0.1:1")
    store = ZooKeeperCoordination(address=nowhere, cluster="cluster", node="node", timeout=TIMEOUT / 10)

    with pytest.raises(Unreachable, match="did not answer"):
        reach(store, gives_up=lambda: False)

    messages = [record.message for record in caplog.records if record.name == "nodes.coordination.membership_session"]
    assert [line.partition(" to reach")[0] for line in messages] == [f"attempt {number} of 5" for number in range(1, 6)]
    store.close()
