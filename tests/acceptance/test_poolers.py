"""
Proves that crawlctl works behind a PgBouncer with one session per client, and accepts shared sessions only for the work
of daemons.
"""

import signal
from contextlib import suppress

import pytest
from django.db import ProgrammingError
from django.db import connection as django_connection
from psycopg.conninfo import conninfo_to_dict

from nodes.database.session_check import SessionRefused, check_pooled_sessions, check_sessions, connect_query
from nodes.settings.node_settings import NODE_TIMEOUT
from tests.acceptance.test_daemons import assert_undisturbed
from tests.acceptance.test_older_databases import Crawl, replace_database
from tests.support.cluster import TIMEOUT, seconds
from tests.support.daemons import Cluster
from tests.support.debian import debian_server
from tests.support.pgbouncer import pgbouncer
from tests.support.processes import QUICK_HEARTBEATS, ROOT, Database, Machine
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
    directory = tmp_path_factory.mktemp("pooled") / "server"
    with debian_server(directory, configuration="timezone = 'Etc/UTC'", is_migrated=True) as running:
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


# --- The work of daemons in shared sessions ---------------------------------------------------------


SETTINGS_OF_A_POOLER = connect_query(seconds(2))


@pytest.fixture
def shares(server, tmp_path):
    """Return the address of a PgBouncer that shares two sessions, with the limits of quick nodes."""
    with pgbouncer(
        server, tmp_path / "shares", mode="transaction", connect_query=SETTINGS_OF_A_POOLER, sessions=2
    ) as dsn:
        yield dsn


@pytest.fixture
def cluster(server, tmp_path, django_db_blocker, monkeypatch):
    """Return a cluster on Debian's server, which the ORM of this process reaches directly."""
    usual, facts = django_connection.settings_dict, conninfo_to_dict(server.address)
    options = {name: usual["OPTIONS"][name] for name in ("wait_at_most", "session")}
    of_server = {"HOST": facts["host"], "PORT": facts["port"], "USER": facts["user"], "NAME": facts["dbname"]}
    machine = Machine(Database(server.address), tmp_path)
    django_connection.close()
    for name, value in {**of_server, "OPTIONS": options}.items():
        # The connection object is a proxy of Django, so a patched attribute would be deleted afterwards.
        monkeypatch.setitem(usual, name, value)
    with django_db_blocker.unblock():
        _delete_jobs()
        try:
            yield Cluster(machine)
        finally:
            machine.clean_up()
            _delete_jobs()
            django_connection.close()


def _delete_jobs():
    """Delete all jobs and documents: the tests share the server, and each makes a job of the same name."""
    with suppress(ProgrammingError), django_connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job, jobs_queueitem, jobs_counter, jobs_jobcounter, jobs_counterdelta CASCADE")


def test_managers_and_workers_crawl_exactly_in_shared_sessions(cluster, shares, serve):
    site = serve(pages=150, hosts=2, traps=3)
    assert cluster.machine.start("migrate").wait() == 0
    cluster.start(
        *("runmanager", "runmanager", "runworker", "runworker"), CRAWLCTL_POOLED_DATABASE_URL=shares, **QUICK_HEARTBEATS
    )
    job = cluster.make_job(site)

    assert cluster.run(job) == "finished"

    assert_undisturbed(cluster, job, site)
    sessions = cluster.database.rows(
        "SELECT right(application_name, 4), count(*) FROM pg_stat_activity "
        "WHERE application_name ~ ' (work|beat)$' GROUP BY 1"
    )
    assert dict(map(tuple, sessions))["beat"] == 4
    assert dict(map(tuple, sessions))["work"] <= 2


def test_shared_sessions_without_the_limits_of_a_node_are_refused(server, shared):
    with pytest.raises(
        SessionRefused, match=r"lock_timeout|idle_in_transaction.* Add to the line .* connect_query='SET"
    ):
        check_pooled_sessions(shared.dsn, timeout=TIMEOUT)


def test_the_deployed_pooler_has_the_limits_of_a_node_with_default_settings():
    deployed = (ROOT / "deploy" / "pgbouncer.ini").read_text()

    assert f"connect_query='{connect_query(NODE_TIMEOUT.default)}'" in deployed


# --- Sessions for each client -----------------------------------------------------------------------


def test_sessions_behind_a_pooler_have_the_limits_of_a_node(pooled):
    check_sessions(pooled.dsn, timeout=TIMEOUT, nodes=1)


def test_a_crawl_behind_a_pooler_survives_a_restore_of_an_older_dump(machine, server, serve):
    crawl = Crawl.start(machine, serve(pages=400, hosts=2, traps=1, latency_ms=40), **QUICK_HEARTBEATS)

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
