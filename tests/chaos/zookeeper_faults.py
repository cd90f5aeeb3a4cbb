"""
Faults of ZooKeeper: F8, for clusters that have it beside the database.

A fault is a function `happen(cluster, dice, report)` as described in tests/chaos/faults.py.
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
# The largest data of one node that a server accepts, minus the overhead of a request.
_FULL = b"x" * 1_000_000


def restart(cluster, dice, report):
    number, away = dice.choice([signal.SIGTERM, signal.SIGKILL]), dice.choice([0.0, TIMEOUT / 2, 3 * TIMEOUT])
    report(f"end ZooKeeper ({number.name}), away for {away:g} s")
    cluster.zookeeper.stop(number)
    yield away
    yield from _start(cluster.zookeeper)


def wipe(cluster, _dice, report):
    report("end ZooKeeper, and start it with nothing")
    cluster.zookeeper.stop()
    cluster.zookeeper.restore(None)
    yield from _start(cluster.zookeeper)


def freeze(cluster, _dice, report):
    report(f"freeze ZooKeeper for {_FROZEN_FOR:g} s")
    cluster.zookeeper.freeze()
    yield _FROZEN_FOR
    cluster.zookeeper.thaw()


def expire(who):
    """Return a fault that cuts a node off from ZooKeeper alone, for longer than its session lasts."""

    def happen(cluster, dice, report):
        node = pick(cluster, dice, who)
        if node is None:
            report("nobody to hit")
            return
        lasts = dice.choice([1.1, 2.0]) * TIMEOUT
        report(f"cut {node.name} off from ZooKeeper for {lasts:g} s, so that its session expires")
        node.is_in_trouble = True
        try:
            node.other_proxy.cut()
            yield lasts
            node.other_proxy.heal()
        finally:
            node.is_in_trouble = False

    return happen


def fill(cluster, _dice, report):
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
