"""Proves that crawlctl works behind a PgBouncer that keeps one session per client, and refuses shared sessions."""

import signal

import pytest

from nodes.database.session_check import check_sessions
from tests.acceptance.test_older_databases import Crawl, replace_database
from tests.support.cluster import TIMEOUT
from tests.support.debian import debian_server
from tests.support.pgbouncer import pgbouncer
from tests.support.processes import QUICK_HEARTS, Database, Machine
from tests.support.tables import each_row

pytestmark = [pytest.mark.debian("postgresql"), pytest.mark.debian("pgbouncer")]

SITE = "http://127.0.0.1:1/"
NODE = "00000000-0000-0000-0000-000000000001"
COMMANDS = [
    ("check_counters",),
    ("crawl", SITE),
    ("demo", "--exit"),
    ("drain", NODE),
    ("host", "example.org"),
    ("job", "list"),
    ("migrate",),
    ("move", "1", "--to", NODE),
    ("rebalance",),
    ("restore", "job", "--run", "1"),
    ("run",),
    ("runjobs",),
    ("runmanager",),
    ("runworker",),
    ("serve",),
    ("settings",),
    ("status",),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # Debian's name for the zone that initdb calls UTC.
    with debian_server(tmp_path_factory.mktemp("pooled") / "server", configuration="timezone = 'Etc/UTC'") as running:
        yield running


@pytest.fixture
def pooled(server, tmp_path):
    with pgbouncer(server, tmp_path / "pgbouncer") as dsn:
        yield Database(dsn)


@pytest.fixture(scope="module")
def shared(server, tmp_path_factory):
    with pgbouncer(server, tmp_path_factory.mktemp("shared") / "pgbouncer", mode="transaction") as dsn:
        yield Database(dsn)


@pytest.fixture
def machine(pooled, tmp_path):
    made = Machine(pooled, tmp_path)
    yield made
    made.clean_up()


def test_sessions_behind_a_pooler_have_the_limits_of_a_node(pooled):
    check_sessions(pooled.dsn, timeout=TIMEOUT, nodes=1)


def test_a_crawl_behind_a_pooler_loses_nothing_to_an_older_dump(machine, server, serve):
    crawl = Crawl.start(machine, serve(pages=400, hosts=2, traps=1, latency_ms=40), **QUICK_HEARTS)

    replace_database(server, dump=crawl.dump(server, older_by=100))

    crawl.assert_nothing_is_lost()
    crawl.assert_it_noticed()
    crawl.running.send(signal.SIGTERM)
    assert crawl.running.wait() == 0


@each_row("command", COMMANDS)
def test_commands_refuse_a_pooler_that_shares_sessions(shared, tmp_path, command):
    ended = Machine(shared, tmp_path).start(*command, CRAWLCTL_VAR=str(tmp_path / "var"))

    assert ended.wait() == 2, ended.err
    (line,) = ended.err.splitlines()
    assert "Set pool_mode = session in PgBouncer" in line
