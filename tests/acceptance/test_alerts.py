"""Proves that a real Prometheus raises our alerts for a real cluster whose sites and nodes fail."""

import contextlib
import http.server
import socket
import threading
from functools import partial

import pytest
from django.utils import timezone

from jobs.verbs import control
from tests.support.factories import make_job, make_output, make_policy
from tests.support.metrics import free_port, scrape_when_up
from tests.support.processes import QUICK_HEARTBEATS, wait_for
from tests.support.prometheus import Prometheus

pytestmark = pytest.mark.debian("prometheus")


@contextlib.contextmanager
def failing_site(status):
    """Serve a site that answers everything except robots.txt with this status. With None it never answers."""
    released = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            is_robots = self.path == "/robots.txt"
            if status is None and not is_robots:
                released.wait()
                return
            self.send_response(404 if is_robots else status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words):
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    released.set()
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def refusing_site():
    """Hold a port that refuses all connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def watched(cluster, tmp_path):
    """Return a cluster with a worker, and the Prometheus that reads it."""
    ports = {command: free_port() for command in ("runmanager", "runworker", "serve")}
    daemons = {
        command: cluster.machine.start(
            command, "--metrics-port", port, *(("--port", 0) if command == "serve" else ()), **QUICK_HEARTBEATS
        )
        for command, port in ports.items()
    }
    for port in ports.values():
        scrape_when_up(port)
    with Prometheus(tmp_path / "prometheus", ports.values()) as prometheus:
        yield cluster, daemons, prometheus


def crawl(cluster, url, *, pages):
    seeds = [f"{url}/{number}" for number in range(pages)]
    job = make_job("site", urls=seeds, policy=make_policy(open_requests=2), output=make_output(cluster.output))
    cluster.start_job(job)
    return job


@pytest.mark.parametrize(
    "serve", [partial(failing_site, 500), partial(failing_site, 503), refusing_site], ids=["500", "503", "refuses"]
)
def test_a_site_that_fails_everywhere_is_listed(watched, serve):
    cluster, _, prometheus = watched
    with serve() as url:
        crawl(cluster, url, pages=200)

        prometheus.wait_for("CrawlctlMostFail")


def test_a_hanging_site_and_a_dead_worker_are_listed(watched):
    cluster, daemons, prometheus = watched
    with failing_site(None) as url:
        job = crawl(cluster, url, pages=50)
        prometheus.wait_for("CrawlctlStandsStill")

        control.pause(job.pk, made_by="a test", now=timezone.now())
        wait_for(lambda: "CrawlctlStandsStill" not in prometheus.firing(), saying="a pause by hand is not an alarm")

        daemons["runworker"].kill()
        prometheus.wait_for("CrawlctlNodeLost")
