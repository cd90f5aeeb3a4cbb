"""
Measures how soon an idle cluster requests a page that it has found: `python -m tests.benchmarks.latency`.

One manager and one worker run with default settings and nothing else to do. Each page of the first job links to one
more, so a request is possible only after the page before was read, flushed and stuffed. The report shows the time from
the end of a page's answer to the request for the page that it named. It also shows how long crawls of five pages last
after their last answer.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import django

from tests.benchmarks import databases
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.support.waiting import wait_until

_SHORT = 5


class _Chain(ThreadingHTTPServer):
    """A site whose pages each link to the next one. `asked` and `answered` are moments by page."""

    daemon_threads = True

    def __init__(self, pages: int) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.pages = pages
        self.asked: dict[int, float] = {}
        self.answered: dict[int, float] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/0"


class _Page(BaseHTTPRequestHandler):
    server: _Chain
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        asked_at = time.monotonic()
        if self.path == "/robots.txt":
            self._answer(404, b"")
            return
        page = int(self.path[1:])
        more = f"<a href=/{page + 1}>more</a>" if page + 1 < self.server.pages else "the end"
        self._answer(200, f"<title>{page}</title><p>{more}".encode())
        self.server.asked[page], self.server.answered[page] = asked_at, time.monotonic()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="latency", description="Measure how soon an idle cluster goes on.")
    parser.add_argument("--pages", type=int, default=200, help="pages of the chain (%(default)s)")
    parser.add_argument("--short", type=int, default=5, help=f"crawls of {_SHORT} pages (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="latency-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        with running_daemons(database.environment, "runmanager", "runworker"):
            _measure(pages=options.pages, short=options.short)
    return 0


def _measure(*, pages: int, short: int) -> None:
    from django.db import connection

    from nodes.models import Node

    try:
        wait_until(lambda: Node.objects.filter(status="running").count() == 2)
        chain = _Chain(pages)
        _crawl(chain)
        waits = sorted(1000 * (chain.asked[page + 1] - chain.answered[page]) for page in range(1, pages - 1))
        sys.stdout.write(
            f"ms from a page to the page that it named: median {statistics.median(waits):.0f},"
            f" 9 of 10 {waits[int(0.9 * len(waits))]:.0f}, most {waits[-1]:.0f}\n"
        )
        ends = sorted(_crawl(_Chain(_SHORT)) for _ in range(short))
        sys.stdout.write(
            f"seconds from the last page of {_SHORT} to the end of the job:"
            f" median {statistics.median(ends):.2f}, most {ends[-1]:.2f}\n"
        )
    finally:
        connection.close()


def _crawl(site: _Chain) -> float:
    """Crawl the site, and return the seconds from its last answer to the end of the job."""
    from django.utils import timezone

    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy

    # Without a policy a host gets one request a second.
    job = make_job(urls=[site.url], policy=make_policy(site.url, open_requests=4, min_gap=0.0))
    control.start(job.pk, made_by="a benchmark", now=timezone.now())
    wait_until(lambda: Job.objects.get(pk=job.pk).phase == "inactive" and len(site.answered) == site.pages)
    return time.monotonic() - max(site.answered.values())


if __name__ == "__main__":
    sys.exit(main())
