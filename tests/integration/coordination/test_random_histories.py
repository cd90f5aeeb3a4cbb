"""
Proves by random histories with faults: an item has at most one holder, a cluster has at most one main, and terms only
grow.

Four nodes share jobs while connections are cut, servers restart, and nodes leave, hang and come back. Each node sends
heartbeats, tries to become main, makes plans as main, and holds the locks of its items for a while. All nodes run in
this process, so one clock records when each node held what. The test checks the record afterwards.
"""

import dataclasses
import datetime as dt
import random
import threading
import time
from itertools import pairwise

import pytest

from nodes.assignment.pools import WorkItem, share_out
from nodes.assignment.spread import evenly_spread
from nodes.coordination.port import CoordinationError, ItemLock, NotMain, NotMember, Outdated
from nodes.life.trust_window import seconds_since_boot
from tests.integration.coordination.conftest import TIMEOUT
from tests.support.waiting import wait_until

POOLS = {"one": ["all"], "three": ["a", "b", "c"], "six": list("abcdef")}
ITEMS = {WorkItem(job, item) for job, items in POOLS.items() for item in items}
LEASE = dt.timedelta(seconds=0.8)
SECONDS = 10


@dataclasses.dataclass(order=True)
class HoldingOfItem:
    """
    An item that a node held: from the moment when the node knew of the lock to the moment when the lock may have ended.
    """

    since: float
    until: float
    node: str


class NodeThread(threading.Thread):
    """A node that works in a thread."""

    def __init__(self, bench, name, history):
        super().__init__(daemon=True)
        self._bench, self._history = bench, history
        self.coordination = bench.node(name)
        self.stopping = threading.Event()
        self.hangs = threading.Event()
        self.leaves = threading.Event()
        self.broke = None

    def run(self):
        chance = random.Random(self.coordination.node)
        while not self.stopping.is_set():
            if self.hangs.is_set():
                time.sleep(0.05)
                continue
            # A node without a pause would spend most of the processor's time on repetitions of the same calls.
            time.sleep(0.03)
            try:
                self._take_part(chance)
            except (NotMain, Outdated):
                continue
            except NotMember:
                self._join()
            except CoordinationError:
                time.sleep(0.05)
            except Exception as error:
                self.broke = error
                raise

    def _join(self):
        try:
            self.coordination.join(POOLS)
        except CoordinationError:
            time.sleep(0.05)

    def _take_part(self, chance):
        me = self.coordination
        if self.leaves.is_set():
            self.leaves.clear()
            me.leave()
        me.beat()
        if (leadership := me.campaign()) is not None:
            self._history.terms.append((leadership.term, me.node))
            seen = me.read_state()
            me.assign(share_out(evenly_spread, seen.situation()), seen=seen, leadership=leadership)
        for job, items in me.mine().items():
            self._work(WorkItem(job, chance.choice(sorted(items))), chance)

    def _work(self, item, chance):
        lock = self.coordination.acquire(item, lease=LEASE)
        if not isinstance(lock, ItemLock):
            return
        held = HoldingOfItem(seconds_since_boot(), lock.held_until, self.coordination.node)
        self._history.held.setdefault(item, []).append(held)
        time.sleep(chance.choice([0, 0, 0.01, 0.05]))
        if chance.random() < 0.3 and (longer := self.coordination.prolong(lock, lease=LEASE)) is not None:
            held.until = max(held.until, longer.held_until)
        # In one of ten cases the lock is not released, and another node waits for the end of the lease.
        if chance.random() < 0.9:
            held.until = min(held.until, seconds_since_boot())
            self.coordination.release(lock)


class History:
    """The record of a test. Its lists grow by single appends, which need no lock."""

    def __init__(self):
        self.held = {}
        self.terms = []
        self.mains_at_once = 0


def watch_mains(threads, history, ending):
    while not ending.is_set():
        # Each read of `leadership` checks the clock. A node that had the same leadership in two reads was main all the
        # time between them.
        before = [thread.coordination.leadership for thread in threads]
        again = [thread.coordination.leadership for thread in threads]
        sure = [
            leadership
            for leadership, still in zip(before, again, strict=True)
            if leadership is not None and leadership == still
        ]
        history.mains_at_once = max(history.mains_at_once, len(sure))
        time.sleep(0.002)


def inject_fault(bench, threads, chance):
    """Inject a fault into one node, mostly the main node, or into all nodes."""
    mains = [thread for thread in threads if thread.coordination.leadership is not None]
    thread = chance.choice([*threads, *mains * 4])
    match chance.choice(["cut", "cut", "kill", "hang", "leave", "restart"]):
        case "cut":
            bench.cut(thread.coordination)
            time.sleep(chance.choice([0.2, 1.0, 1.5 * TIMEOUT.total_seconds()]))
            bench.heal(thread.coordination)
        case "kill":
            bench.proxy(thread.coordination).kill()
        case "hang":
            thread.hangs.set()
            time.sleep(chance.choice([0.3, 1.2 * TIMEOUT.total_seconds()]))
            thread.hangs.clear()
        case "leave":
            thread.leaves.set()
        case "restart":
            bench.restart()
    time.sleep(chance.random() * 0.5)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1])
def test_an_item_has_one_holder_a_cluster_one_main_and_terms_only_grow(bench, seed):
    history, chance = History(), random.Random(seed)
    threads = [NodeThread(bench, f"node-{number}", history) for number in range(4)]
    ending = threading.Event()
    watching = threading.Thread(target=watch_mains, args=[threads, history, ending], daemon=True)
    for thread in (*threads, watching):
        thread.start()

    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        inject_fault(bench, threads, chance)

    # In the end, each item has a node again.
    wait_until(lambda: covered(threads) == ITEMS)
    ending.set()
    for thread in threads:
        thread.stopping.set()
    for thread in (*threads, watching):
        thread.join()
    assert [thread.broke for thread in threads] == [None] * 4
    assert history.mains_at_once <= 1
    for item, holders in history.held.items():
        for former, later in pairwise(sorted(holders)):
            assert former.until <= later.since, f"two hold {item}: {former}, {later}"
    mains = {}
    for term, node in history.terms:
        assert mains.setdefault(term, node) == node, f"two nodes had term {term}"
    assert len(mains) > 1, "no fault hit the main manager: this history proves little"


def covered(threads):
    """Return the items that are assigned to nodes, or an empty set if two nodes have the same item."""
    holdings = []
    for thread in threads:
        try:
            holdings += [WorkItem(job, item) for job, items in thread.coordination.mine().items() for item in items]
        except CoordinationError:
            return set()
    return set(holdings) if len(holdings) == len(set(holdings)) else set()
