"""Proves that members, pools, the main node, shares and watches work the same in both stores."""

import threading
import time

import pytest

from nodes.assignment.pools import StrategyRefused, WorkItem, share_out
from nodes.assignment.spread import evenly_spread
from nodes.coordination.names import BadName
from nodes.coordination.port import CoordinationError, NotMain, NotMember, Outdated, Unreachable
from tests.integration.coordination.conftest import TIMEOUT
from tests.support.waiting import wait_until

POOLS = {"reports": ["north", "south"], "mails": ["all"]}
NORTH, SOUTH, MAILS = WorkItem("reports", "north"), WorkItem("reports", "south"), WorkItem("mails", "all")


def as_main(node):
    """Make the node the main node. Return its leadership (the proof that it is main) and the cluster as it sees it."""
    leadership = node.campaign()
    assert leadership is not None
    return leadership, node.read_state()


def rebalance(node):
    """
    Let the node read the cluster, distribute the items and write the shares, as a main node does. Return the number of
    items that moved.
    """
    leadership, seen = as_main(node)
    return node.assign(share_out(evenly_spread, seen.situation()), seen=seen, leadership=leadership)


def retry_until_answered(call):
    """Repeat the call until the store answers, and return its result."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return call()
        except Unreachable:
            assert time.monotonic() < deadline


def beat_or_join(node):
    """Send a heartbeat of the node. If the node is no longer a member, let it join again."""
    try:
        retry_until_answered(node.beat)
    except NotMember:
        retry_until_answered(lambda: node.join(POOLS))


def has_left(node, *, seen_by):
    return node.node not in seen_by.read_state().members


# --- Members -------------------------------------------------------------------------------------


def test_a_new_member_shows_its_jobs_and_their_items(bench):
    a = bench.node("a", joins=POOLS)

    seen = bench.node("watcher").read_state()

    assert seen.members == {"a": {"reports", "mails"}}
    assert seen.pools == {"reports": {"north", "south"}, "mails": {"all"}}
    assert (seen.shares, seen.gone, seen.main, seen.term) == ({}, frozenset(), None, 0)
    assert a.is_member
    assert a.mine() == {}


def test_a_node_that_has_not_joined_is_not_a_member(bench):
    stranger = bench.node("a")

    for call in (stranger.beat, stranger.mine, stranger.campaign):
        with pytest.raises(NotMember, match="node a is not a member of cluster"):
            call()
    assert not stranger.is_member


@pytest.mark.parametrize(
    "pools", [{"a job": ["all"]}, {"reports": ["../north"]}, {"reports": [""]}, {"x" * 121: ["all"]}, {".": ["all"]}]
)
def test_an_invalid_name_of_a_job_or_item_is_refused_and_changes_nothing(bench, pools):
    a = bench.node("a")

    with pytest.raises(BadName, match="1 to 120 characters"):
        a.join({"mails": ["all"], **pools})

    assert a.read_state().members == {}
    assert a.read_state().pools == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "ä", "x" * 121])
def test_an_invalid_name_of_a_node_is_refused(bench, name):
    with pytest.raises(BadName, match=r"the node '.*' is invalid"):
        bench.node(name)


def test_a_pool_may_be_empty(bench):
    assert bench.node("a", joins={"reports": []}).read_state().pools == {"reports": frozenset()}


def test_a_member_that_sends_heartbeats_stays_a_member(bench):
    a = bench.node("a", joins=POOLS)
    until = time.monotonic() + 1.5 * TIMEOUT.total_seconds()

    wait_until(lambda: time.monotonic() > until)

    assert a.is_member
    assert not has_left(a, seen_by=bench.node("watcher"))


def test_a_silent_member_notices_the_loss_before_other_members_do(bench):
    a = bench.node("a", joins=POOLS, beats=False)
    b = bench.node("b", joins=POOLS)

    # The node itself always notices first that it is no longer a member, whatever happens in between.
    wait_until(lambda: not a.is_member)
    wait_until(lambda: has_left(a, seen_by=b))

    assert not has_left(b, seen_by=b)


def test_a_cut_off_member_notices_the_loss_before_other_members_do(bench):
    a = bench.node("a", joins=POOLS)
    b = bench.node("b", joins=POOLS)
    bench.cut(a)

    wait_until(lambda: not a.is_member)
    wait_until(lambda: has_left(a, seen_by=b))

    bench.heal(a)
    bench.silence(a)
    retry_until_answered(lambda: a.join(POOLS))
    assert not has_left(a, seen_by=b)


def test_a_member_that_is_cut_off_for_a_moment_stays_a_member(bench):
    a = bench.node("a", joins=POOLS)
    watcher = bench.node("watcher")

    bench.cut(a)
    until = time.monotonic() + TIMEOUT.total_seconds() / 5
    wait_until(lambda: time.monotonic() > until)
    bench.heal(a)

    retry_until_answered(a.beat)
    assert a.is_member
    assert not has_left(a, seen_by=watcher)


def test_a_leaving_member_ends_immediately_and_its_items_become_free(bench):
    a, b = bench.node("a", joins=POOLS), bench.node("b", joins={})
    rebalance(a)
    assert len(a.read_state().shares) == 3

    a.leave()

    seen = b.read_state()
    assert (set(seen.members), seen.gone, seen.shares) == ({"b"}, frozenset(), {})
    with pytest.raises(NotMember):
        a.beat()


def test_a_node_that_joins_again_does_nothing_until_it_has_a_share(bench):
    a = bench.node("a", joins=POOLS)
    rebalance(a)

    a.join({"reports": ["north"]})

    assert a.mine() == {}
    assert a.read_state().members == {"a": {"reports"}}


def test_a_node_whose_join_got_no_answer_soon_stops_being_a_member(bench):
    a, watcher = bench.node("a"), bench.node("watcher")
    lost = bench.proxy(a).lose_answer(bench.asks_to_join)

    with pytest.raises(Unreachable):
        a.join(POOLS)

    lost.result(10)
    assert not a.is_member
    wait_until(lambda: has_left(a, seen_by=watcher))
    with pytest.raises(NotMember):
        retry_until_answered(a.beat)


def test_the_later_of_two_nodes_with_one_name_is_the_member(bench):
    former = bench.node("a", joins=POOLS)
    former.campaign()

    later = bench.node("a", joins={"mails": ["all"]})

    for call in (former.mine, former.campaign, former.beat):
        with pytest.raises(NotMember):
            call()
    assert not former.is_member
    assert former.leadership is None
    assert later.campaign() is not None
    assert later.read_state().members == {"a": {"mails"}}


def test_clusters_do_not_see_each_other(bench):
    bench.node("a", joins=POOLS)
    bench.cluster = f"{bench.cluster}-other"

    assert bench.node("b", joins={}).read_state().members == {"b": frozenset()}


# --- Pools ---------------------------------------------------------------------------------------


def test_a_changed_pool_is_seen_by_other_nodes(bench):
    a = bench.node("a", joins=POOLS)

    assert a.change_pool("reports", ["south", "west"])

    assert bench.node("watcher").read_state().pools["reports"] == {"south", "west"}


def test_an_unchanged_pool_is_not_written(bench):
    a = bench.node("a", joins=POOLS)
    leadership, seen = as_main(a)

    assert not a.change_pool("reports", ["south", "north", "south"])

    # The pool did not change, so a plan made from the earlier look is still valid.
    a.assign(share_out(evenly_spread, seen.situation()), seen=seen, leadership=leadership)


def test_only_a_capable_node_changes_the_pool_of_a_job(bench):
    a = bench.node("a", joins={"mails": ["all"]})
    bench.node("b", joins=POOLS)

    with pytest.raises(NotMember, match="that can do reports"):
        a.change_pool("reports", ["west"])

    assert a.read_state().pools["reports"] == {"north", "south"}


def test_the_latest_node_to_join_sets_the_pool_of_a_job(bench):
    a = bench.node("a", joins={"reports": ["north"]})

    bench.node("b", joins={"reports": ["south", "west"]})

    assert a.read_state().pools == {"reports": {"south", "west"}}


def test_items_with_bad_names_change_no_pool(bench):
    a = bench.node("a", joins=POOLS)

    with pytest.raises(BadName, match="the item of job reports 'no/rth' is invalid"):
        a.change_pool("reports", ["west", "no/rth"])

    assert a.read_state().pools["reports"] == {"north", "south"}


def test_pools_of_jobs_without_a_capable_node_are_deleted(bench):
    a, b = bench.node("a", joins={"mails": ["all"]}), bench.node("b", joins=POOLS)
    b.leave()
    leadership, seen = as_main(a)

    assert a.forget_idle(seen=seen, leadership=leadership) == {"reports"}

    assert a.read_state().pools == {"mails": {"all"}}
    seen = a.read_state()
    assert a.forget_idle(seen=seen, leadership=leadership) == frozenset()


def test_free_locks_of_unknown_items_are_deleted_and_held_locks_stay(bench):
    a = bench.node("a", joins=POOLS)
    old = [a.acquire(WorkItem("reports", item), lease=TIMEOUT * 30) for item in ("yesterday", "today")]
    kept = a.acquire(NORTH, lease=TIMEOUT * 30)
    a.release(old[0])
    leadership, seen = as_main(a)

    a.forget_idle(seen=seen, leadership=leadership)

    assert [lock.item for lock in a.locks()] == [NORTH, ("reports", "today")]
    assert all(a.release(lock) for lock in (old[1], kept))
    assert a.acquire(WorkItem("reports", "yesterday"), lease=TIMEOUT).note == ""


# --- The main ------------------------------------------------------------------------------------


def test_one_of_three_candidates_becomes_main(bench):
    nodes = [bench.node(name, joins={}) for name in "abc"]

    leaderships = [node.campaign() for node in nodes]

    assert [leadership for leadership in leaderships if leadership] == [
        node.leadership for node in nodes if node.leadership
    ]
    (leadership,) = (leadership for leadership in leaderships if leadership)
    assert leadership.term == 1
    assert [(node.read_state().main, node.read_state().term) for node in nodes] == [(leadership.main, 1)] * 3


def test_one_of_many_simultaneous_candidates_becomes_main(bench):
    nodes = [bench.node(f"node-{number}", joins={}) for number in range(5)]
    together = threading.Barrier(5)

    def campaign(node):
        together.wait()
        node.campaign()

    threads = [threading.Thread(target=campaign, args=[node]) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(node.leadership is not None for node in nodes) <= 1
    for node in nodes:
        node.campaign()
    assert sum(node.leadership is not None for node in nodes) == 1


def test_a_main_stays_main_in_the_same_term(bench):
    a, b = bench.node("a", joins={}), bench.node("b", joins={})
    leadership = a.campaign()

    assert b.campaign() is None
    assert a.campaign() == leadership


@pytest.mark.parametrize("way_out", ["resign", "leave"])
def test_a_main_that_resigns_is_replaced_immediately_in_a_higher_term(bench, way_out):
    a, b = bench.node("a", joins={}), bench.node("b", joins={})
    former = a.campaign()
    b.campaign()

    getattr(a, way_out)()

    assert a.leadership is None
    assert b.read_state().main is None
    assert b.campaign().term > former.term


@pytest.mark.parametrize("fault", ["silence", "cut"])
def test_a_lost_main_is_replaced_and_two_mains_never_exist(bench, fault):
    a, b = bench.node("a", joins={}), bench.node("b", joins={})
    former = a.campaign()
    b.campaign()

    getattr(bench, fault)(a)

    def is_followed():
        b.campaign()
        leaderships = [a.leadership, b.leadership]
        assert None in leaderships, f"both are main: {leaderships}"
        return b.leadership is not None

    wait_until(is_followed)
    assert b.leadership.term > former.term


def test_a_lost_main_returns_as_an_ordinary_member(bench):
    a, b = bench.node("a", joins={}), bench.node("b", joins={})
    a.campaign()
    bench.cut(a)
    wait_until(lambda: b.campaign() is not None)
    bench.silence(a)
    bench.heal(a)

    retry_until_answered(lambda: a.join({}))

    assert a.campaign() is None
    assert a.read_state().main == "b"
    assert b.campaign() is not None


# --- Shares --------------------------------------------------------------------------------------


def test_members_read_exactly_the_writes_of_the_main_manager(bench):
    a, b = bench.node("a", joins={"reports": ["north", "south"]}), bench.node("b", joins=POOLS)
    leadership, seen = as_main(a)

    assert a.assign({NORTH: "a", SOUTH: "b", MAILS: "b"}, seen=seen, leadership=leadership) == 3

    assert a.mine() == {"reports": {"north"}}
    assert b.mine() == {"reports": {"south"}, "mails": {"all"}}
    assert a.read_state().shares == {NORTH: "a", SOUTH: "b", MAILS: "b"}


def test_a_plan_writes_only_changed_shares(bench):
    a, b = bench.node("a", joins=POOLS), bench.node("b", joins=POOLS)
    leadership, seen = as_main(a)
    a.assign({NORTH: "a", SOUTH: "a", MAILS: "b"}, seen=seen, leadership=leadership)

    seen = a.read_state()
    assert a.assign({NORTH: "a", SOUTH: "b", MAILS: "b"}, seen=seen, leadership=leadership) == 1

    assert a.mine() == {"reports": {"north"}}
    assert b.mine() == {"reports": {"south"}, "mails": {"all"}}


def test_a_plan_that_changes_nothing_writes_nothing(bench):
    a = bench.node("a", joins=POOLS)
    rebalance(a)
    leadership, seen = as_main(a)

    assert rebalance(a) == 0

    # No share changed, so a plan made from the earlier look is still valid.
    assert a.assign({NORTH: "a"}, seen=seen, leadership=leadership) == 0
    assert a.read_state().shares == {NORTH: "a"}


def test_deleted_items_are_removed_from_the_shares_of_their_nodes(bench):
    a = bench.node("a", joins=POOLS)
    rebalance(a)

    a.change_pool("reports", ["north"])
    rebalance(a)

    assert a.mine() == {"reports": {"north"}, "mails": {"all"}}


def _joins(bench, a):
    bench.node("late", joins=POOLS)


def _pool(bench, a):
    a.change_pool("reports", ["west"])


def _plan(bench, a):
    rebalance(a)


@pytest.mark.parametrize("change", [_joins, _pool, _plan])
def test_a_plan_made_from_outdated_state_is_refused_and_changes_nothing(bench, change):
    a = bench.node("a", joins=POOLS)
    leadership, seen = as_main(a)
    change(bench, a)
    before = a.read_state().shares

    with pytest.raises(Outdated):
        a.assign({NORTH: "a", SOUTH: "a"}, seen=seen, leadership=leadership)

    assert a.read_state().shares == before


def test_a_plan_that_names_a_member_that_has_left_is_refused(bench):
    a, b = bench.node("a", joins=POOLS), bench.node("b", joins=POOLS)
    leadership, seen = as_main(a)
    b.leave()

    with pytest.raises(Outdated):
        a.assign({NORTH: "b"}, seen=seen, leadership=leadership)


def test_a_plan_that_names_an_unknown_node_is_refused(bench):
    a = bench.node("a", joins=POOLS)
    leadership, seen = as_main(a)

    with pytest.raises(ValueError, match="reports/north cannot be assigned to stranger, which is not a member"):
        a.assign({NORTH: "stranger"}, seen=seen, leadership=leadership)


def test_a_strategy_that_loses_items_changes_nothing(bench):
    a = bench.node("a", joins=POOLS)
    rebalance(a)
    before = a.read_state()

    with pytest.raises(StrategyRefused, match="gave no node to mails/all, reports/north, reports/south"):
        share_out(lambda situation, placed: {}, before.situation())

    assert a.read_state().shares == before.shares


def test_a_former_main_writes_nothing(bench):
    a, b = bench.node("a", joins=POOLS), bench.node("b", joins=POOLS)
    leadership, seen = as_main(a)
    a.resign()
    b.campaign()

    with pytest.raises(NotMain, match="term 1 has ended"):
        a.assign({NORTH: "a"}, seen=seen, leadership=leadership)
    with pytest.raises((NotMain, Outdated)):
        a.assign({NORTH: "a"}, seen=a.read_state(), leadership=leadership)

    assert b.read_state().shares == {}


def test_a_main_that_was_frozen_for_too_long_writes_nothing(bench):
    a, b = bench.node("a", joins=POOLS), bench.node("b", joins=POOLS)
    leadership, seen = as_main(a)
    bench.silence(a)
    wait_until(lambda: b.campaign() is not None)

    with pytest.raises(CoordinationError):
        retry_until_answered(lambda: a.assign({NORTH: "a"}, seen=seen, leadership=leadership))

    assert b.read_state().shares == {}


def test_a_lost_member_is_deleted_and_its_items_go_to_other_members(bench):
    a, b = bench.node("a", joins=POOLS), bench.node("b", joins=POOLS, beats=False)
    leadership, seen = as_main(a)
    a.assign({NORTH: "b", SOUTH: "b", MAILS: "a"}, seen=seen, leadership=leadership)
    wait_until(lambda: has_left(b, seen_by=a))
    assert a.read_state().gone == {"b"}

    assert rebalance(a) == 2

    seen = a.read_state()
    assert (set(seen.shares.values()), set(seen.members), seen.gone) == ({"a"}, {"a"}, frozenset())
    with pytest.raises(NotMember):
        retry_until_answered(b.beat)


def test_a_disabled_job_is_given_to_no_node(bench):
    seen = bench.node("a", joins=POOLS).read_state()

    shares = share_out(evenly_spread, seen.situation(disabled={"reports"}))

    assert shares == {MAILS: "a"}


def test_thousands_of_items_move_and_none_has_two_holders(bench):
    pools = {f"job-{job}": [f"item-{item}" for item in range(300)] for job in range(8)}
    a = bench.node("a", joins=pools)
    assert rebalance(a) == 2400

    b = bench.node("b", joins=pools)
    assert rebalance(a) == 1200

    of_a, of_b = a.mine(), b.mine()
    assert all(not of_a[job] & of_b[job] for job in pools)
    assert sum(map(len, of_a.values())) == sum(map(len, of_b.values())) == 1200


# --- Watches -------------------------------------------------------------------------------------


class Woken:
    """A watch of a node that counts its calls."""

    def __init__(self, node):
        self._calls = 0
        node.watch(self._count)
        wait_until(lambda: self._calls > 0)

    def _count(self):
        self._calls += 1

    def by(self, change):
        """Make a change, and wait until the watch is called for it."""
        self._settle()
        before = self._calls
        change()
        wait_until(lambda: self._calls > before)

    def _settle(self):
        while True:
            before = self._calls
            time.sleep(0.1)
            if before == self._calls:
                return


def test_each_reason_for_a_new_plan_wakes_the_watchers(bench):
    woken = Woken(bench.node("watcher"))
    a = bench.node("a")

    woken.by(lambda: a.join(POOLS))
    woken.by(lambda: a.change_pool("reports", ["west"]))
    woken.by(a.campaign)
    woken.by(lambda: rebalance(a))
    woken.by(a.resign)
    woken.by(a.leave)


def test_a_watcher_is_notified_after_a_restart_of_the_server_and_later(bench):
    watcher = bench.node("watcher")
    woken = Woken(watcher)
    a = bench.node("a")

    def restart():
        bench.restart()
        retry_until_answered(watcher.read_state)

    woken.by(restart)

    woken.by(lambda: retry_until_answered(lambda: a.join(POOLS)))


# --- Faults --------------------------------------------------------------------------------------


def test_a_cluster_survives_a_restart_of_the_server(bench):
    a, b = bench.node("a", joins=POOLS), bench.node("b", joins=POOLS)
    rebalance(a)
    shares, term = a.read_state().shares, a.leadership.term

    bench.restart()

    assert retry_until_answered(bench.node("watcher").read_state).shares == shares
    for node in (a, b):
        beat_or_join(node)
    wait_until(lambda: a.campaign() is not None or b.campaign() is not None)
    assert b.read_state().term >= term


def test_at_most_one_main_node_exists_while_the_server_is_frozen(bench):
    a, b = bench.node("a", joins={}), bench.node("b", joins={})
    former = a.campaign()
    bench.freeze()

    wait_until(lambda: a.leadership is None and not a.is_member and not b.is_member)

    bench.thaw()
    for node in (a, b):
        bench.silence(node)
        retry_until_answered(lambda node=node: node.join({}))
        bench.let_beat(node)

    def there_is_a_main():
        for node in (a, b):
            retry_until_answered(node.campaign)
        leaderships = [node.leadership for node in (a, b) if node.leadership]
        assert len(leaderships) < 2
        return bool(leaderships)

    wait_until(there_is_a_main)
    assert retry_until_answered(a.read_state).term > former.term


def test_a_closed_node_sends_no_more_requests(bench):
    a = bench.node("a", joins={})

    a.close()

    assert not a.is_member
    assert a.leadership is None
