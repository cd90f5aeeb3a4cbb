"""
Measures the cost of coordination in both stores: `python -m tests.benchmarks.coordination`.

There are two clusters: 8 nodes with DJM's 44 jobs of 372 items, and 100 nodes with 100 jobs of 10,000 items. The main
node reads, plans and writes at the first assignment of all items, after a node has left, and after one has joined. For
each of these the report shows the time and the number of items that change nodes. It also shows the number of
transactions that wrote something, with the main node's heartbeat, and the requests to ZooKeeper.

Then follow the same figures of a calm cluster, and the cost of a lock. After a node falls silent, the time is measured
until another node has its item. Last come the requests that the membership sessions of a calm cluster's daemons send to
ZooKeeper.
"""

import argparse
import datetime as dt
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import django
import psycopg

from nodes.assignment.pools import WorkItem, share_out
from nodes.assignment.spread import evenly_spread
from nodes.coordination.database import DatabaseCoordination
from nodes.coordination.membership_session import StoreSession, session_timeout
from nodes.coordination.port import Coordination, ItemLock
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address
from nodes.distributed.engine.locks import HeldLocks, RunLocks
from nodes.distributed.engine.observer import ObserverGroup
from tests.benchmarks import databases
from tests.benchmarks.strategies import POOLS
from tests.support.zookeeper import ZooKeeper

_TIMEOUT = dt.timedelta(seconds=60)
_LARGE = {f"job-{job}": [f"item-{job}-{item}" for item in range(100)] for job in range(100)}
_CLUSTERS: Sequence[tuple[str, int, Mapping[str, Sequence[str]]]] = (
    ("8 nodes, 44 jobs, 372 items", 8, POOLS),
    ("100 nodes, 100 jobs, 10,000 items", 100, _LARGE),
)
_LOCKS = 200
# Number of items of one job, and of its simultaneous runs.
_ITEMS, _RUNS = 1_000, 50
# Timeout of nodes: short, because the time to notice a silence is a multiple of it.
_SHORT_TIMEOUT = dt.timedelta(seconds=2)
# Number and timeout of daemons by default, and the seconds for which their membership sessions are watched.
_SESSIONS, _NODE_TIMEOUT, _WATCHED = 8, dt.timedelta(seconds=15), 20.0

_TRANSACTIONS = "SELECT pg_current_xact_id()::text::bigint"


class Store:
    """One of the stores. It opens nodes and counts writes, and requests where the server reports them."""

    def __init__(
        self,
        name: str,
        open_: Callable[[str, str, dt.timedelta], Coordination],
        written: Callable[[], int],
        asked: Callable[[], int] | None = None,
    ) -> None:
        self.name, self._open, self.written, self.asked = name, open_, written, asked or (lambda: 0)
        self.reports_requests = asked is not None

    def open(self, cluster: str, node: str, timeout: dt.timedelta = _TIMEOUT) -> Coordination:
        return self._open(cluster, node, timeout)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="coordination", description="Measure what coordination costs.")
    parser.add_argument("--rounds", type=int, default=5, help="of leaving and coming; medians count (%(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        for opened in (_database, _zookeeper):
            with opened(Path(directory)) as store:
                for title, nodes, pools in _CLUSTERS:
                    _measure_rebalances(store, title, nodes=nodes, pools=pools, rounds=options.rounds)
                _measure_locks(store)
                _measure_many_items(store)
                _measure_loss(store, rounds=options.rounds)
                if store.reports_requests:
                    _measure_sessions(store)
    return 0


@contextmanager
def _database(directory: Path) -> Iterator[Store]:
    with databases.embedded(directory / "var") as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        from nodes.database.address import database_dsn

        dsn = database_dsn()
        asked = itertools.count(1)

        def written() -> int:
            with psycopg.connect(dsn) as connection:
                (number,) = connection.execute(_TRANSACTIONS).fetchone() or (0,)
            # The query for the number is a transaction too, and so was each earlier query.
            return int(number) - next(asked)

        def opened(cluster: str, node: str, timeout: dt.timedelta) -> Coordination:
            return DatabaseCoordination(dsn=dsn, cluster=cluster, node=node, timeout=timeout)

        yield Store("PostgreSQL", opened, written)


@contextmanager
def _zookeeper(directory: Path) -> Iterator[Store]:
    server = ZooKeeper(directory / "zookeeper")

    def opened(cluster: str, node: str, timeout: dt.timedelta) -> Coordination:
        address = Address(hosts=f"127.0.0.1:{server.port}", root="/bench")
        return ZooKeeperCoordination(address=address, cluster=cluster, node=node, timeout=timeout)

    def asked() -> int:
        """Return the number of requests, including the pings of sessions."""
        (line,) = (line for line in server.ask("mntr").splitlines() if line.startswith("zk_packets_received"))
        return int(line.split()[1])

    try:
        yield Store("ZooKeeper", opened, server.writes, asked)
    finally:
        server.stop()


def _measure_rebalances(
    store: Store, title: str, *, nodes: int, pools: Mapping[str, Sequence[str]], rounds: int
) -> None:
    began_at = time.perf_counter()
    members = [store.open(f"of-{nodes}", f"node-{number}") for number in range(nodes)]
    for member in members:
        member.connect()
        member.join(pools)
        if isinstance(member, DatabaseCoordination) and member is not members[0]:
            # The row of a dead node stays a member for the timeout. The server has too few connections for one of each
            # node.
            member.close()
    _report(f"{store.name}, {title}: joining took {time.perf_counter() - began_at:.1f} s")
    main_node, last = members[0], f"node-{nodes - 1}"
    _report_of(store, title, "first assignment", [_rebalance(store, main_node)])
    left, come = [], []
    for _round in range(rounds):
        leaving = store.open(f"of-{nodes}", last)
        leaving.connect()
        leaving.join(pools)
        leaving.leave()
        left.append(_rebalance(store, main_node))
        leaving.join(pools)
        come.append(_rebalance(store, main_node))
        leaving.close()
    _report_of(store, title, "a node has left", left)
    _report_of(store, title, "a node has joined", come)
    # The last node left when its connection closed.
    _rebalance(store, main_node)
    before = store.written()
    took = [_rebalance(store, main_node)[0] for _round in range(rounds)]
    _report(
        f"{store.name}, {title}, calm: {1000 * statistics.median(took):.0f} ms a pass, {store.written() - before} transactions in {rounds} passes"
    )
    for member in members:
        member.close()


def _rebalance(store: Store, main_node: Coordination) -> tuple[float, int, int, int]:
    before, asked, began_at = store.written(), store.asked(), time.perf_counter()
    main_node.beat()
    leadership = main_node.campaign()
    assert leadership is not None
    seen = main_node.read_state()
    moved = main_node.assign(share_out(evenly_spread, seen.situation()), seen=seen, leadership=leadership)
    took = time.perf_counter() - began_at
    return took, moved, store.written() - before, store.asked() - asked


def _report_of(store: Store, title: str, case: str, measured: Sequence[tuple[float, int, int, int]]) -> None:
    took, moved, written, asked = (statistics.median(column) for column in zip(*measured, strict=True))
    requests = f", {asked:,.0f} requests" if store.reports_requests else ""
    _report(
        f"{store.name}, {title}, {case}: {1000 * took:.0f} ms, {moved:,.0f} moves, {written:,.0f} transactions{requests}"
    )


def _measure_locks(store: Store) -> None:
    node = store.open("locks", "node")
    node.connect()
    taken, given_back = [], []
    for number in range(_LOCKS):
        began_at = time.perf_counter()
        lock = node.acquire(WorkItem("job", f"item-{number % 20}"), lease=_TIMEOUT)
        taken.append(time.perf_counter() - began_at)
        assert isinstance(lock, ItemLock)
        began_at = time.perf_counter()
        node.release(lock)
        given_back.append(time.perf_counter() - began_at)
    node.close()
    _report(
        f"{store.name}: a lock is taken in {1000 * statistics.median(taken):.1f} ms and released in "
        f"{1000 * statistics.median(given_back):.1f} ms"
    )


def _measure_many_items(store: Store) -> None:
    """Measure the locks of a job with a thousand items: in one run, and in many runs of one item each."""
    node = store.open("many", "node")
    node.connect()
    held = HeldLocks(node, lease=lambda: _TIMEOUT, observer=ObserverGroup([]))
    items = [WorkItem("job", f"item-{number}") for number in range(_ITEMS)]

    def run(some: Sequence[WorkItem]) -> None:
        locks = held.take(some, wanted=lambda: True, stop=lambda: None)
        assert isinstance(locks, RunLocks)
        locks.let_go()

    # In the first round, no lock exists in ZooKeeper.
    run(items)
    began_at = time.perf_counter()
    run(items)
    together = time.perf_counter() - began_at
    began_at = time.perf_counter()
    with ThreadPoolExecutor(_RUNS) as runs:
        list(runs.map(run, [[item] for item in items]))
    apart = time.perf_counter() - began_at
    node.close()
    _report(
        f"{store.name}: locks of {_ITEMS:,} items are taken and released at {_ITEMS / together:,.0f} items/s in one run, "
        f"and at {_ITEMS / apart:,.0f} items/s in runs of one item each, {_RUNS} at a time"
    )


def _measure_loss(store: Store, *, rounds: int) -> None:
    """Measure the time from a node's last heartbeat until another waiting node has its only item."""
    item, took = WorkItem("job", "item"), []
    for number in range(rounds):
        main, heir, lost = (store.open(f"loss-{number}", name, _SHORT_TIMEOUT) for name in ("main", "heir", "lost"))
        for node in (main, heir, lost):
            node.connect()
            node.join({"job": ["item"]})
        beats = [_Beats(node) for node in (main, heir, lost)]
        leadership = main.campaign()
        assert leadership is not None
        main.assign({item: "lost"}, seen=main.read_state(), leadership=leadership)
        lease = lost.acquire(item, lease=_SHORT_TIMEOUT)
        assert isinstance(lease, ItemLock)
        silent_at = beats[2].stop()
        while (seen := main.read_state()).shares.get(item) != "heir":
            if "lost" not in seen.members:
                main.assign({item: "heir"}, seen=seen, leadership=leadership)
            time.sleep(0.02)
        while not isinstance(heir.acquire(item, lease=_SHORT_TIMEOUT), ItemLock):
            time.sleep(0.02)
        took.append((time.monotonic() - silent_at) / _SHORT_TIMEOUT.total_seconds())
        for one in beats[:2]:
            one.stop()
        for node in (main, heir, lost):
            node.close()
    _report(
        f"{store.name}: another node has the item of a silent node {statistics.median(took):.2f} timeouts after "
        f"its last heartbeat (at most {max(took):.2f}), which includes the lease of one timeout"
    )


class _Beats:
    """Heartbeats of a node, ten times in its timeout."""

    def __init__(self, node: Coordination) -> None:
        self._node, self._stopping, self._last_beat_at = node, threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Stop the heartbeats, and return the moment of the last one."""
        self._stopping.set()
        self._thread.join()
        return self._last_beat_at

    def _run(self) -> None:
        while not self._stopping.wait(_SHORT_TIMEOUT.total_seconds() / 10):
            self._last_beat_at = time.monotonic()
            self._node.beat()


def _measure_sessions(store: Store) -> None:
    """Measure the requests of the membership sessions of a calm cluster's managers and workers."""
    ways = [store.open("sessions", f"node-{number}", session_timeout(_NODE_TIMEOUT)) for number in range(_SESSIONS)]
    for way in ways:
        way.connect()
    sessions = [
        StoreSession(way, timeout=_NODE_TIMEOUT, is_candidate=number < 2, is_fit=lambda: True)
        for number, way in enumerate(ways)
    ]
    for membership in sessions:
        membership.start()
    while not any(len(membership.present or ()) == _SESSIONS for membership in sessions):
        time.sleep(0.1)
    for membership in sessions:
        membership.note_leading()
    before, asked = store.written(), store.asked()
    time.sleep(_WATCHED)
    _report(
        f"{store.name}: the sessions of {_SESSIONS} idle daemons (a timeout of {_NODE_TIMEOUT.total_seconds():g} s) send "
        f"{(store.asked() - asked) / _WATCHED:.1f} requests a second, and write {store.written() - before} times in {_WATCHED:g} s"
    )
    for membership in sessions:
        membership.stop()


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
