"""Proves that a crawl reads ten feeds of ten entries each, in three encodings (ManifoldCF's RSSSimpleCrawlTester)."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jobs.models import RepositoryConnection
from jobs.verbs import editing
from jobs.verbs.seeds import SeedWanted
from tests.support.factories import NOON, make_output, make_policy
from tests.support.processes import held_by

ENCODINGS = ("utf-8", "utf-16-be", "utf-16-le")
MARKS = {"utf-16-be": b"\xfe\xff", "utf-16-le": b"\xff\xfe"}


class Feeds(BaseHTTPRequestHandler):
    """A site where /feed/N lists /entry/N/0 to /entry/N/9."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        kind, *numbers = self.path.strip("/").split("/")
        if kind == "feed":
            encoding = ENCODINGS[int(numbers[0]) % 3]
            items = "".join(f"<item><title>é</title><link>/entry/{numbers[0]}/{n}</link></item>" for n in range(10))
            text = f'<?xml version="1.0"?><rss version="2.0"><channel><title>Feed</title>{items}</channel></rss>'
            self.reply(200, MARKS.get(encoding, b"") + text.encode(encoding), "application/rss+xml")
        elif kind == "entry":
            self.reply(
                200, f"<title>Entry</title><p>Entry {numbers}. <a href=/other>no entry</a>".encode(), "text/html"
            )
        else:
            self.reply(404, b"", "text/plain")

    def reply(self, status, body, content_type):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def origin():
    with ThreadingHTTPServer(("127.0.0.1", 0), Feeds) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_ten_feeds_of_ten_entries_are_a_hundred_and_ten_documents(cluster, origin):
    cluster.start("runmanager", "runworker")
    connection = RepositoryConnection.objects.create(
        name="feeds", connector="feed", configuration={"allow_private_networks": True}
    )
    job = editing.create_job(
        name="feeds",
        repository=connection,
        outputs=[make_output(cluster.output)],
        seeds=[SeedWanted(tuple(f"{origin}/feed/{n}" for n in range(10)), make_policy())],
        specification={},
        made_by="a test",
        now=NOON,
    ).job

    assert cluster.run(job) == "finished"
    assert cluster.database.documents() == {(2, "FEED"): 10, (2, "200"): 100}
    assert held_by(cluster.output) == {f"{origin}/entry/{feed}/{n}" for feed in range(10) for n in range(10)}
