"""Proves that clusters elect a main manager and keep their members: prompt elections, wrong clocks, equal names."""

import os
import signal
import subprocess
import sys

import pytest

from tests.acceptance.test_daemons import assert_undisturbed, refetches
from tests.support.daemons import TAKEOVER_BEATS, Cluster, beats_to_takeover
from tests.support.debian import debian_server
from tests.support.processes import PATIENCE, QUICK_HEARTBEATS, ROOT, Database, Machine, skewed_by, wait_for

HEARTBEAT = float(QUICK_HEARTBEATS["CRAWLCTL_HEARTBEAT_INTERVAL"])
SESSIONS_SO_FAR = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"


def start_one_by_one(cluster, *kinds, **environment):
    """Start each daemon after the previous one works, so that their ages have this order."""
    return [daemon for kind in kinds for daemon in cluster.start(kind, **environment)]


def term_of(cluster):
    return cluster.database.value("SELECT term FROM nodes_mainterm WHERE scope = 'cluster'")


def count_events(cluster, kind):
    return cluster.database.value("SELECT count(*) FROM nodes_nodeevent WHERE kind = %s", kind)


def wait_for_heartbeats(cluster, daemon, beats=3):
    """Wait until the daemon has sent heartbeats for more than this number of intervals."""
    before = cluster.node_of(daemon).heartbeat_at
    wait_for(
        lambda: (cluster.node_of(daemon).heartbeat_at - before).total_seconds() > beats * HEARTBEAT,
        saying=f"{daemon.name} has sent heartbeats for {beats} intervals",
    )


# --- Elections -----------------------------------------------------------------------------------


def test_the_oldest_manager_is_main_and_later_ones_join(cluster):
    first, second, third = start_one_by_one(cluster, "runmanager", "runmanager", "runmanager")
    wait_for_heartbeats(cluster, third)
    assert cluster.main(first, second, third) is first
    assert (term_of(cluster), count_events(cluster, "elected")) == (1, 1)

    first.kill()

    wait_for(lambda: term_of(cluster) == 2, saying="another manager is main")
    assert cluster.main(first, second, third) is second
    assert cluster.node_of(first).status == "failed"


def test_a_main_that_ends_in_order_is_replaced_immediately_without_failures(cluster):
    first, second = start_one_by_one(cluster, "runmanager", "runmanager")

    first.send(signal.SIGTERM)

    assert first.wait() == 0
    wait_for(lambda: term_of(cluster) == 2, saying="another manager is main")
    assert cluster.main(first, second) is second
    assert count_events(cluster, "marked_failed") == 0


def test_a_hanging_older_manager_delays_no_election(cluster):
    main, elder, younger = start_one_by_one(cluster, "runmanager", "runmanager", "runmanager")
    wait_for_heartbeats(cluster, younger)

    elder.send(signal.SIGSTOP)
    main.kill()
    wait_for(lambda: term_of(cluster) == 2, saying="another manager is main")
    elder.send(signal.SIGCONT)

    assert cluster.main(main, elder, younger) is younger
    assert beats_to_takeover(cluster, main, younger) <= TAKEOVER_BEATS + 1


def test_a_frozen_main_manager_is_replaced_in_time_and_stays_failed(cluster):
    main, heir = start_one_by_one(cluster, "runmanager", "runmanager")
    wait_for_heartbeats(cluster, heir)

    main.send(signal.SIGSTOP)
    wait_for(lambda: term_of(cluster) == 2, saying="another manager is main")
    main.send(signal.SIGCONT)

    assert beats_to_takeover(cluster, main, heir) <= TAKEOVER_BEATS
    assert main.wait() == 1
    assert cluster.node_of(main).status == "failed"
    assert cluster.main(main, heir) is heir


# --- Clocks --------------------------------------------------------------------------------------


def test_clocks_that_disagree_by_hours_change_nothing(cluster, serve):
    assert read_hours(skewed_by(5)) - read_hours(skewed_by(-5)) == pytest.approx(10, abs=0.1)
    site = serve(pages=200, hosts=2, traps=3, latency_ms=60)
    early, late = (cluster.start("runmanager", **skewed_by(hours))[0] for hours in (-5, 5))
    for hours in (-7, 3):
        cluster.start("runworker", **skewed_by(hours))
    job = cluster.make_job(site)

    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")
    early.kill()

    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) == 0
    assert cluster.main(early, late) is late
    assert beats_to_takeover(cluster, early, late) <= TAKEOVER_BEATS
    assert count_events(cluster, "marked_failed") == 1


def read_hours(environment):
    """Return the time in hours that a Python process with this environment reads."""
    asked = [sys.executable, "-W", "ignore", "-c", "import datetime; print(datetime.datetime.now().timestamp())"]
    process = subprocess.run(
        asked, env={**os.environ, **environment}, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return float(process.stdout) / 3600


# --- Members -------------------------------------------------------------------------------------


def test_two_processes_with_one_name_both_run_with_different_ids(cluster):
    one, other = (cluster.machine.start("runworker", "--name", "twin", **QUICK_HEARTBEATS) for _ in range(2))
    cluster.start("runmanager")
    wait_for(
        lambda: all(cluster.node_of(twin).status == "running" for twin in (one, other)), saying="both managers run"
    )
    assert cluster.node_of(one).name == cluster.node_of(other).name == "twin"
    assert cluster.node_of(one).id != cluster.node_of(other).id

    one.kill()

    wait_for(lambda: cluster.node_of(one).status == "failed", saying="the first manager is marked failed")
    wait_for_heartbeats(cluster, other)
    assert cluster.node_of(other).status == "running"


def test_daemons_with_killed_sessions_work_again_within_two_heartbeats(cluster, serve):
    site = serve(pages=150, hosts=2, traps=3, latency_ms=60)
    daemons = cluster.start("runmanager", "runworker", "runworker")
    job = cluster.make_job(site)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 40, saying="the crawl is in progress")
    assert sessions_of(cluster, *daemons) <= {1, 2, 3, 4}

    (killed,) = cluster.database.rows(
        "SELECT sessions, clock_timestamp() AS at FROM (SELECT count(pg_terminate_backend(pid)) AS sessions "
        "FROM pg_stat_activity WHERE datname = current_database() AND left(application_name, 36) = ANY(%s)) AS killed",
        [str(cluster.node_of(daemon).id) for daemon in daemons],
    )
    assert killed.sessions >= 2 * len(daemons)

    for daemon in daemons:
        wait_for(
            lambda daemon=daemon: cluster.node_of(daemon).heartbeat_at > killed.at,
            saying="the daemon sends heartbeats again",
        )
        assert (cluster.node_of(daemon).heartbeat_at - killed.at).total_seconds() < 2 * HEARTBEAT
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert count_events(cluster, "marked_failed") == 0
    wait_for(lambda: sessions_of(cluster, *daemons) == {2}, saying="each daemon has two sessions")


def test_the_manager_of_a_crawl_keeps_its_sessions_open(machine, serve):
    site = serve(pages=8, traps=0)
    before = machine.database.value(SESSIONS_SO_FAR)

    facts = machine.crawl("--workers", 1, "--delay", 1, site.start_url).facts

    # The command opens 12 sessions at its start, with its manager and its worker.
    opened = machine.database.value(SESSIONS_SO_FAR) - before - 12
    assert facts["seconds"] > 6
    assert opened < facts["seconds"] / 2


def sessions_of(cluster, *daemons):
    """Return the different numbers of database sessions that these daemons have."""
    ids = [str(cluster.node_of(daemon).id) for daemon in daemons]
    rows = cluster.database.rows(
        "SELECT left(application_name, 36) AS node, count(*) AS sessions FROM pg_stat_activity "
        "WHERE datname = current_database() AND left(application_name, 36) = ANY(%s) GROUP BY 1",
        ids,
    )
    return {row.sessions for row in rows}


# --- The database --------------------------------------------------------------------------------


@pytest.mark.debian("postgresql")
def test_the_term_survives_a_crash_of_the_database_and_continues(tmp_path):
    with debian_server(tmp_path / "server", is_migrated=True) as server:
        machine = Machine(Database(server.address), tmp_path)
        try:
            cluster = Cluster(machine)
            first, second = start_one_by_one(cluster, "runmanager", "runmanager")
            first.kill()
            wait_for(lambda: term_of(cluster) == 2, saying="another manager is main")
            (third,) = cluster.start("runmanager")

            server.end(signal.SIGQUIT)
            server.start()

            assert term_of(cluster) == 2
            wait_for_heartbeats(cluster, second)
            wait_for_heartbeats(cluster, third)
            assert (term_of(cluster), cluster.main(first, second, third)) == (2, second)
            assert [cluster.node_of(each).status for each in (first, second, third)] == ["failed", "running", "running"]
            second.kill()
            wait_for(lambda: term_of(cluster) == 3, within=PATIENCE, saying="the cluster has another main")
            assert cluster.main(first, second, third) is third
        finally:
            machine.clean_up()
