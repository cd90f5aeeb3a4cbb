"""Fleets of applications with distributed jobs, in either store; each of them is a process."""

from uuid import uuid4

import pytest

from tests.distributed_jobs import DIARY
from tests.fleet import Fleet, Nursery
from tests.integration.coordination.conftest import bench, zookeeper, zookeeper_bench
from tests.processes import Database
from tests.proxy import Proxy

__all__ = ["bench", "zookeeper", "zookeeper_bench"]

# For processes of `manage.py`: a node that is silent for so many seconds is gone.
TIMEOUT = 3.0
QUICK = ("--set", f"cluster.node_timeout={TIMEOUT:g}", "--set", f"cluster.heartbeat_interval={TIMEOUT / 6:g}")


@pytest.fixture(scope="session")
def nursery(tmp_path_factory):
    made = Nursery(tmp_path_factory.mktemp("applications"))
    yield made
    made.end()


@pytest.fixture
def fleet(bench, nursery):
    made = Fleet(bench, nursery)
    yield made
    made.end()


@pytest.fixture
def zookeeper_fleet(zookeeper_bench, nursery):
    """The same where what is looked at is ZooKeeper's."""
    made = Fleet(zookeeper_bench, nursery)
    yield made
    made.end()


# --- Processes of `manage.py` --------------------------------------------------------------------


class InDatabase:
    """The store of a test's processes where that is PostgreSQL."""

    def __init__(self, database):
        self._database = database

    def line(self):
        return Proxy.of_database(self._database.dsn)

    def said(self, line=None):
        """What the environment of a process says, whose way there is a line or none."""
        address = {} if line is None else {"DATABASE_URL": Database(line.dsn(self._database.dsn)).url}
        return {"CRAWLCTL_COORDINATION": "DATABASE", **address}


class InZooKeeper:
    """The same in ZooKeeper, below a path that no other test has."""

    def __init__(self, server):
        self._port = server.port
        self._path = f"/tests-{uuid4().hex[:8]}"

    def line(self):
        return Proxy(("127.0.0.1", self._port))

    def said(self, line=None):
        port = self._port if line is None else line.port
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
    """Starts processes that do the job of the diary; `command` is runjobs, or whatever does distributed jobs too."""

    def start(*arguments, command="runjobs", jobs="tests.distributed_jobs:Diary", **environment):
        said = {"CRAWLCTL_DISTRIBUTED_JOBS": jobs, DIARY: str(diary), **environment}
        return machine.start(command, *QUICK, *arguments, **said)

    return start
