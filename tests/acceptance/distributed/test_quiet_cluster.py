"""Proves that a cluster in which nothing changes writes only the locks of its runs to ZooKeeper."""

import time

from tests.acceptance.distributed.test_sharing import TEN, wait_for_shares
from tests.support.waiting import wait_until

NAMES = [f"djm{number}" for number in range(5)]


def tree_of(session, path, *, without):
    """Return the versions of a node and of all nodes below it."""
    found = {path: session.stat(path)[0]}
    for child in sorted(session.children(path)):
        if child not in without:
            found |= tree_of(session, f"{path}/{child}", without=())
    return found


def test_a_cluster_without_changes_writes_only_locks(zookeeper_fleet):
    fleet = zookeeper_fleet
    for name in NAMES:
        fleet.start(name, fleet.job("reports", items=TEN), fleet.job("mails"))
    wait_for_shares(fleet, "reports", TEN, on=set(NAMES))
    watcher = fleet.watcher()
    with watcher._asking() as session:
        before = tree_of(session, watcher._tree.root, without=("locks",))

    until = time.monotonic() + 3
    wait_until(lambda: time.monotonic() > until)

    with watcher._asking() as session:
        assert tree_of(session, watcher._tree.root, without=("locks",)) == before
