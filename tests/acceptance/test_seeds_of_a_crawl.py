"""Proves that `manage.py crawl` reports on its seeds, and writes documents to standard output."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.processes import ROOT, ended

NAMES = {"PYTHONPATH": str(ROOT / "tests" / "support" / "site_names")}


@contextmanager
def serve(moved):
    """Serve pages that link to /a, under any host name. Pages of the hosts in `moved` redirect to the given host."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            name, _, port = self.headers["Host"].partition(":")
            if self.path in {"/robots.txt", "/missing"}:
                self.answer(404, b"")
            elif name in moved:
                self.answer(301, b"", ("Location", f"http://{moved[name]}:{port}{self.path}"))
            else:
                self.answer(200, b"<title>A page</title><a href=/a>", ("Content-Type", "text/html"))

        def answer(self, status, body, *headers):
            self.send_response(status)
            for header in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def port():
    with serve({"apex.test": "www.apex.test", "old.test": "new.test"}) as port:
        yield port


def crawl(machine, *arguments, **facts):
    return ended(machine.start_crawl("--workers", 1, "--delay", 0, *arguments, **facts, **NAMES))


def test_a_crawl_without_a_readable_seed_fails_in_one_line(machine, port):
    ended_badly = crawl(machine, f"http://a.test:{port}/missing")

    assert (ended_badly.code, ended_badly.facts["reason"]) == (1, "error:NO_SEED_READ")
    assert ended_badly.err == f"No seed could be read: http://a.test:{port}/missing 404 (Not Found).\n"


def test_a_crawl_succeeds_with_one_readable_seed_and_names_unreadable_seeds(machine, port):
    ended_well = crawl(machine, f"http://a.test:{port}/missing", f"http://b.test:{port}/")

    assert (ended_well.code, ended_well.facts["reason"]) == (0, "finished")
    assert ended_well.err == f"1 of 2 seeds could not be read: http://a.test:{port}/missing 404 (Not Found).\n"


def test_a_seed_that_redirects_to_another_domain_names_its_target(machine, port):
    ended_badly = crawl(machine, f"http://old.test:{port}/")

    assert ended_badly.code == 1
    says = f"http://old.test:{port}/ OUT_OF_SCOPE (redirects to http://new.test:{port}/: start there)"
    assert ended_badly.err == f"No seed could be read: {says}.\n"


def test_a_seed_that_redirects_to_www_extends_the_scope_once(machine, port):
    first = crawl(machine, f"http://apex.test:{port}/", "--job", "apex")
    again = crawl(machine, "--job", "apex")

    assert (first.code, first.codes) == (0, {"200": 2, "REDIRECT": 1})
    assert first.err == (
        f"http://apex.test:{port}/ redirects to http://www.apex.test:{port}/. The scope now includes www.apex.test:{port}.\n"
    )
    assert (again.code, again.codes) == (0, {"OK_UNCHANGED": 2, "REDIRECT": 1})
    assert "The scope now includes" not in again.err


def test_standard_output_gets_only_documents(machine, port):
    start = f"http://a.test:{port}/"

    command = machine.start(
        *("crawl", start, "--allow-private-networks", "--delay", 0, "--workers", 1, "--json", "--output", "jsonl:-"),
        **NAMES,
    )

    assert command.wait() == 0
    lines = [json.loads(line) for line in command.out.splitlines()]
    assert {(line["action"], line["url"]) for line in lines} == {("add", start), ("add", f"{start}a")}
    assert json.loads(command.err)["reason"] == "finished"
