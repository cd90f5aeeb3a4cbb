"""Proves by a crawl of changing pages that the page of a job shows about the true share of fresh pages."""

import bisect
import contextlib
import datetime as dt
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jobs.lifecycle.job import Kind
from jobs.models import LanePlan
from jobs.queries.jobs.freshness import read_freshness
from tests.support.factories import make_job, make_output, make_policy
from tests.support.processes import wait_for

PAGES = 140
# Average seconds between two changes of a page, and the time of the freshness goal.
EVERY = 40.0
WITHIN = 1.0
# Longest time between two looks at a page (seconds), the number of looks at each page, and the time without looks at
# the end.
LONGEST = 10.0
LOOKS = 3
LATER = 7.0


class Site:
    """Pages that change at random moments, and the moments at which each was read."""

    def __init__(self):
        rng = random.Random(7)
        self.began = time.time()
        self.read = {number: [] for number in range(PAGES)}
        self.changes = {}
        for number in range(PAGES):
            moments, at = [], self.began
            while at < self.began + 300:
                at += rng.expovariate(1 / EVERY)
                moments.append(at)
            self.changes[number] = moments

    def answer(self, path):
        """Return the page of a path, as it is now."""
        if not path.startswith("/page/"):
            return "".join(f'<a href="/page/{number}">page</a>' for number in range(PAGES))
        number, now = int(path.rpartition("/")[2]), time.time()
        self.read[number].append(now)
        return f"<p>Page {number}, version {bisect.bisect(self.changes[number], now)}</p>"

    def fresh_share(self, at):
        """
        Return the share of fresh pages. A page is fresh if the crawl has seen all changes older than the time of the
        goal.
        """
        return sum(self._is_fresh(number, at) for number in self.read) / len(self.read)

    def _is_fresh(self, number, at):
        look = max(moment for moment in self.read[number] if moment <= at)
        return not any(look < change <= at - WITHIN for change in self.changes[number])


@contextlib.contextmanager
def changing_site():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = site.answer(self.path).encode()
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", site
        server.shutdown()


def test_the_page_of_a_job_shows_about_the_true_share_of_fresh_pages(cluster):
    cluster.start("runmanager", "runworker")
    with changing_site() as (address, site):
        job = make_job(
            "news",
            urls=[f"{address}/"],
            policy=make_policy(open_requests=8),
            output=make_output(cluster.output),
            kind=Kind.CONTINUOUS,
            recrawl_after=dt.timedelta(seconds=LONGEST),
            recrawl_at_most=dt.timedelta(seconds=LONGEST),
            freshness_goals=[{"pattern": "/page/", "percent": 90.0, "within": WITHIN}],
        )
        cluster.start_job(job)

        wait_for(lambda: min(map(len, site.read.values())) >= LOOKS, saying="each page was read several times")
        last = max(moments[-1] for moments in site.read.values())
        wait_for(lambda: time.time() >= last + LATER, saying="some pages are old")
        asked_at = time.time()
        # Measure now: the page of the job shows the figures of the last measurement.
        LanePlan.objects.update(due_at=dt.datetime.now(tz=dt.UTC))
        wait_for(lambda: measured_since(job, asked_at), saying="the host was measured")
        freshness = read_freshness(job.pk)
        true_share = site.fresh_share(freshness.measured_at.timestamp())

    (goal,) = freshness.goals
    assert goal.documents == PAGES
    assert true_share < 0.97
    assert abs(goal.achieved - true_share) <= 0.15
    assert goal.achieved < 0.97
    assert goal.needs > 0


def measured_since(job, moment):
    measured_at = read_freshness(job.pk).measured_at
    return measured_at is not None and measured_at.timestamp() > moment
