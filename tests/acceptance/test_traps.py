"""Proves that the trap guard holds back an endless calendar, and that every good page is still read."""

import contextlib
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from django.utils import timezone

from jobs.lifecycle.document import Stage
from jobs.models import TrapSuspect
from jobs.verbs import traps
from tests.support.factories import make_job, make_output, make_policy
from tests.support.processes import held_by
from tests.support.trap_sites import prose

ARTICLES = 40
# Number of links from each month to other months, so that the queue is always full of months.
FANOUT = 3
# Number of months of the calendar. A crawl without a guard reads all of them.
MONTHS = 1_500


def answer(path):
    """Return the page of a path."""
    if path.startswith("/calendar/"):
        month = int(path.rpartition("/")[2])
        links = [f"/calendar/{FANOUT * month + more}" for more in range(1, FANOUT + 1)]
        return "<p>No events</p><p>Monday</p><p>Imprint</p>", [
            link for link in links if int(link.rpartition("/")[2]) < MONTHS
        ]
    if path.startswith("/articles/"):
        return f"<p>{prose(random.Random(path), 1)}</p><p>Imprint</p>", ["/calendar/0"]
    return "<p>Imprint</p>", ["/calendar/0", *(f"/articles/story-{number}" for number in range(ARTICLES))]


@contextlib.contextmanager
def site_with_calendar():
    """Serve the site, and yield its address and the paths of all requests."""
    requested = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            text, links = answer(self.path)
            body = (text + "".join(f'<a href="{link}">more</a> ' for link in links)).encode()
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requested
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_endless_calendar_is_held_back_until_an_operator_decides(cluster):
    cluster.start("runmanager", "runworker")
    with site_with_calendar() as (address, requested):
        specification = {"trap_guard": "hold"}
        # The policy allows few open requests. Otherwise the worker would fetch documents that it took before the group
        # was held.
        policy = make_policy(open_requests=4)
        job = make_job(
            "site", urls=[f"{address}/"], policy=policy, output=make_output(cluster.output), specification=specification
        )

        assert cluster.run(job) == "finished"

        months = [path for path in requested if path.startswith("/calendar/")]
        assert len(months) <= 0.1 * MONTHS
        assert {f"{address}/articles/story-{number}" for number in range(ARTICLES)} <= held_by(cluster.output)
        suspect = TrapSuspect.objects.get(template="/calendar/{n}")
        assert (suspect.fetched, suspect.is_open) == (len(months), True)
        held = cluster.counted(job)[Stage.DONE, "TRAP"]
        assert suspect.held == held > 0

        # After the release, the job reads the documents that were held back, and no longer suspects the group.
        released = traps.release(suspect.pk, made_by="a test", now=timezone.now())
        assert released.sent.documents == held
        requested.clear()
        assert cluster.run(job) == "finished"

        assert len({path for path in requested if path.startswith("/calendar/")}) == MONTHS
        assert (Stage.DONE, "TRAP") not in cluster.counted(job)
