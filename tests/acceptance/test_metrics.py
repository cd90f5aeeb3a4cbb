"""Proves that the metrics of real processes agree with their work."""

import signal
import socket

import pytest

from jobs.metrics import table
from nodes.metrics.kinds import Counter, Process
from tests.support.metrics import free_port, scrape, scrape_when_up
from tests.support.processes import QUICK_HEARTBEATS, held_by, wait_for
from tests.support.tables import each_row


def start(cluster, command, *arguments):
    """Start a daemon with metrics. Return the daemon and the port of its metrics."""
    port = free_port()
    return cluster.machine.start(command, "--metrics-port", port, *arguments, **QUICK_HEARTBEATS), port


def indexed(*ports):
    return sum(scrape(port)["crawlctl_documents_total", "indexed"] for port in ports)


def test_metrics_match_the_documents_of_the_crawl(cluster, serve):
    site = serve(pages=200, hosts=2, traps=2)
    (_, of_manager), *workers = (start(cluster, command) for command in ("runmanager", "runworker", "runworker"))
    of_workers = [port for _, port in workers]
    job = cluster.make_job(site)
    for port in (of_manager, *of_workers):
        scrape_when_up(port)

    cluster.start_job(job)
    assert cluster.wait_for_end(job) == "finished"

    held = held_by(cluster.output)
    assert held == site.documents
    wait_for(lambda: indexed(*of_workers) == len(held), saying="all documents are counted")
    shown = [scrape(port) for port in of_workers]

    def total(*key):
        return sum(one[key] for one in shown)

    ended = cluster.database.documents()
    assert total("crawlctl_output_documents_total", "added") == len(held)
    assert sum(total("crawlctl_documents_total", result) for result in ("indexed", "failed", "excluded")) == sum(
        ended.values()
    )
    of_robots = len(site.plan.origins)
    assert total("crawlctl_fetch_seconds_count") == len(site.requests()) + of_robots
    assert total("crawlctl_requests_total") == len(site.requests()) + of_robots
    assert total("crawlctl_flush_seconds_count") > 0
    # Each worker sends each identifier about once, regardless of how many links name it.
    for of_one in shown:
        assert 0 < of_one["crawlctl_offered_references_total",] <= 1.3 * sum(ended.values())
    manager = scrape(of_manager)
    assert manager["crawlctl_offered_documents_total",] == total("crawlctl_taken_documents_total")
    assert manager["crawlctl_node_is_main",] == 1
    assert manager["crawlctl_node_trusted",] == 1
    assert manager["crawlctl_node_heartbeat_age_seconds",] < 2
    assert manager["crawlctl_elections_won_total", "nobody"] == 1
    assert manager["crawlctl_duty_runs_total", "stuff_groups"] > 0


def test_each_process_shows_only_its_own_metrics(cluster):
    kinds = {Process.MANAGER: "runmanager", Process.WORKER: "runworker"}

    for kind, command in kinds.items():
        _, port = start(cluster, command)
        scrape_when_up(port)
        names = wait_for(
            lambda port=port: (
                (shown := {name for name, *_ in scrape(port)}) and "crawlctl_node_trusted" in shown and shown
            ),
            saying="the process sends heartbeats",
        )

        unlabelled = {figure.name for figure in table.TABLE if isinstance(figure, Counter) and not figure.labels}
        expected = {figure.name for figure in table.shown_by(kind)}
        assert names & unlabelled == expected & unlabelled
        assert "process_resident_memory_bytes" in names


def test_a_lost_worker_is_counted_as_failed_and_its_documents_as_released(cluster, serve):
    site = serve(pages=200, latency_ms=60, traps=0)
    (_, of_manager), (worker, _) = (start(cluster, command) for command in ("runmanager", "runworker"))
    job = cluster.make_job(site)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 20, saying="the crawl is in progress")

    worker.kill()

    wait_for(
        lambda: scrape(of_manager)["crawlctl_nodes_marked_failed_total",] == 1, saying="the worker is marked failed"
    )
    wait_for(
        lambda: scrape(of_manager)["crawlctl_released_documents_total",] > 0,
        saying="documents of the worker are released",
    )


def test_the_web_server_shows_the_state_of_the_cluster(cluster, serve):
    site = serve(pages=60, traps=0)
    _, port = start(cluster, "serve")
    cluster.start("runmanager", "runworker")
    job = cluster.make_job(site)
    cluster.start_job(job)

    shown = wait_for(
        lambda: (
            (read := scrape_when_up(port))["crawlctl_cluster_jobs", "inactive"] == 0
            and read["crawlctl_cluster_has_main",]
            and read
        ),
        saying="the job runs",
    )
    assert shown["crawlctl_database_up",] == 1
    assert shown["crawlctl_cluster_nodes", "manager", "running"] == 1
    assert shown["crawlctl_cluster_nodes", "worker", "running"] == 1
    assert cluster.wait_for_end(job) == "finished"


def test_a_one_shot_shows_its_own_and_its_workers_metrics(machine, serve, tmp_path):
    site = serve(pages=600, latency_ms=100, traps=0)
    port = free_port(others=1)
    crawl = machine.start_crawl(site.start_url, "--workers", "1", "--metrics-port", port, output=tmp_path / "out.jsonl")

    assert scrape_when_up(port)["crawlctl_nodes_marked_failed_total",] == 0
    wait_for(
        lambda: scrape_when_up(port + 1).get(("crawlctl_worker_capacity_documents",)),
        saying="the worker of the crawl shows metrics",
    )
    crawl.send(signal.SIGINT)
    crawl.wait()


@each_row(
    "command", [("runmanager",), ("runworker",), ("runjobs",), ("serve",), ("crawl", "http://127.0.0.1:9/"), ("run",)]
)
def test_a_port_in_use_ends_a_command_before_anything_has_begun(command, machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = machine.start(*command, "--metrics-port", port)

        assert refused.wait() == 2
    assert f"--metrics-port: metrics cannot be served at 127.0.0.1, port {port}: Address already in use." in refused.err
    assert "Traceback" not in refused.err
    assert machine.database.value("SELECT count(*) FROM nodes_node") == 0
    assert machine.database.value("SELECT count(*) FROM jobs_job") == 0


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (("--metrics-port", "70000"), "70000 is not a port: write a number from 1 to 65535, or 0 for no metrics."),
        (("--metrics-port", "9400", "--metrics-address", "192.0.2.1"), "Cannot assign requested address"),
    ],
    ids=["no port", "an address of others"],
)
def test_an_unusable_address_to_listen_on_is_refused_with_a_reason(arguments, saying, machine):
    refused = machine.start("runworker", *arguments)

    assert refused.wait() == 2
    assert saying in refused.err
    assert "Traceback" not in refused.err
