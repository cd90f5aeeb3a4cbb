"""Proves for both stores that a lock of an item has one holder at a time, for the time of its lease, despite faults."""

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nodes.assignment.pools import WorkItem
from nodes.coordination.names import BadName
from nodes.coordination.port import ItemLock, LockSeen, Unreachable
from tests.support.waiting import wait_until

ITEM = WorkItem("reports", "north")
OTHER_ITEM = WorkItem("reports", "south")
LONG = dt.timedelta(seconds=60)
SHORT = dt.timedelta(seconds=0.4)


@pytest.fixture
def a(bench):
    return bench.node("a")


@pytest.fixture
def b(bench):
    return bench.node("b")


def take(node, item=ITEM, *, lease=LONG, note=""):
    lock = node.acquire(item, lease=lease, note=note)
    assert isinstance(lock, ItemLock), f"the lock is held: {lock}"
    return lock


def wait_for_the_end_of(lock, seen_by):
    """Wait until the lease is over for nodes that do not hold the lock."""
    wait_until(lambda: seen_by.lock_of(lock.item).has_expired)


# --- Acquire and release -------------------------------------------------------------------------


def test_a_free_lock_is_taken(a):
    lock = take(a)

    assert LONG * 0.9 < lock.remaining() <= LONG


def test_a_held_lock_is_refused_with_its_holder_its_time_and_its_purpose(a, b):
    mine = take(a, note="run 7")

    seen = b.acquire(ITEM, lease=LONG)

    assert isinstance(seen, LockSeen)
    assert (seen.item, seen.holder, seen.note, seen.since) == (ITEM, "a", "run 7", mine.since)
    assert seen.host
    assert LONG * 0.9 < seen.remaining <= LONG


def test_a_node_does_not_take_its_own_item_a_second_time(a):
    take(a)

    assert isinstance(a.acquire(ITEM, lease=LONG), LockSeen)


def test_a_released_lock_can_be_taken(a, b):
    assert a.release(take(a))

    take(b)


def test_a_released_lock_cannot_be_released_again(a):
    lock = take(a)
    a.release(lock)

    assert not a.release(lock)


def test_a_released_lock_cannot_be_extended(a):
    lock = take(a)
    a.release(lock)

    assert a.prolong(lock, lease=LONG) is None
    assert a.lock_of(ITEM) is None


def test_a_released_lock_of_another_holder_cannot_be_released_again(a, b):
    lock = take(a)
    a.release(lock)
    take(b)

    assert not a.release(lock)
    assert a.lock_of(ITEM).holder == "b"


def test_items_with_one_name_in_several_jobs_have_separate_locks(a, b):
    take(a, WorkItem("reports", "all"))

    take(b, WorkItem("mails", "all"))


def test_two_clusters_have_separate_locks(bench, a):
    take(a)
    bench.cluster = f"{bench.cluster}-other"

    take(bench.node("c"))


def test_a_lock_that_was_never_taken_does_not_exist(a):
    assert a.lock_of(ITEM) is None
    assert a.locks() == ()


def test_all_locks_are_listed_in_the_order_of_their_items(a, b):
    take(b, OTHER_ITEM)
    take(a)
    take(a, WorkItem("mails", "all"))

    assert [(lock.item, lock.holder) for lock in b.locks()] == [
        (("mails", "all"), "a"),
        (ITEM, "a"),
        (OTHER_ITEM, "b"),
    ]


@pytest.mark.parametrize("item", [WorkItem("reports", "a/b"), WorkItem("reports", ".."), WorkItem("", "all")])
def test_a_lock_without_a_name_is_refused(a, item):
    with pytest.raises(BadName, match=r"it must have 1 to 120 characters of a-z, A-Z, 0-9, '\.', '_' and '-'"):
        a.acquire(item, lease=LONG)


# --- Leases --------------------------------------------------------------------------------------


def test_a_lock_with_an_expired_lease_can_be_taken_by_another_node(a, b):
    wait_for_the_end_of(take(a, lease=SHORT), seen_by=b)

    take(b)

    assert a.lock_of(ITEM).holder == "b"


def test_an_expired_lock_can_be_taken_again_by_the_same_node(a):
    first = take(a, lease=SHORT)
    wait_for_the_end_of(first, seen_by=a)

    assert take(a).token != first.token


def test_the_holder_stops_before_another_node_can_take_the_lock(a, b):
    mine = take(a, lease=SHORT)

    wait_until(lambda: isinstance(b.acquire(ITEM, lease=LONG), ItemLock))

    assert mine.remaining() == dt.timedelta()


def test_a_lock_that_another_node_took_over_cannot_be_extended(a, b):
    lost = take(a, lease=SHORT)
    wait_for_the_end_of(lost, seen_by=b)
    take(b)

    assert a.prolong(lost, lease=LONG) is None
    assert a.lock_of(ITEM).holder == "b"


def test_an_expired_lock_of_another_holder_cannot_be_extended(a, b):
    lost = take(a, lease=SHORT)
    wait_for_the_end_of(lost, seen_by=b)
    wait_for_the_end_of(take(b, lease=SHORT), seen_by=a)

    assert a.prolong(lost, lease=LONG) is None


def test_a_lock_that_another_node_took_over_cannot_be_released(a, b):
    lost = take(a, lease=SHORT)
    wait_for_the_end_of(lost, seen_by=b)
    take(b)

    assert not a.release(lost)
    assert a.lock_of(ITEM).holder == "b"


def test_an_extended_lock_outlives_its_first_lease(a, b):
    first = take(a, lease=SHORT)

    longer = a.prolong(first, lease=LONG)

    wait_until(lambda: first.remaining() == dt.timedelta())
    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    assert longer.remaining() > LONG / 2


def test_an_extended_lock_shows_since_when_it_was_taken(a, b):
    first = take(a, note="run 7")

    longer = a.prolong(first, lease=2 * LONG)

    seen = b.lock_of(ITEM)
    assert (longer.since, longer.token, longer.note) == (first.since, first.token, first.note)
    assert (seen.since, seen.note) == (first.since, first.note)
    assert seen.remaining > LONG


def test_a_lock_that_was_taken_over_shows_the_time_of_the_takeover(a, b):
    first = take(a, lease=SHORT)
    wait_for_the_end_of(first, seen_by=b)

    second = take(b)

    assert second.since - first.since >= SHORT
    assert a.lock_of(ITEM).since == second.since


def test_an_expired_lock_can_be_extended_if_no_node_took_it(a, b):
    lock = take(a, lease=SHORT)
    wait_for_the_end_of(lock, seen_by=b)

    assert a.prolong(lock, lease=LONG) is not None
    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)


def test_an_expired_lock_can_be_released_if_no_node_took_it(a, b):
    lock = take(a, lease=SHORT)
    wait_for_the_end_of(lock, seen_by=b)

    assert a.release(lock)
    assert b.lock_of(ITEM) is None


def test_a_lease_can_be_made_shorter(a, b):
    lock = take(a)

    a.prolong(lock, lease=SHORT)

    wait_until(lambda: isinstance(b.acquire(ITEM, lease=LONG), ItemLock))


# --- Concurrent requests -------------------------------------------------------------------------


def test_one_of_many_simultaneous_takers_gets_the_lock(bench):
    nodes = [bench.node(f"node-{number}") for number in range(6)]

    assert len(take_at_once(nodes)) == 1


def test_one_of_many_simultaneous_successors_gets_the_lock(bench, a):
    nodes = [bench.node(f"node-{number}") for number in range(6)]
    wait_for_the_end_of(take(a, lease=SHORT), seen_by=nodes[0])

    assert len(take_at_once(nodes)) == 1


def test_one_of_many_simultaneous_threads_of_a_node_gets_the_lock(a):
    assert len(take_at_once([a] * 6)) == 1


def take_at_once(nodes):
    """Let all nodes request the lock at the same moment. Return the locks that they got."""
    together = threading.Barrier(len(nodes))

    def ask(node):
        together.wait()
        return node.acquire(ITEM, lease=LONG)

    with ThreadPoolExecutor(len(nodes)) as pool:
        return [lock for lock in pool.map(ask, nodes) if isinstance(lock, ItemLock)]


def test_thirty_locks_are_held_extended_and_released_concurrently(a, b):
    items = [WorkItem("reports", f"part-{number}") for number in range(30)]

    def hold_extend_and_release(number):
        node, item = (a, b)[number % 2], items[number]
        lock = node.prolong(take(node, item), lease=LONG)
        return node.lock_of(item).holder == node.node and node.release(lock)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(hold_extend_and_release, range(30)))
    assert a.locks() == ()


# --- Faults --------------------------------------------------------------------------------------


def test_a_holder_that_is_cut_off_keeps_the_lock_until_its_lease_ends(bench, a, b):
    mine = take(a, lease=dt.timedelta(seconds=1.5))
    bench.cut(a)

    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    wait_until(lambda: isinstance(b.acquire(ITEM, lease=LONG), ItemLock))
    assert mine.remaining() == dt.timedelta()


def test_a_cut_off_holder_cannot_extend_a_lock_and_notices_its_loss_later(bench, a, b):
    mine = take(a, lease=SHORT)
    bench.cut(a)

    with pytest.raises(Unreachable):
        a.prolong(mine, lease=LONG)

    wait_until(lambda: isinstance(b.acquire(ITEM, lease=LONG), ItemLock))
    bench.heal(a)
    wait_until(lambda: is_reachable(a))
    assert a.prolong(mine, lease=LONG) is None


def is_reachable(node):
    try:
        node.lock_of(ITEM)
    except Unreachable:
        return False
    return True


def test_a_holder_that_is_cut_off_for_less_than_its_lease_keeps_the_lock(bench, a, b):
    mine = take(a)
    bench.cut(a)
    with pytest.raises(Unreachable):
        a.lock_of(ITEM)
    bench.heal(a)

    wait_until(lambda: is_reachable(a))

    assert a.prolong(mine, lease=LONG) is not None
    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)


def test_a_lock_outlives_a_restart_of_the_server(bench, a, b):
    mine = take(a)

    bench.restart()

    wait_until(lambda: is_reachable(a) and is_reachable(b))
    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    assert a.release(mine)


def test_while_the_server_is_frozen_no_lock_changes_its_holder(bench, a, b):
    mine = take(a)
    bench.freeze()

    for node in (a, b):
        with pytest.raises(Unreachable):
            node.acquire(OTHER_ITEM, lease=LONG)

    bench.thaw()
    wait_until(lambda: is_reachable(a) and is_reachable(b))
    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    assert a.prolong(mine, lease=LONG) is not None


def test_a_holder_that_leaves_keeps_a_lock_until_its_lease_ends(bench, b):
    leaving = bench.node("c", joins={"reports": ["north"]})
    take(leaving)

    leaving.leave()

    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)


def test_a_holder_that_ends_keeps_the_lock_until_its_lease_ends(bench, a, b):
    take(a, lease=dt.timedelta(seconds=1.5))
    a.close()

    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    wait_until(lambda: isinstance(b.acquire(ITEM, lease=LONG), ItemLock))


def test_a_node_gets_its_lock_by_a_repeated_request_after_a_lost_answer(bench, a, b):
    lost = bench.proxy(a).lose_answer(bench.asks_for_a_lock)
    with pytest.raises(Unreachable):
        a.acquire(ITEM, lease=LONG)
    lost.result(10)
    wait_until(lambda: is_reachable(a))

    mine = take(a)

    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    assert a.release(mine)
