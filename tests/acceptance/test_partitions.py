"""
Proves that daemons stop in time when their connection to the database is cut, in either direction, and later resume by
themselves.
"""

import json
import signal
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import psutil
import pytest

from jobs.state import channels
from tests.acceptance.test_daemons import assert_undisturbed, refetches
from tests.support.daemons import TAKEOVER_BEATS, beats_to_takeover
from tests.support.processes import PATIENCE, QUICK_HEARTBEATS, Database, ended, held_by, wait_for
from tests.support.proxy import Direction, Proxy

HEARTBEAT, NODE_TIMEOUT = (
    float(QUICK_HEARTBEATS[f"CRAWLCTL_{name}"]) for name in ("HEARTBEAT_INTERVAL", "NODE_TIMEOUT")
)


@pytest.fixture
def proxies(machine):
    """Make proxies in front of the test's database, which live as long as the test."""
    opened = []

    def make():
        opened.append(Proxy.of_database(machine.database.dsn))
        return opened[-1]

    yield make
    machine.clean_up()
    for proxy in opened:
        proxy.__exit__()


def behind(proxy, cluster):
    """Return the environment that sends a daemon's database traffic through the proxy."""
    return {"DATABASE_URL": Database(proxy.dsn(cluster.database.dsn)).url}


def is_at_work(cluster, daemon):
    """True if the last heartbeat of the node is recent."""
    return cluster.database.value(
        "SELECT clock_timestamp() - heartbeat_at < %s * interval '1 second' FROM nodes_node WHERE pid = %s",
        2 * HEARTBEAT,
        daemon.pid,
    )


# --- All connections cut: no node is marked as failed --------------------------------------------


@pytest.mark.parametrize("direction", [Direction.BOTH, Direction.ANSWERED], ids=["both ways", "answers only"])
def test_a_crawl_survives_a_cut_between_all_of_its_nodes_and_the_database(cluster, serve, proxies, direction):
    site = serve(pages=200, hosts=2, traps=3, latency_ms=60)
    proxy = proxies()
    daemons = cluster.start("runmanager", "runmanager", "runworker", "runworker", **behind(proxy, cluster))
    job = cluster.make_job(site)

    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")
    proxy.cut(direction)
    wait_for(lambda: not any(is_at_work(cluster, daemon) for daemon in daemons), saying="all daemons are silent")
    wait_until_silent_for(cluster, 1.5 * NODE_TIMEOUT)
    proxy.heal()
    healed_at, already = cluster.database.value("SELECT clock_timestamp()"), site.count_requests()

    began_at = time.monotonic()
    wait_for(lambda: site.count_requests() > already, saying="the crawl sends requests again")
    fetched_after = time.monotonic() - began_at
    first_beats = [
        wait_for(
            lambda daemon=daemon: seconds_until_heartbeat(cluster, daemon, healed_at),
            saying="the daemon sends heartbeats again",
        )
        for daemon in daemons
    ]
    assert max(first_beats) < 2 * HEARTBEAT
    assert fetched_after < 2 * HEARTBEAT
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert [cluster.node_of(daemon).status for daemon in daemons] == ["running"] * 4
    assert cluster.database.value("SELECT count(*) FROM nodes_nodeevent WHERE kind = 'marked_failed'") == 0


def wait_until_silent_for(cluster, seconds):
    """Wait until the latest heartbeat of all nodes is this many seconds old."""
    silence = "SELECT extract(epoch FROM clock_timestamp() - max(heartbeat_at)) FROM nodes_node"
    wait_for(lambda: cluster.database.value(silence) > seconds, saying=f"no node has beaten for {seconds:g} s")


def seconds_until_heartbeat(cluster, daemon, moment):
    """Return the seconds from that moment to the node's latest heartbeat, if the heartbeat is later than the moment."""
    since = (cluster.node_of(daemon).heartbeat_at - moment).total_seconds()
    return max(since, 0.001) if since > 0 else None


def test_a_one_shot_crawl_survives_a_cut_connection_to_its_database(cluster, serve, proxies):
    site = serve(pages=120, hosts=2, traps=3, latency_ms=60)
    proxy = proxies()
    crawl = cluster.machine.start_crawl(
        site.start_url, "--scope", "any", output=cluster.output, **QUICK_HEARTBEATS, **behind(proxy, cluster)
    )
    wait_for(lambda: site.count_requests() > 40, saying="the crawl is in progress")

    proxy.cut()
    wait_until_silent_for(cluster, 1.5 * NODE_TIMEOUT)
    proxy.heal()

    assert ended(crawl).facts["reason"] == "finished"
    assert held_by(cluster.output) == site.documents


# --- One connection cut: the daemon stops before others begin ------------------------------------


def test_a_cut_off_worker_closes_its_requests_before_others_start_theirs(cluster, serve, proxies):
    site = serve(pages=30, traps=0, latency_ms=60_000)
    ports = {urlsplit(origin).port for origin in site.plan.origins}
    proxy = proxies()
    (worker,) = cluster.start("runworker", **behind(proxy, cluster))
    cluster.start("runmanager")
    cluster.start_job(cluster.make_job(site, open_requests=4))
    wait_for(lambda: open_connections(worker, ports), saying="a request is open")

    proxy.cut()
    wait_for(lambda: not open_connections(worker, ports), saying="the requests of the worker are closed")

    assert cluster.node_of(worker).status == "running"
    wait_for(lambda: cluster.node_of(worker).status == "failed", saying="the worker is marked failed")
    proxy.heal()
    assert worker.wait() == 1
    assert cluster.node_of(worker).status == "failed"


def open_connections(daemon, ports):
    """Return the process's open connections to these ports."""
    connections = psutil.Process(daemon.pid).net_connections("tcp")
    return [one for one in connections if one.status == psutil.CONN_ESTABLISHED and one.raddr.port in ports]


@pytest.mark.parametrize("direction", [Direction.BOTH, Direction.ANSWERED], ids=["both ways", "answers only"])
def test_a_cut_off_main_is_replaced_in_time_and_changes_nothing_later(cluster, serve, proxies, direction):
    site = serve(pages=150, hosts=2, traps=3, latency_ms=60)
    proxy = proxies()
    (main,) = cluster.start("runmanager", **behind(proxy, cluster))
    wait_for(lambda: cluster.database.value("SELECT term FROM nodes_mainterm") == 1, saying="the first manager is main")
    heir, _ = cluster.start("runmanager", "runworker")
    job = cluster.make_job(site)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 40, saying="the crawl is in progress")

    proxy.cut(direction)
    wait_for(lambda: cluster.database.value("SELECT term FROM nodes_mainterm") == 2, saying="another manager is main")

    assert cluster.main(main, heir) is heir
    assert beats_to_takeover(cluster, main, heir) <= TAKEOVER_BEATS
    proxy.heal()
    assert main.wait() == 1
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) == 0, "documents in flight stay with a live worker"
    assert [row.kind for row in events_after_takeover(cluster, main)] == ["marked_failed"]


def events_after_takeover(cluster, main):
    """Return the events of the journal about the old main manager since its replacement."""
    return cluster.database.rows(
        "SELECT kind FROM nodes_nodeevent WHERE node_id = %s AND at >= (SELECT since FROM nodes_mainterm) - interval '1 second'",
        cluster.node_of(main).id,
    )


def test_stopped_daemons_end_soon_while_the_database_hangs(cluster, proxies):
    proxy = proxies()
    daemons = cluster.start("runmanager", "runworker", **behind(proxy, cluster))

    proxy.cut()
    for daemon in daemons:
        daemon.send(signal.SIGTERM)

    assert [daemon.wait(15) for daemon in daemons] == [1, 1]


def test_a_node_that_cannot_send_heartbeats_for_long_shuts_itself_down(cluster, proxies):
    proxy = proxies()
    daemons = cluster.start("runmanager", "runworker", CRAWLCTL_NODE_GIVE_UP="3", **behind(proxy, cluster))

    proxy.cut()

    assert [daemon.wait(30) for daemon in daemons] == [1, 1]
    assert all("the database" in daemon.err for daemon in daemons)


# --- Lost notifications --------------------------------------------------------------------------


def test_a_cluster_without_notifications_works_more_slowly(cluster, serve, proxies):
    site = serve(pages=120, hosts=2, traps=3)
    proxy = proxies()
    for channel in (channels.STUFF, channels.TAKE, channels.CONTROL):
        name = channel.encode()
        proxy.rewrite(b'LISTEN "' + name, b'LISTEN "' + b"x" * len(name))
    cluster.start("runmanager", "runmanager", "runworker", "runworker", **behind(proxy, cluster))
    job = cluster.make_job(site)

    assert cluster.run(job) == "finished"

    assert_undisturbed(cluster, job, site)


# --- Pages ---------------------------------------------------------------------------------------


def test_pages_and_the_api_report_a_lost_database_and_recover(cluster, proxies):
    proxy = proxies()
    server = cluster.machine.start("serve", "--port", 18_000, **behind(proxy, cluster))
    address = wait_for(lambda: server.out, saying="the web server prints its address").strip()
    wait_for(lambda: ask(address, "/")[0] == 200, saying="the web server answers with the form to log in")

    proxy.cut()

    status, page = ask(address, "/")
    assert (status, "The database does not answer" in page) == (503, True)
    status, problem = ask(address, "/api/v1/token/", body={"username": "nobody", "password": "nothing"})
    assert (status, json.loads(problem)["code"]) == (503, "database_unavailable")
    proxy.heal()
    assert ask(address, "/")[0] == 200


def ask(address, path, body=None):
    """
    Return (status, text) for a client with a session cookie. Only the database knows whether the session is valid.
    """
    headers = {"Content-Type": "application/json", "Cookie": f"sessionid={'a' * 32}"}
    request = urllib.request.Request(address + path, headers=headers)
    if body is not None:
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
