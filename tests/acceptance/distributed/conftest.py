"""Fixtures for fleets of applications with distributed jobs, in either store. Each application is a process."""

from uuid import uuid4

import pytest

from tests.integration.coordination.conftest import bench, zookeeper, zookeeper_bench
from tests.support.distributed_jobs import DIARY
from tests.support.fleet import ApplicationForkServer, Fleet
from tests.support.processes import Database
from tests.support.proxy import Proxy

__all__ = ["bench", "zookeeper", "zookeeper_bench"]

# Seconds of silence after which a process of `manage.py` counts as failed.
TIMEOUT = 3.0
QUICK = ("--set", f"cluster.node_timeout={TIMEOUT:g}", "--set", f"cluster.heartbeat_interval={TIMEOUT / 6:g}")


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory):
    made = ApplicationForkServer(tmp_path_factory.mktemp("applications"))
    yield made
    made.end()


@pytest.fixture
def fleet(bench, fork_server):
    made = Fleet(bench, fork_server)
    yield made
    made.end()


@pytest.fixture
def zookeeper_fleet(zookeeper_bench, fork_server):
    """Return a fleet in ZooKeeper, for tests about ZooKeeper alone."""
    made = Fleet(zookeeper_bench, fork_server)
    yield made
    made.end()


# --- Processes of `manage.py` --------------------------------------------------------------------


class InDatabase:
    """PostgreSQL as the store of a test's processes."""

    def __init__(self, database):
        self._database = database

    def make_proxy(self):
        return Proxy.of_database(self._database.dsn)

    def environment(self, proxy=None):
        """
        Return the environment for a process that reaches the store through `proxy`, or directly if `proxy` is
        None.
        """
        address = {} if proxy is None else {"DATABASE_URL": Database(proxy.dsn(self._database.dsn)).url}
        return {"CRAWLCTL_COORDINATION": "DATABASE", **address}


class InZooKeeper:
    """ZooKeeper as the store of a test's processes, below a path that no other test uses."""

    def __init__(self, server):
        self._port = server.port
        self._path = f"/tests-{uuid4().hex[:8]}"

    def make_proxy(self):
        return Proxy(("127.0.0.1", self._port))

    def environment(self, proxy=None):
        port = self._port if proxy is None else proxy.port
        return {"CRAWLCTL_COORDINATION": "ZOOKEEPER", "CRAWLCTL_ZOOKEEPER": f"127.0.0.1:{port}{self._path}"}


@pytest.fixture(params=["DATABASE", "ZOOKEEPER"])
def store(request, machine):
    if request.param == "DATABASE":
        return InDatabase(machine.database)
    return InZooKeeper(request.getfixturevalue("zookeeper"))


@pytest.fixture
def diary(tmp_path):
    return tmp_path / "diary"


@pytest.fixture
def start_jobs(machine, diary):
    """
    Start processes that run the job of the diary. `command` is runjobs, or another command that runs distributed jobs.
    """

    def start(*arguments, command="runjobs", jobs="tests.support.distributed_jobs:Diary", **environment):
        values = {"CRAWLCTL_DISTRIBUTED_JOBS": jobs, DIARY: str(diary), **environment}
        return machine.start(command, *QUICK, *arguments, **values)

    return start
