"""
Fixtures for tests of coordination: a cluster in PostgreSQL or ZooKeeper. Tests can cut its network connections and stop
its server.
"""

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import pytest

from nodes.coordination.database import DatabaseCoordination
from nodes.coordination.port import NotMember, Unreachable
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address
from nodes.distributed import DistributedJobManager
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until
from tests.support.zookeeper import ZooKeeper

# Timeout of a node: long enough for a busy machine, short enough for a test to wait for it.
TIMEOUT = dt.timedelta(seconds=2)
JOB = "reports"


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory):
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper") / "server")
    yield server
    server.stop()


@pytest.fixture(params=["database", "zookeeper"])
def bench(request, dsn, zookeeper):
    """Yield a bench on each of the two stores, so that each test of this fixture runs on both."""
    made = DatabaseBench(dsn) if request.param == "database" else ZooKeeperBench(zookeeper)
    yield made
    made.close()


@pytest.fixture
def zookeeper_bench(zookeeper):
    made = ZooKeeperBench(zookeeper)
    yield made
    made.close()


def _could_connect(node):
    """Connect a node; return False if a busy machine lost its new connection."""
    try:
        node.connect()
    except Unreachable:
        return False
    return True


class Bench:
    """The nodes of one cluster. All nodes end when the test ends."""

    def __init__(self):
        self.cluster = f"cluster-{uuid4().hex[:8]}"
        self._made = []
        self._beating = []
        self.proxies = {}

    def node(self, name, *, joins=None, beats=True, timeout=TIMEOUT, **facts):
        """
        Return a connected node with its own network connection. If `joins` is given, the node joins with these pools.
        With `beats`, it sends heartbeats.
        """
        self.proxies[name] = self._proxy()
        node = self._open(name, self.proxies[name], timeout, **facts)
        self._made.append(node)
        wait_until(lambda: _could_connect(node))
        if joins is not None:
            node.join(joins)
            if beats:
                self.let_beat(node)
        return node

    def proxy_of(self, name):
        """Return the proxy for the connections of the node with this name. The first call makes the proxy."""
        if name not in self.proxies:
            self.proxies[name] = self._proxy()
        return self.proxies[name]

    def let_beat(self, node):
        beating = Beating(node)
        self._beating.append(beating)
        return beating

    def silence(self, node):
        """Stop the heartbeats of the node, as if its work hung, and leave its connections open."""
        for beating in self._beating:
            if beating.node is node:
                beating.stop()

    def cut(self, node):
        self.proxies[node.node].cut()

    def heal(self, node):
        self.proxies[node.node].heal()

    def proxy(self, node):
        return self.proxies[node.node]

    def freeze(self):
        """Stop all answers of the server, and keep its connections open."""
        for proxy in self.proxies.values():
            proxy.cut()

    def thaw(self):
        for proxy in self.proxies.values():
            proxy.heal()

    def restart(self):
        """End the server with all its connections, and start it again with the data that it had."""
        for proxy in self.proxies.values():
            proxy.cut(refuses=True)
            proxy.kill()
        for proxy in self.proxies.values():
            proxy.heal()

    def close(self):
        self.thaw()
        for beating in self._beating:
            beating.stop()
        with ThreadPoolExecutor(max(1, len(self._made))) as pool:
            list(pool.map(lambda node: node.close(), self._made))
        for proxy in self.proxies.values():
            proxy.__exit__()


class DatabaseBench(Bench):
    """
    A bench in the tests' PostgreSQL. Faults are injected by proxies in front of the server, because other tests use the
    server, too.
    """

    # Bytes by which a proxy recognizes a request for a lock, and a request to join.
    asks_for_a_lock = b"INSERT INTO nodes_itemlock"
    asks_to_join = b"INSERT INTO nodes_coordinationmember"

    def __init__(self, dsn):
        super().__init__()
        self._dsn = dsn

    def _proxy(self):
        return Proxy.of_database(self._dsn)

    def _open(self, name, proxy, timeout):
        return DatabaseCoordination(dsn=proxy.dsn(self._dsn), cluster=self.cluster, node=name, timeout=timeout)

    def manager_of(self, name):
        """
        Return a constructor `(node, jobs, …)` of DistributedJobManager, which connects through the proxy of this name.
        """
        return partial(DistributedJobManager.on_database, self.proxy_of(name).dsn(self._dsn), self.cluster)


class ZooKeeperBench(Bench):
    """A bench in a ZooKeeper server that the tests started."""

    asks_for_a_lock = b"work-share-"
    asks_to_join = b"/available"

    def __init__(self, server):
        super().__init__()
        self.server = server
        # Each bench has its own path at the top. On a shared path,
        # the first node with credentials would lock out all others.
        self.root = f"/tests-{uuid4().hex[:8]}"

    def _proxy(self):
        return Proxy(("127.0.0.1", self.server.port))

    def _open(self, name, proxy, timeout, *, credentials="", term_bound=None):
        address = Address(hosts=f"127.0.0.1:{proxy.port}", root=self.root, credentials=credentials)
        return ZooKeeperCoordination(
            address=address, cluster=self.cluster, node=name, timeout=timeout, term_bound=term_bound
        )

    def manager_of(self, name):
        """Return a constructor of DistributedJobManager, as `DatabaseBench.manager_of` does."""
        hosts = f"127.0.0.1:{self.proxy_of(name).port}"
        return partial(DistributedJobManager.on_zookeeper, hosts, f"{self.root}/{self.cluster}")

    def freeze(self):
        self.server.freeze()

    def thaw(self):
        super().thaw()
        self.server.thaw()

    def restart(self):
        self.server.stop()
        self.server.start()


class Beating:
    """
    Sends the heartbeats of a node, and never makes it join again. Sets `ended` when the node is no longer a member.
    """

    def __init__(self, node):
        self.node = node
        self.ended = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stopping.set()
        self._thread.join()

    def _run(self):
        while not self._stopping.wait(TIMEOUT.total_seconds() / 10):
            try:
                self.node.beat()
            except Unreachable:
                continue
            except NotMember:
                self.ended.set()
                return
