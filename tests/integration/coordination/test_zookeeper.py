"""
Proves that the tree in ZooKeeper has DJM's layout, needs no idle writes, and survives a server that lost its data.
"""

import datetime as dt
import json
import time

import pytest

from nodes.assignment.pools import WorkItem, share_out
from nodes.assignment.spread import evenly_spread
from nodes.coordination.database import DatabaseTermBound
from nodes.coordination.paths import Tree
from nodes.coordination.port import ItemLock, NotMember, Refused, Unreachable
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address, Session
from tests.integration.coordination.conftest import TIMEOUT
from tests.integration.coordination.test_clusters import POOLS, beat_or_join, rebalance, retry_until_answered
from tests.support.waiting import wait_until
from tests.support.zookeeper import Ensemble

LONG = dt.timedelta(seconds=60)
NORTH = WorkItem("reports", "north")


@pytest.fixture
def bench(zookeeper_bench):
    return zookeeper_bench


@pytest.fixture
def session(bench):
    """Yield a session with which tests read the tree. No node has this session."""
    made = Session(address=Address(hosts=f"127.0.0.1:{bench.server.port}", root=bench.root), timeout=TIMEOUT)
    yield made
    made.end()


@pytest.fixture
def tree(bench):
    return Tree(f"{bench.root}/{bench.cluster}")


# --- The tree ------------------------------------------------------------------------------------


def test_the_tree_has_the_layout_of_djm(bench, session, tree):
    a = bench.node("a", joins=POOLS)
    rebalance(a)
    a.acquire(NORTH, lease=LONG, note="run 7")

    assert session.children(tree.root) == {
        "alive", "leader-latch", "locks", "main-term", "work-pool", "work-pool-version", "worker-assignment-version",
        "worker-version", "workers",
    }  # fmt: skip
    assert session.stat(f"{tree.root}/alive/a").session != 0
    assert session.children(f"{tree.root}/workers/a/available") == {"reports", "mails"}
    assert session.children(f"{tree.root}/workers/a/assigned/reports") == {"north", "south"}
    assert session.children(f"{tree.root}/work-pool/reports") == {"north", "south"}
    lock, _stat = session.get(f"{tree.root}/locks/reports/work-share-north.lock")
    assert {"uuid", "expirationTimestamp", "metadata", "hostname"} < json.loads(lock).keys()


def test_each_transaction_increments_the_versions_of_its_changes(bench, session, tree):
    a = bench.node("a")

    def counted(change):
        paths = (tree.pool_version, tree.worker_version, tree.assignment_version)
        before = [session.get(path)[1].version for path in paths]
        change()
        session.sync(tree.root)
        return tuple(session.get(path)[1].version - old for path, old in zip(paths, before, strict=True))

    assert counted(lambda: a.join(POOLS)) == (1, 1, 0)
    assert counted(lambda: a.change_pool("reports", ["north"])) == (1, 0, 0)
    assert counted(lambda: a.change_pool("reports", ["north"])) == (0, 0, 0)
    assert counted(lambda: rebalance(a)) == (0, 0, 1)
    assert counted(lambda: rebalance(a)) == (0, 0, 0)
    assert counted(a.leave) == (0, 1, 0)


def test_a_cluster_without_changes_writes_nothing(bench):
    nodes = [bench.node(name, joins=POOLS) for name in "abc"]
    for node in nodes:
        node.campaign()
    rebalance(nodes[0])

    def written_in_a_second():
        writes, until = bench.server.writes(), time.monotonic() + 1
        while time.monotonic() < until:
            for node in nodes:
                node.campaign()
                node.mine()
            rebalance(nodes[0])
            nodes[0].forget_idle(seen=nodes[0].read_state(), leadership=nodes[0].leadership)
        return bench.server.writes() - writes

    # Sessions of earlier tests may still end, and each end is a write.
    assert 0 in (written_in_a_second() for _second in range(5))


# --- Permissions ---------------------------------------------------------------------------------


def test_only_holders_of_credentials_read_or_write_the_tree(bench):
    a = bench.node("a", joins=POOLS, credentials="crawl:secret")
    rebalance(a)
    a.acquire(NORTH, lease=LONG)

    for credentials in ("", "crawl:guess", "other:secret"):
        with pytest.raises(Refused, match="refuses us: NoAuthError; look at the credentials"):
            bench.node("b", credentials=credentials)
    assert bench.node("c", joins=POOLS, credentials="crawl:secret").read_state().members.keys() == {"a", "c"}


def test_a_path_with_data_of_another_program_is_not_used(bench, session, tree):
    session.create(bench.root)
    session.create(tree.root, b"brokers of a message queue")

    with pytest.raises(
        Refused, match=f"{tree.root} in ZooKeeper is in use by another application: it holds b'brokers of a message"
    ):
        bench.node("a")

    assert session.children(tree.root) == frozenset()


def test_a_session_with_a_timeout_that_is_too_short_is_refused(bench):
    with pytest.raises(
        Refused, match="grants sessions of at most 60 s, and 100 s were requested: lower the timeout, or raise"
    ):
        bench.node("a", timeout=dt.timedelta(seconds=100))


def test_a_missing_zookeeper_is_reported_within_the_timeout(bench):
    a = bench.node("a", joins={})
    bench.proxy(a).cut(refuses=True)
    bench.proxy(a).kill()
    began_at = time.monotonic()

    with pytest.raises(Unreachable, match=r"ZooKeeper at 127\.0\.0\.1:"):
        a.read_state()

    assert time.monotonic() - began_at < 3 * TIMEOUT.total_seconds()


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("zk1:2181,zk2:2181", "zk1:2181,zk2:2181", "/crawlctl"),
        ("zk1:2181,zk2:2181/teams/search/", "zk1:2181,zk2:2181", "/teams/search"),
        ("zk1", "zk1", "/crawlctl"),
        ("[::1]:2181,10.0.0.1:2181", "[::1]:2181,10.0.0.1:2181", "/crawlctl"),
    ],
)
def test_the_address_of_zookeeper_has_hosts_and_a_path(text, hosts, root):
    assert Address.parse(text) == Address(hosts=hosts, root=root)


@pytest.mark.parametrize(
    ("text", "credentials", "sentence"),
    [
        ("", "", "'' is not an address of ZooKeeper: it must be host:port,host:port/path"),
        ("/crawlctl", "", "'/crawlctl' is not an address of ZooKeeper"),
        ("zk1:2181,", "", "'zk1:2181,' is not an address of ZooKeeper"),
        ("zk1:client", "", "with ports of 1 to 65535"),
        ("zk1:70000", "", "with ports of 1 to 65535"),
        ("zk1:2181/teams//search", "", "'zk1:2181/teams//search' is not an address of ZooKeeper"),
        ("zk1:2181/../search", "", "is not an address of ZooKeeper"),
        ("zk1:2181", "crawl", "the credentials for ZooKeeper must be user:password"),
    ],
)
def test_an_invalid_address_of_zookeeper_is_refused(text, credentials, sentence):
    with pytest.raises(Refused, match=sentence):
        Address.parse(text, credentials=credentials)


def test_an_ensemble_whose_leader_dies_keeps_its_data(bench, tmp_path):
    ensemble = Ensemble(tmp_path / "ensemble")
    address = Address(hosts=ensemble.hosts, root=bench.root)
    nodes = [
        ZooKeeperCoordination(address=address, cluster="jobs", node=name, timeout=dt.timedelta(seconds=8))
        for name in "ab"
    ]
    a, b = nodes
    try:
        for node in nodes:
            node.join(POOLS)
        rebalance(a)
        shares, term = b.read_state().shares, a.leadership.term
        lock = a.acquire(NORTH, lease=LONG)

        ensemble.leader.stop()

        for node in nodes:
            retry_until_answered(node.beat)
        assert retry_until_answered(b.read_state).shares == shares
        assert (a.campaign().term, b.campaign()) == (term, None)
        assert b.lock_of(NORTH).holder == "a"
        assert a.release(lock)
        a.leave()
        assert b.campaign().term > term
    finally:
        for node in nodes:
            node.close()
        ensemble.stop()


# --- A server that lost its data -----------------------------------------------------------------


def reach_term(node, term):
    while (leadership := node.campaign()).term < term:
        node.resign()
    return leadership


def lose_memory(bench, backup=None):
    bench.server.stop()
    bench.server.restore(backup)
    bench.server.start()


def test_terms_still_grow_after_a_server_was_wiped(bench):
    a = bench.node("a", joins=POOLS)
    former = reach_term(a, 3)

    lose_memory(bench)
    wait_until(lambda: a.leadership is None)
    beat_or_join(a)

    assert a.campaign().term > former.term
    assert a.read_state().members == {"a": {"reports", "mails"}}


def test_terms_still_grow_after_a_restore_of_an_old_backup(bench, tmp_path):
    a = bench.node("a", joins=POOLS)
    a.campaign()
    bench.server.stop()
    bench.server.copy_to(tmp_path / "backup")
    bench.server.start()
    beat_or_join(a)
    former = reach_term(a, 5)

    lose_memory(bench, tmp_path / "backup")
    wait_until(lambda: a.leadership is None)
    beat_or_join(a)
    wait_until(lambda: retry_until_answered(a.campaign) is not None)

    assert a.leadership.term > former.term


def test_after_a_wipe_the_term_exceeds_that_of_a_returning_member(bench):
    a = bench.node("a", joins=POOLS)
    former = reach_term(a, 3)
    lose_memory(bench)
    newcomer = bench.node("newcomer", joins=POOLS)
    assert newcomer.campaign().term == 1
    bench.silence(a)

    beat_or_join(a)
    assert a.campaign() is None

    assert newcomer.campaign().term > former.term
    assert rebalance(newcomer) == 3


def test_with_a_term_bound_no_term_is_given_twice(bench, dsn):
    def term_bound():
        return DatabaseTermBound(dsn=dsn, cluster=bench.cluster, node="a", timeout=TIMEOUT)

    a = bench.node("a", joins=POOLS, term_bound=term_bound())
    former = reach_term(a, 3)
    bench.silence(a)
    lose_memory(bench)

    newcomer = bench.node("newcomer", joins=POOLS, term_bound=term_bound())

    assert newcomer.campaign().term > former.term
    assert term_bound().read() == newcomer.leadership.term


def test_the_tree_of_another_database_is_refused_and_stays_unchanged(bench, dsn):
    def term_bound(cluster):
        return DatabaseTermBound(dsn=dsn, cluster=cluster, node="a", timeout=TIMEOUT)

    bench.node("a", joins=POOLS, term_bound=term_bound("ours"))

    with pytest.raises(Refused, match=r"is in use: it belongs to another database; choose another path"):
        bench.node("b", term_bound=term_bound("another"))

    assert set(bench.node("c", joins={}, term_bound=term_bound("ours")).read_state().members) == {"a", "c"}


def test_items_restored_without_members_are_distributed_again(bench, tmp_path):
    a = bench.node("a", joins=POOLS)
    rebalance(a)
    bench.server.stop()
    bench.server.copy_to(tmp_path / "backup")
    bench.server.start()
    bench.silence(a)

    lose_memory(bench, tmp_path / "backup")
    b = bench.node("b", joins=POOLS)
    wait_until(lambda: b.read_state().gone == {"a"})
    wait_until(lambda: b.campaign() is not None)

    seen = b.read_state()
    assert b.assign(share_out(evenly_spread, seen.situation()), seen=seen, leadership=b.leadership) == 3
    with pytest.raises(NotMember):
        retry_until_answered(a.beat)


def test_a_removed_tree_is_created_again_by_a_joining_node(bench, session, tree):
    a = bench.node("a", joins=POOLS)
    former = reach_term(a, 2)

    remove(session, tree.root)

    for call in (a.beat, a.mine, a.campaign):
        with pytest.raises(NotMember):
            call()
    a.join(POOLS)
    assert a.campaign().term > former.term
    assert rebalance(a) == 3


def remove(session, path):
    for child in session.children(path):
        remove(session, f"{path}/{child}")
    session.delete(path)


# --- Locks ---------------------------------------------------------------------------------------


def a_lock_with(**facts):
    fields = {"uuid": "x", "node": "a", "metadata": "", "hostname": "", "since": None, "lease": 60, **facts}
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\x00",
        b"held",
        b"{}",
        b"[1]",
        b"[" * 100_000,
        a_lock_with(lease=1e99),
        a_lock_with(lease=-1),
        a_lock_with(lease=float("nan")),
        a_lock_with(since=float("inf")),
        a_lock_with(since=10**30),
    ],
    ids=range(10),
)
def test_a_lock_that_holds_garbage_counts_as_expired(bench, session, tree, garbage):
    a = bench.node("a")
    session.create(tree.locks("reports"))
    session.create(tree.lock(NORTH), garbage)

    seen = a.lock_of(NORTH)
    assert (seen.holder, seen.has_expired) == ("", True)

    assert isinstance(a.acquire(NORTH, lease=LONG), ItemLock)
    assert a.lock_of(NORTH).holder == "a"


def test_a_recreated_lock_has_another_version_than_the_expired_lock(bench, session, tree):
    a = bench.node("a")
    expired = a.acquire(NORTH, lease=dt.timedelta(0))
    # Versions must not begin again. Otherwise another node could mistake the next lock for this expired one.
    _data, stat = session.get(tree.lock(NORTH))
    a.release(expired)
    a.acquire(NORTH, lease=LONG)

    assert session.get(tree.lock(NORTH))[1].version > stat.version


def test_the_clock_of_a_node_does_not_decide_the_end_of_a_lease(bench, session, tree):
    a, b = bench.node("a"), bench.node("b")
    a.acquire(NORTH, lease=LONG)
    written = json.loads(session.get(tree.lock(NORTH))[0])
    session.set(tree.lock(NORTH), json.dumps({**written, "expirationTimestamp": 0}).encode())

    assert not b.acquire(NORTH, lease=LONG).has_expired
