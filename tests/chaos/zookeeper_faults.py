"""
Faults of ZooKeeper: F8, for clusters that use ZooKeeper in addition to the database.

A fault is a function `inject(cluster, rng, report)` as described in tests/chaos/faults.py.
"""

import datetime as dt
import signal
from contextlib import suppress

from nodes.coordination.membership_session import CLUSTER
from nodes.coordination.paths import Tree
from nodes.coordination.port import CoordinationError
from nodes.coordination.zookeeper_session import Absent, Address, Conflict, Session
from tests.chaos.cluster import TIMEOUT
from tests.chaos.node_faults import pick

_FROZEN_FOR = 8.0
# Largest data of one node that a server accepts, without the overhead of a request.
_FULL = b"x" * 1_000_000


def restart(cluster, rng, report):
    number, away = rng.choice([signal.SIGTERM, signal.SIGKILL]), rng.choice([0.0, TIMEOUT / 2, 3 * TIMEOUT])
    report(f"end ZooKeeper ({number.name}), away for {away:g} s")
    cluster.zookeeper.stop(number)
    yield away
    yield from _start(cluster.zookeeper)


def wipe(cluster, _rng, report):
    report("end ZooKeeper, and start it with nothing")
    cluster.zookeeper.stop()
    cluster.zookeeper.restore(None)
    yield from _start(cluster.zookeeper)


def freeze(cluster, _rng, report):
    report(f"freeze ZooKeeper for {_FROZEN_FOR:g} s")
    cluster.zookeeper.freeze()
    yield _FROZEN_FOR
    cluster.zookeeper.thaw()


def expire(who):
    """Return a fault that cuts a node off from ZooKeeper alone, for longer than its session lasts."""

    def inject(cluster, rng, report):
        node = pick(cluster, rng, who)
        if node is None:
            report("no node is available")
            return
        lasts = rng.choice([1.1, 2.0]) * TIMEOUT
        report(f"cut {node.name} off from ZooKeeper for {lasts:g} s, so that its session expires")
        node.is_affected = True
        try:
            node.zookeeper_proxy.cut()
            yield lasts
            node.zookeeper_proxy.heal()
        finally:
            node.is_affected = False

    return inject


def fill(cluster, _rng, report):
    """Overwrite nodes of the daemons with 1 MB of foreign data."""
    report("fill nodes of ZooKeeper with 1 MB each")
    address = Address.parse(f"127.0.0.1:{cluster.zookeeper.port}")
    tree = Tree(f"{address.root}/{CLUSTER}")
    with suppress(CoordinationError):
        session = Session(address=address, timeout=dt.timedelta(seconds=TIMEOUT))
        for path in (tree.term, tree.worker_version, tree.pools, tree.alive):
            with suppress(Absent, Conflict):
                session.set(path, _FULL)
        session.end()
    yield 0


def _start(zookeeper):
    zookeeper.launch()
    while not zookeeper.answers:
        yield 0.05
