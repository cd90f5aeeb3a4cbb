"""
What coordination costs, in both stores: `python -m tests.benchmarks.coordination`.

Two clusters: 8 nodes with DJM's 44 jobs of 372 items, and 100 nodes with 100 jobs of 10,000 items. Of each is told how long the main
takes to look, to plan and to write when all items are shared out for the first time, when a node has left, and when one has
come; how many items change hands; and how many transactions that wrote something, the main's beat among them. Then the same of a calm
cluster, and what a lock costs.
"""

import argparse
import datetime as dt
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import django
import psycopg

from nodes.assignment.pools import WorkItem, share_out
from nodes.assignment.spread import evenly_spread
from nodes.coordination.database import DatabaseCoordination
from nodes.coordination.port import Coordination, ItemLock
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address
from tests.benchmarks import databases
from tests.benchmarks.strategies import POOLS
from tests.zookeeper import ZooKeeper

_TIMEOUT = dt.timedelta(seconds=60)
_LARGE = {f"job-{job}": [f"item-{job}-{item}" for item in range(100)] for job in range(100)}
_CLUSTERS: Sequence[tuple[str, int, Mapping[str, Sequence[str]]]] = (
    ("8 nodes, 44 jobs, 372 items", 8, POOLS),
    ("100 nodes, 100 jobs, 10,000 items", 100, _LARGE),
)
_LOCKS = 200

_TRANSACTIONS = "SELECT pg_current_xact_id()::text::bigint"


class Store:
    """One of the stores: opens nodes, and counts what was written."""

    def __init__(self, name: str, open_: Callable[[str, str], Coordination], written: Callable[[], int]) -> None:
        self.name, self.open, self.written = name, open_, written


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
    return 0


@contextmanager
def _database(directory: Path) -> Iterator[Store]:
    with databases.embedded(directory / "var") as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        from jobs.loops.database import database_dsn

        dsn = database_dsn()
        asked = itertools.count(1)

        def written() -> int:
            with psycopg.connect(dsn) as connection:
                (number,) = connection.execute(_TRANSACTIONS).fetchone() or (0,)
            # To ask for the number of a transaction is one, and the one before asked, too.
            return int(number) - next(asked)

        def opened(cluster: str, node: str) -> Coordination:
            return DatabaseCoordination(dsn=dsn, cluster=cluster, node=node, timeout=_TIMEOUT)

        yield Store("PostgreSQL", opened, written)


@contextmanager
def _zookeeper(directory: Path) -> Iterator[Store]:
    server = ZooKeeper(directory / "zookeeper")

    def opened(cluster: str, node: str) -> Coordination:
        address = Address(hosts=f"127.0.0.1:{server.port}", root="/bench")
        return ZooKeeperCoordination(address=address, cluster=cluster, node=node, timeout=_TIMEOUT)

    try:
        yield Store("ZooKeeper", opened, server.writes)
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
            # Its row is a member for as long as the timeout: the server has not a connection for each.
            member.close()
    _tell(f"{store.name}, {title}: joining took {time.perf_counter() - began_at:.1f} s")
    main_node, last = members[0], f"node-{nodes - 1}"
    _tell_of(store, title, "shared out for the first time", [_rebalance(store, main_node)])
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
    _tell_of(store, title, "a node has left", left)
    _tell_of(store, title, "a node has come", come)
    # The one that came last has gone with its connection.
    _rebalance(store, main_node)
    before = store.written()
    took = [_rebalance(store, main_node)[0] for _round in range(rounds)]
    _tell(
        f"{store.name}, {title}, calm: {1000 * statistics.median(took):.0f} ms a look, {store.written() - before} transactions in {rounds} looks"
    )
    for member in members:
        member.close()


def _rebalance(store: Store, main_node: Coordination) -> tuple[float, int, int]:
    before, began_at = store.written(), time.perf_counter()
    main_node.beat()
    office = main_node.campaign()
    assert office is not None
    seen = main_node.look()
    moved = main_node.assign(share_out(evenly_spread, seen.situation()), seen=seen, office=office)
    took = time.perf_counter() - began_at
    return took, moved, store.written() - before


def _tell_of(store: Store, title: str, case: str, measured: Sequence[tuple[float, int, int]]) -> None:
    took, moved, written = (statistics.median(column) for column in zip(*measured, strict=True))
    _tell(f"{store.name}, {title}, {case}: {1000 * took:.0f} ms, {moved:,.0f} moves, {written:,.0f} transactions")


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
    _tell(
        f"{store.name}: a lock is taken in {1000 * statistics.median(taken):.1f} ms and given back in "
        f"{1000 * statistics.median(given_back):.1f} ms"
    )


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
