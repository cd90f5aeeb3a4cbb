"""Locks of items have one holder at a time in both stores, for the time of a lease, through all faults."""

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
    assert isinstance(lock, ItemLock), f"it is held: {lock}"
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


def test_a_lock_that_was_given_back_can_be_taken(a, b):
    assert a.release(take(a))

    take(b)


def test_a_lock_that_was_given_back_cannot_be_given_back_again(a):
    lock = take(a)
    a.release(lock)

    assert not a.release(lock)


def test_a_lock_that_was_given_back_cannot_be_prolonged(a):
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


def test_items_of_the_same_name_in_other_jobs_have_locks_of_their_own(a, b):
    take(a, WorkItem("reports", "all"))

    take(b, WorkItem("mails", "all"))


def test_another_cluster_has_locks_of_its_own(bench, a):
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
    with pytest.raises(BadName, match=r"it must be of 1 to 120 characters of a-z, A-Z, 0-9, '\.', '_' and '-'"):
        a.acquire(item, lease=LONG)


# --- Leases --------------------------------------------------------------------------------------


def test_a_lock_whose_lease_is_over_is_taken_by_another_node(a, b):
    wait_for_the_end_of(take(a, lease=SHORT), seen_by=b)

    take(b)

    assert a.lock_of(ITEM).holder == "b"


def test_an_expired_lock_can_be_taken_again_by_the_same_node(a):
    first = take(a, lease=SHORT)
    wait_for_the_end_of(first, seen_by=a)

    assert take(a).token != first.token


def test_the_holder_stops_before_another_can_have_the_lock(a, b):
    mine = take(a, lease=SHORT)

    wait_until(lambda: isinstance(b.acquire(ITEM, lease=LONG), ItemLock))

    assert mine.remaining() == dt.timedelta()


def test_a_lock_that_another_took_over_cannot_be_prolonged(a, b):
    lost = take(a, lease=SHORT)
    wait_for_the_end_of(lost, seen_by=b)
    take(b)

    assert a.prolong(lost, lease=LONG) is None
    assert a.lock_of(ITEM).holder == "b"


def test_a_lock_that_expired_at_another_holder_cannot_be_prolonged(a, b):
    lost = take(a, lease=SHORT)
    wait_for_the_end_of(lost, seen_by=b)
    wait_for_the_end_of(take(b, lease=SHORT), seen_by=a)

    assert a.prolong(lost, lease=LONG) is None


def test_a_lock_that_another_took_over_cannot_be_given_back(a, b):
    lost = take(a, lease=SHORT)
    wait_for_the_end_of(lost, seen_by=b)
    take(b)

    assert not a.release(lost)
    assert a.lock_of(ITEM).holder == "b"


def test_a_lock_that_is_prolonged_outlives_its_first_lease(a, b):
    first = take(a, lease=SHORT)

    longer = a.prolong(first, lease=LONG)

    wait_until(lambda: first.remaining() == dt.timedelta())
    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    assert longer.remaining() > LONG / 2


def test_a_lock_that_is_prolonged_is_held_since_it_was_taken(a, b):
    first = take(a, note="run 7")

    longer = a.prolong(first, lease=2 * LONG)

    seen = b.lock_of(ITEM)
    assert (longer.since, longer.token, longer.note) == (first.since, first.token, first.note)
    assert (seen.since, seen.note) == (first.since, first.note)
    assert seen.remaining > LONG


def test_a_lock_that_is_taken_over_is_held_since_then(a, b):
    first = take(a, lease=SHORT)
    wait_for_the_end_of(first, seen_by=b)

    second = take(b)

    assert second.since - first.since >= SHORT
    assert a.lock_of(ITEM).since == second.since


def test_an_expired_lock_can_be_extended_if_it_was_not_taken(a, b):
    lock = take(a, lease=SHORT)
    wait_for_the_end_of(lock, seen_by=b)

    assert a.prolong(lock, lease=LONG) is not None
    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)


def test_an_expired_lock_can_be_released_if_it_was_not_taken(a, b):
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

    assert len(winners(nodes)) == 1


def test_one_of_many_simultaneous_successors_gets_the_lock(bench, a):
    nodes = [bench.node(f"node-{number}") for number in range(6)]
    wait_for_the_end_of(take(a, lease=SHORT), seen_by=nodes[0])

    assert len(winners(nodes)) == 1


def test_one_of_many_simultaneous_threads_of_a_node_gets_the_lock(a):
    assert len(winners([a] * 6)) == 1


def winners(nodes):
    """Let all nodes ask for the lock at the same moment. Return the locks that they got."""
    together = threading.Barrier(len(nodes))

    def ask(node):
        together.wait()
        return node.acquire(ITEM, lease=LONG)

    with ThreadPoolExecutor(len(nodes)) as pool:
        return [lock for lock in pool.map(ask, nodes) if isinstance(lock, ItemLock)]


def test_thirty_locks_are_held_prolonged_and_given_back_side_by_side(a, b):
    items = [WorkItem("reports", f"part-{number}") for number in range(30)]

    def life(number):
        node, item = (a, b)[number % 2], items[number]
        lock = node.prolong(take(node, item), lease=LONG)
        return node.lock_of(item).holder == node.node and node.release(lock)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(life, range(30)))
    assert a.locks() == ()


# --- Faults --------------------------------------------------------------------------------------


def test_a_holder_that_is_cut_off_keeps_the_lock_until_its_lease_ends(bench, a, b):
    mine = take(a, lease=dt.timedelta(seconds=1.5))
    bench.cut(a)

    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    wait_until(lambda: isinstance(b.acquire(ITEM, lease=LONG), ItemLock))
    assert mine.remaining() == dt.timedelta()


def test_a_cut_off_holder_cannot_prolong_a_lock_and_learns_of_the_loss_on_its_return(bench, a, b):
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


def test_a_frozen_server_neither_gives_nor_takes_a_lock(bench, a, b):
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


def test_a_lock_whose_answer_was_lost_belongs_to_the_node_that_requests_it_again(bench, a, b):
    lost = bench.proxy(a).lose_answer(bench.asks_for_a_lock)
    with pytest.raises(Unreachable):
        a.acquire(ITEM, lease=LONG)
    lost.result(10)
    wait_until(lambda: is_reachable(a))

    mine = take(a)

    assert isinstance(b.acquire(ITEM, lease=LONG), LockSeen)
    assert a.release(mine)
