"""
Proves that clusters with elections in ZooKeeper survive its faults, and that a main manager also needs its term in
PostgreSQL.
"""

import signal
from contextlib import ExitStack
from uuid import uuid4

import pytest

from nodes.coordination.membership_session import CLUSTER, GROUPS
from nodes.coordination.port import CoordinationError
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address, Session
from tests.acceptance.test_cluster_life import count_events, start_one_by_one, term_of, wait_for_heartbeats
from tests.acceptance.test_daemons import assert_undisturbed, refetches
from tests.support.cluster import seconds
from tests.support.daemons import TAKEOVER_BEATS, beats_to_takeover
from tests.support.processes import QUICK_HEARTBEATS, Machine, copy_of, wait_for
from tests.support.proxy import Proxy
from tests.support.zookeeper import ZooKeeper

HEARTBEAT = float(QUICK_HEARTBEATS["CRAWLCTL_HEARTBEAT_INTERVAL"])
# Limit promised in docs/coordination.md, plus three for a busy machine (in intervals of heartbeats).
BACK_WITHIN_BEATS = 2 + 3


@pytest.fixture
def zookeeper(tmp_path):
    server = ZooKeeper(tmp_path / "zookeeper")
    yield server
    server.stop()


@pytest.fixture
def path():
    return f"/tests-{uuid4().hex[:8]}"


@pytest.fixture
def elected_in_zookeeper(zookeeper, path):
    """
    Return a function that makes the environment of daemons coordinated by that server, optionally through a proxy.
    """

    def environment_of(proxy=None, **environment):
        port = zookeeper.port if proxy is None else proxy.port
        return {
            "CRAWLCTL_COORDINATION": "ZOOKEEPER",
            "CRAWLCTL_ZOOKEEPER": f"127.0.0.1:{port}{path}",
            **environment,
        }

    return environment_of


@pytest.fixture
def watch(zookeeper, path):
    """
    Return a function that begins a session and returns a function that reads the cluster with it.

    The session must outlast a busy machine's pauses. So the session also waits long for a server that refuses the
    session because the server has lost its data. After such a loss a test needs a new session.
    """
    with ExitStack() as closing:

        def begin():
            store = ZooKeeperCoordination(
                address=Address.parse(f"127.0.0.1:{zookeeper.port}{path}"),
                cluster=CLUSTER,
                node="watcher",
                timeout=seconds(60),
            )
            closing.callback(store.close)
            return store.read_state

        yield begin


@pytest.fixture
def look(watch):
    """Return a function that reads the cluster from ZooKeeper."""
    return watch()


def wait_for_term(cluster, term):
    wait_for(lambda: term_of(cluster) == term, saying=f"a manager is main in term {term}")


def has_main(cluster):
    return bool(cluster.database.value("SELECT main_id FROM nodes_mainterm WHERE scope = 'cluster' AND NOT resigned"))


def owners_of(cluster):
    rows = cluster.database.rows("SELECT id, owner_id FROM jobs_throttlegroup WHERE owner_id IS NOT NULL")
    return {str(row.id): str(row.owner_id) for row in rows}


# --- Main managers -------------------------------------------------------------------------------


def test_the_chosen_manager_replaces_a_silent_main_before_the_timeout_ends(cluster, elected_in_zookeeper):
    environment = elected_in_zookeeper(CRAWLCTL_NODE_TIMEOUT="6")
    main, heir = start_one_by_one(cluster, "runmanager", "runmanager", **environment)
    wait_for_term(cluster, 1)
    wait_for_heartbeats(cluster, heir, beats=14)

    main.send(signal.SIGSTOP)
    wait_for_term(cluster, 2)
    main.send(signal.SIGCONT)

    assert cluster.main(main, heir) is heir
    assert "gone from the store of coordination" in cluster.node_of(main).reason
    assert beats_to_takeover(cluster, main, heir) < 6 / HEARTBEAT
    assert main.wait() == 1


def test_a_killed_main_manager_is_replaced_in_time_and_the_crawl_continues(cluster, serve, elected_in_zookeeper):
    site = serve(pages=200, hosts=2, traps=3, latency_ms=60)
    main, heir = start_one_by_one(cluster, "runmanager", "runmanager", **elected_in_zookeeper())
    cluster.start("runworker", "runworker", **elected_in_zookeeper())
    job = cluster.make_job(site)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    main.kill()
    wait_for_term(cluster, 2)

    assert beats_to_takeover(cluster, main, heir) <= TAKEOVER_BEATS
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) == 0
    assert count_events(cluster, "marked_failed") == 1


def test_a_main_in_zookeeper_that_ends_in_order_is_replaced_immediately(cluster, elected_in_zookeeper):
    first, second = start_one_by_one(cluster, "runmanager", "runmanager", **elected_in_zookeeper())
    wait_for_term(cluster, 1)
    wait_for_heartbeats(cluster, second)

    first.send(signal.SIGTERM)

    assert first.wait() == 0
    wait_for_term(cluster, 2)
    assert cluster.main(first, second) is second
    assert count_events(cluster, "marked_failed") == 0


def test_a_main_cut_off_from_zookeeper_resigns_in_time_and_still_works(cluster, serve, zookeeper, elected_in_zookeeper):
    site = serve(pages=300, hosts=2, traps=3, latency_ms=60)
    with Proxy(("127.0.0.1", zookeeper.port)) as line:
        (main,) = cluster.start("runmanager", **elected_in_zookeeper(line))
        wait_for_term(cluster, 1)
        (other,) = cluster.start("runmanager", **elected_in_zookeeper())
        cluster.start("runworker", **elected_in_zookeeper())
        job = cluster.make_job(site)
        cluster.start_job(job)
        wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

        line.cut()
        wait_for_term(cluster, 2)

        assert cluster.main(main, other) is other
        events = cluster.database.rows(
            "SELECT kind, node_id FROM nodes_nodeevent WHERE kind IN ('elected', 'resigned') ORDER BY id"
        )
        first, second = cluster.node_of(main).id, cluster.node_of(other).id
        assert [(event.kind, event.node_id) for event in events] == [
            ("elected", first),
            ("resigned", first),
            ("elected", second),
        ]
        assert cluster.wait_for_end(job) == "finished"
        assert_undisturbed(cluster, job, site)
        assert cluster.node_of(main).status == "running"
        assert count_events(cluster, "marked_failed") == 0
        line.heal()


# --- ZooKeeper disappears and returns ------------------------------------------------------------


def test_a_crawl_runs_without_zookeeper_and_a_main_is_elected_soon_after(
    cluster, serve, zookeeper, elected_in_zookeeper
):
    site = serve(pages=400, hosts=2, traps=3, latency_ms=60)
    managers = start_one_by_one(cluster, "runmanager", "runmanager", **elected_in_zookeeper())
    cluster.start("runworker", "runworker", **elected_in_zookeeper())
    job = cluster.make_job(site)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    zookeeper.stop()
    wait_for(lambda: not has_main(cluster), saying="the main has resigned")
    before = site.count_requests()
    wait_for(lambda: site.count_requests() > before + 40, saying="the crawl goes on")
    assert not has_main(cluster)
    zookeeper.start()
    back_at = cluster.database.value("SELECT clock_timestamp()")
    wait_for_term(cluster, 2)

    elected_at = cluster.database.value("SELECT since FROM nodes_mainterm WHERE scope = 'cluster'")
    assert (elected_at - back_at).total_seconds() < BACK_WITHIN_BEATS * HEARTBEAT
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) == 0
    assert count_events(cluster, "marked_failed") == 0
    assert all(cluster.node_of(manager).status == "running" for manager in managers)


def test_owners_of_groups_are_mirrored_and_written_again_after_a_wipe(
    cluster, serve, zookeeper, elected_in_zookeeper, watch
):
    # A host has an owner only while it is crawled, so the crawl must not end before the test.
    site = serve(pages=400, hosts=2, traps=0)
    start_one_by_one(cluster, "runmanager", "runmanager", **elected_in_zookeeper())
    cluster.start("runworker", **elected_in_zookeeper())
    job = cluster.make_job(site, min_gap=1.0)
    cluster.start_job(job)

    def is_shown(look):
        try:
            shown = {item.item: node for item, node in look().shares.items() if item.job == GROUPS}
        except CoordinationError:
            # The data was wiped, and no node has written it again yet.
            return False
        return shown and shown == owners_of(cluster)

    before = watch()
    wait_for(lambda: is_shown(before), saying="the owners are shown")
    zookeeper.stop()
    zookeeper.restore(None)
    zookeeper.start()

    after = watch()
    wait_for(lambda: is_shown(after), saying="the owners are shown again")
    wait_for(lambda: len(after().members) == 3, saying="all daemons are members again")
    assert count_events(cluster, "marked_failed") == 0


def test_a_cluster_without_changes_writes_nothing_to_zookeeper(cluster, zookeeper, elected_in_zookeeper, look):
    # A busy machine must not end a session, because its node would write a new one.
    environment = elected_in_zookeeper(CRAWLCTL_NODE_TIMEOUT="60")
    managers = start_one_by_one(cluster, "runmanager", "runmanager", **environment)
    workers = cluster.start("runworker", "runworker", **environment)
    wait_for_term(cluster, 1)
    wait_for(lambda: len(look().members) == 4, saying="all daemons have their sessions")
    for daemon in (*managers, *workers):
        wait_for_heartbeats(cluster, daemon)
    before = zookeeper.writes()

    wait_for_heartbeats(cluster, workers[0], beats=8)

    assert zookeeper.writes() == before


# --- Refused starts ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["runmanager", "runworker"])
def test_an_instance_without_zookeeper_logs_each_attempt_and_ends(machine, zookeeper, elected_in_zookeeper, kind):
    zookeeper.stop()

    daemon = machine.start(kind, **(QUICK_HEARTBEATS | elected_in_zookeeper(CRAWLCTL_NODE_TIMEOUT="1")))

    assert daemon.wait() == 1
    assert [f"attempt {number} of 5" in daemon.err for number in range(1, 7)] == [True] * 5 + [False]
    assert "Traceback" not in daemon.err
    assert machine.database.value("SELECT count(*) FROM nodes_node") == 0


def test_other_credentials_are_refused_with_a_reason(cluster, elected_in_zookeeper):
    mine = elected_in_zookeeper(CRAWLCTL_ZOOKEEPER_CREDENTIALS="crawl:secret")
    cluster.start("runmanager", **mine)
    wait_for_term(cluster, 1)

    other = cluster.machine.start(
        "runmanager", **QUICK_HEARTBEATS, **elected_in_zookeeper(CRAWLCTL_ZOOKEEPER_CREDENTIALS="crawl:wrong")
    )

    assert other.wait() == 1
    assert "refuses us" in other.err
    assert "credentials" in other.err
    assert "Traceback" not in other.err


def test_a_path_with_data_of_another_program_is_not_changed(machine, zookeeper, elected_in_zookeeper, path):
    write_foreign_data(zookeeper, f"{path}/{CLUSTER}")

    daemon = machine.start("runworker", **QUICK_HEARTBEATS, **elected_in_zookeeper())

    assert daemon.wait() == 1
    assert f"{path}/{CLUSTER} in ZooKeeper is in use by another application" in daemon.err


def test_the_path_of_a_cluster_of_another_database_is_not_changed(
    cluster, template, tmp_path, elected_in_zookeeper, look
):
    cluster.start("runmanager", **elected_in_zookeeper())
    wait_for_term(cluster, 1)

    with copy_of(template) as another:
        elsewhere = Machine(another, tmp_path)
        daemon = elsewhere.start("runmanager", **QUICK_HEARTBEATS, **elected_in_zookeeper())
        assert daemon.wait() == 1
        assert another.value("SELECT count(*) FROM nodes_mainterm WHERE main_id IS NOT NULL") == 0

    assert "is in use: it belongs to another database" in daemon.err
    assert "Traceback" not in daemon.err
    assert len(look().members) == 1


def write_foreign_data(zookeeper, path):
    session = Session(address=Address.parse(f"127.0.0.1:{zookeeper.port}"), timeout=seconds(5))
    parts = path.split("/")[1:]
    for depth in range(1, len(parts) + 1):
        session.create("/" + "/".join(parts[:depth]), b"somebody's")
    session.end()


# --- One-shot commands ---------------------------------------------------------------------------


def test_a_one_shot_needs_no_zookeeper(machine, serve, zookeeper, elected_in_zookeeper):
    site = serve(pages=20)
    zookeeper.stop()

    crawl = machine.crawl(site.start_url, **elected_in_zookeeper())

    assert crawl.code == 0
