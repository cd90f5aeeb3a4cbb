"""
Proves the answers and the log of the synthetic site, which runs as a process with real sockets. Needs no database.
"""

import asyncio
import http.client
import json
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from crawlctl.demo.expectation import compare, expect_first_crawl, expect_next_crawl
from crawlctl.demo.log import RequestLog, read_log
from crawlctl.demo.plan import Revision, SitePlan, Trap
from crawlctl.demo.server import Behaviour, Connection, Site

PATIENCE = 10  # seconds


class RunningSite:
    """A process of the site, with a client for it."""

    def __init__(self, process, *, log, pages, seed):
        self.process, self.log = process, log
        self.started = json.loads(read_line(process.stdout))
        self.origins = tuple(self.started["origins"])
        self.plan = SitePlan(seed=seed, pages=pages, origins=self.origins)
        self._connections = {}

    def get(self, url, *, method="GET", **fields):
        """Return status, fields and body. One connection for each host stays open."""
        address = urlsplit(url)
        connection = self._connections.get(address.netloc)
        if connection is None:
            connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE)
            self._connections[address.netloc] = connection
        connection.request(method, address._replace(scheme="", netloc="").geturl(), headers=fields)
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()

    def control(self, command):
        status, _, body = self.get(f"{self.origins[0]}/-/{command}")
        assert status == 200, body
        return json.loads(body)

    def logged(self):
        self.control("flush")
        return list(read_log(self.log))

    def stop(self):
        for connection in self._connections.values():
            connection.close()
        self.process.terminate()
        return self.process.wait(PATIENCE)


def read_line(pipe):
    ready, _, _ = select.select([pipe], [], [], PATIENCE)
    assert ready, "the site printed nothing"
    return pipe.readline()


@pytest.fixture
def start_site(tmp_path):
    sites = []

    def start(*options, pages=200, hosts=3, seed=3):
        log = tmp_path / f"site-{len(sites)}.log"
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "crawlctl.demo.site", f"--pages={pages}", f"--hosts={hosts}"),
                *(f"--seed={seed}", f"--log={log}", *options),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        site = RunningSite(process, log=log, pages=pages, seed=seed)
        sites.append(site)
        return site

    yield start
    for site in sites:
        site.stop()
        site.process.stdin.close()
        site.process.stdout.close()


@pytest.fixture
def site(start_site):
    return start_site()


def crawl(site, *, etags=None):
    """
    Follow all links over one connection, as an exact crawler does, with the ETags of an earlier crawl. Return the new
    ETags.
    """
    etags = etags or {}
    held, seen, waiting = {}, {site.plan.start_url}, [site.plan.start_url]
    while waiting:
        url = waiting.pop()
        condition = {"If-None-Match": etags[url][0]} if url in etags else {}
        status, fields, body = site.get(url, **condition)
        links = []
        if status == 500:
            waiting.append(url)
        elif status == 301:
            links = [fields["Location"]]
        elif status == 304:
            held[url] = etags[url]
            links = etags[url][1]
        elif status == 200:
            links = [urldefrag(urljoin(url, href)).url for href in re.findall(r'<a href="([^"]*)"', body)]
            held[url] = (fields["ETag"], links)
        new = {link for link in links if "/private/" not in link} - seen
        seen |= new
        waiting += new
    return held


def test_an_exact_crawl_is_found_exact_by_the_site_log(site):
    etags = crawl(site)

    site.control("flush")
    report = compare(log=site.log, expectation=expect_first_crawl(site.plan), indexed_urls=etags)

    assert report.is_exact, (report.missing, report.extra)
    assert report.expected == report.fetched == report.indexed == 200


def test_a_second_crawl_gets_304_for_every_page(site):
    etags = crawl(site)
    lines = site.control("flush")["log_lines"]

    crawl(site, etags=etags)

    site.control("flush")
    report = compare(log=site.log, expectation=expect_next_crawl(site.plan), indexed_urls=etags, skip=lines)
    assert report.is_exact, (report.missing, report.extra)


def test_a_crawl_after_a_revision_sees_exactly_the_plan(site):
    etags = crawl(site)
    answer = site.control("set?revision=1&change=10&gone=4")
    revised = site.plan.at_revision(1, Revision(change=10, gone=4))

    etags = crawl(site, etags=etags)

    site.control("flush")
    report = compare(log=site.log, expectation=expect_next_crawl(revised), indexed_urls=etags, skip=answer["log_lines"])
    assert report.is_exact, (report.missing, report.extra)
    (changes,) = revised.changes
    assert {name: answer[name] for name in changes._fields} == {
        name: len(pages) for name, pages in changes._asdict().items()
    }


def test_a_deleted_page_answers_404_and_an_unlinked_one_still_answers(site):
    site.control("set?revision=1&gone=4")
    (changes,) = site.plan.at_revision(1, Revision(gone=4)).changes

    assert {site.get(url)[0] for url in site.plan.urls(changes.gone_404)} == {404}
    assert 200 in {site.get(url)[0] for url in site.plan.urls(changes.gone_unlinked)}


def test_a_broken_page_answers_500_until_the_next_revision(site):
    site.control("set?revision=1&broken=17")
    broken = [site.get(site.plan.url(17))[0] for _ in range(3)]
    site.control("set?revision=2")

    assert broken == [500, 500, 500]
    assert site.get(site.plan.url(17))[0] == 200


def test_if_modified_since_gets_a_changed_page_or_304(site):
    url = site.plan.url(1)
    _, before, _ = site.get(url)
    same = site.get(url, **{"If-Modified-Since": before["Last-Modified"]})
    site.control("set?revision=1&change=100")

    status, after, _ = site.get(url, **{"If-Modified-Since": before["Last-Modified"]})

    assert (same[0], same[1]["ETag"], same[2]) == (304, before["ETag"], "")
    assert status == 200
    assert after["ETag"] != before["ETag"]
    assert site.get(url, **{"If-None-Match": f'"other", W/{after["ETag"]}'})[0] == 304
    # An ETag that does not match has priority over a date that matches (RFC 9110, section 13.1.3).
    assert site.get(url, **{"If-None-Match": '"x"', "If-Modified-Since": after["Last-Modified"]})[0] == 200


def test_traps_answer_as_planned(site):
    for page in range(site.plan.pages):
        outline = site.plan.outline(page)
        for trap in outline.traps:
            status, fields, _ = site.get(site.plan.trap_url(page, trap))
            assert status == {Trap.REDIRECT: 301, Trap.MISSING: 404, Trap.PRIVATE: 200}[trap]
            assert trap is not Trap.REDIRECT or fields["Location"] == site.plan.url(outline.redirect_target)


@pytest.mark.parametrize(
    "path",
    ["/p/0.html", "/p/007.html", "/p/1.html", "/p/300.html", "/p/-3.html", "/p/3.html?x=1", "/redirect/x", "/p/", "/x"],
)
def test_another_spelling_of_a_pages_address_is_answered_with_404(site, path):
    status, _, _ = site.get(site.origins[0] + path)

    assert status == 404


def test_head_has_the_fields_of_a_page_and_no_body(site):
    _, fields, body = site.get(site.plan.start_url)

    status, head_fields, head_body = site.get(site.plan.start_url, method="HEAD")

    assert (status, head_body) == (200, "")
    assert head_fields["Content-Length"] == fields["Content-Length"] == str(len(body))
    assert [request.method for request in site.logged()] == ["GET", "HEAD"]


def test_a_method_other_than_get_and_head_is_refused(site):
    status, fields, _ = site.get(site.plan.start_url, method="DELETE")

    assert (status, fields["Allow"]) == (405, "GET, HEAD")


@contextmanager
def connected(site, host=0):
    address = site.started["hosts"][host], site.started["ports"][host]
    with socket.create_connection(address, timeout=PATIENCE) as client:
        yield client


def receive_all(client):
    received = b""
    while data := client.recv(65_536):
        received += data
    return received


def test_pipelined_requests_in_several_pieces_are_answered_in_order(site):
    requests = b"GET /robots.txt HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\nConnection: close\r\n\r\n"
    with connected(site) as client:
        client.sendall(requests[:10])
        client.sendall(requests[10:40])
        client.sendall(requests[40:])

        received = receive_all(client)

    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"404", b"200"]


@pytest.mark.parametrize(
    "junk",
    [
        b"hello\r\n\r\n",
        b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n",
        b"GET /a\tb HTTP/1.1\r\n\r\n",
        b"G\nT / HTTP/1.1\r\n\r\n",
        b"x" * 100_000,
    ],
)
def test_an_invalid_request_ends_the_connection_and_is_not_logged(site, junk):
    with connected(site) as client:
        client.sendall(junk)

        # The site may reset the connection before it has read all of a long head.
        with suppress(ConnectionResetError):
            assert receive_all(client) == b""
    assert site.logged() == []


def test_each_request_is_logged_with_its_address_its_result_and_its_time(site):
    before = time.monotonic_ns()
    site.get(f"{site.origins[0]}/robots.txt")
    site.get(site.plan.url(1))
    site.get(f"{site.origins[2]}/nowhere?x=1")
    after = time.monotonic_ns()

    logged = site.logged()

    assert [(request.url, request.status, request.open_requests, request.method) for request in logged] == [
        (f"{site.origins[0]}/robots.txt", 200, 1, "GET"),
        (site.plan.url(1), 200, 1, "GET"),
        (f"{site.origins[2]}/nowhere?x=1", 404, 1, "GET"),
    ]
    times = [request.time for request in logged]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= after


def test_a_request_is_logged_with_the_time_before_its_answer_was_computed(tmp_path):
    worked_out = []

    class NotingPlan(SitePlan):
        def outline(self, page):
            worked_out.append(time.monotonic_ns())
            return super().outline(page)

    with closing(RequestLog(tmp_path / "log")) as log, closing(RequestLog(tmp_path / "ends")) as ends:
        plan = NotingPlan(seed=3, pages=9, origins=("http://127.0.0.1:1",))
        Site(plan=plan, behaviour=Behaviour(), log=log, ends=ends).begin(method="GET", path="/", head=b"", host=0)

    (request,) = read_log(tmp_path / "log")
    assert request.time <= worked_out[0]


def test_the_end_of_a_request_is_noted_before_its_answer_is_sent(tmp_path):
    sent = []

    class NotingTransport(asyncio.Transport):
        def write(self, data):
            sent.append(time.monotonic_ns())

        def is_closing(self):
            return False

    with closing(RequestLog(tmp_path / "log")) as log, closing(RequestLog(tmp_path / "ends")) as ends:
        plan = SitePlan(seed=3, pages=9, origins=("http://127.0.0.1:1",))
        connection = Connection(site=Site(plan=plan, behaviour=Behaviour(), log=log, ends=ends), host=0)
        connection.connection_made(NotingTransport())
        connection.data_received(b"GET / HTTP/1.1\r\n\r\n")

    (end,) = read_log(tmp_path / "ends")
    assert end.time <= sent[0]


def test_each_request_is_logged_with_its_client_and_its_end(start_site, tmp_path):
    ends = tmp_path / "ends.log"
    site = start_site("--slow=3:60", f"--ends={ends}", "--latency-ms=1")
    request = "GET {} HTTP/1.1\r\nUser-Agent: {}\r\nConnection: close\r\n\r\n"

    with connected(site) as answered, connected(site) as left:
        left.sendall(request.format("/", "who\tleaves").encode())
        answered.sendall(request.format("/robots.txt", "who waits").encode())
        robots = receive_all(answered).partition(b"\r\n\r\n")[2]
    wait_for_lines(lambda: site.control("flush") and list(read_log(ends)), 2)

    assert {(request.path, request.agent) for request in site.logged()} == {
        ("/", "wholeaves"),
        ("/robots.txt", "who waits"),
    }
    assert [(end.path, end.agent, end.status, end.size) for end in read_log(ends)] == [
        ("/robots.txt", "who waits", 200, len(robots)),
        ("/", "wholeaves", 0, 0),
    ]


def wait_for_lines(read, count):
    deadline = time.monotonic() + PATIENCE
    while len(read()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_log_fills_by_itself_while_the_site_runs(site):
    site.get(site.plan.start_url)
    deadline = time.monotonic() + PATIENCE

    while not list(read_log(site.log)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_open_requests_are_counted_separately_for_each_host(start_site):
    site = start_site("--latency-ms=300")
    request = b"GET /robots.txt HTTP/1.1\r\nConnection: close\r\n\r\n"
    with connected(site) as one, connected(site) as two, connected(site, host=1) as elsewhere:
        for client in (one, two, elsewhere):
            client.sendall(request)
        for client in (one, two, elsewhere):
            receive_all(client)
    with connected(site) as later:
        later.sendall(request)
        receive_all(later)

    gauges = [(request.host, request.open_requests) for request in site.logged()]

    first, second, _ = (urlsplit(origin).netloc for origin in site.origins)
    assert Counter(gauges) == {(first, 1): 2, (first, 2): 1, (second, 1): 1}


def test_the_request_of_a_client_that_left_is_no_longer_open(start_site):
    site = start_site("--latency-ms=60000")
    request = b"GET /robots.txt HTTP/1.1\r\n\r\n"
    deadline = time.monotonic() + PATIENCE

    # The site notices late that a connection has ended, so it may still count that connection during the next one.
    gauges = []
    while 1 not in gauges[1:]:
        assert time.monotonic() < deadline
        with connected(site) as client:
            client.sendall(request)
            lines = len(gauges) + 1
            while len(site.logged()) < lines:
                assert time.monotonic() < deadline
        gauges = [logged.open_requests for logged in site.logged()]


def test_answers_of_the_site_wait_for_the_given_latency(start_site):
    site = start_site("--latency-ms=200")
    before = time.monotonic()

    site.get(site.plan.start_url)

    assert time.monotonic() - before >= 0.199


def test_every_host_has_its_crawl_delay(start_site):
    site = start_site("--crawl-delay=1.5")

    for origin in site.origins:
        assert "Crawl-delay: 1.5" in site.get(f"{origin}/robots.txt")[2]


def test_a_busy_host_refuses_its_first_requests_and_other_hosts_do_not(start_site):
    site = start_site("--busy=1:2:7")
    page = site.plan.url(1)

    assert site.get(f"{site.origins[1]}/robots.txt")[0] == 200
    answers = [site.get(page) for _ in range(3)]

    assert [status for status, _, _ in answers] == [429, 429, 200]
    assert [fields["Retry-After"] for _, fields, _ in answers] == ["7", "7", None]
    assert site.get(site.plan.start_url)[0] == 200


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("set?revision=5", "only 0 to 1 can be next"),
        ("set?revision=1&gone=50", "only 0 to 20 is possible"),
        ("set?revision=1&change=95&gone=20", "are left for that"),
        ("set?revision=1&broken=900", "the pages are 0 to 199"),
        ("set?revision=1&goen=4", "goen: only revision, change, gone and broken can be set"),
        ("set?revision=one", "invalid literal"),
        ("set", "revision is missing"),
    ],
)
def test_an_invalid_revision_is_refused_and_changes_nothing(site, command, sentence):
    status, _, body = site.get(f"{site.origins[0]}/-/{command}")

    assert status == 400
    assert sentence in body
    assert site.control("flush")["revision"] == 0


def test_hosts_are_addresses_on_one_port_or_ports_of_one_address(start_site):
    addresses = start_site(hosts=3).started
    ports = start_site("--host-style=ports", hosts=3).started

    assert addresses["hosts"] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert len(set(addresses["ports"])) == 1
    assert set(ports["hosts"]) == {"127.0.0.1"}
    assert len(set(ports["ports"])) == 3


def test_instead_of_a_used_port_the_next_port_free_on_all_hosts_is_used(start_site):
    with closing(socket.create_server(("127.0.0.2", 0))) as taken:
        port = taken.getsockname()[1]

        site = start_site(f"--port={port}")

    (given,) = set(site.started["ports"])
    assert port < given < port + 100
    assert site.get(site.plan.start_url)[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_site_ends_without_an_error_and_with_a_complete_log(site, number):
    for page in range(50):
        site.get(site.plan.url(page))

    site.process.send_signal(number)

    assert site.process.wait(PATIENCE) == 0
    logged = [request.url for request in read_log(site.log)]
    assert logged == [site.plan.url(page) for page in range(50)]


def test_an_attached_site_ends_with_its_standard_input(start_site):
    site = start_site("--attached")
    assert site.process.poll() is None

    site.process.stdin.close()

    assert site.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--pages=0"], "write a number from 1 on"),
        (["--port=70000"], "write a number from 0 to 65535"),
        (["--latency-ms=-1"], "write a number from 0 on"),
        (["--traps=200"], "only 0 to 100 is possible"),
        (["--busy=1:2"], "not three whole numbers"),
        (["--slow=0:1"], "write a number from 1 on"),
        (["--slow=3"], "not a whole number, a colon and seconds"),
        (["--busy=4:1:1"], "the hosts are 0 to 3"),
        (["--log=/nonexistent/site.log"], "No such file or directory"),
    ],
)
def test_invalid_options_are_refused_with_a_reason(options, sentence):
    run = subprocess.run(
        [sys.executable, "-m", "crawlctl.demo.site", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert run.returncode == 2
    assert sentence in run.stderr


def test_the_site_needs_no_django():
    imported = "import sys, crawlctl.demo.site, crawlctl.demo.expectation; sys.exit('django' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", imported], timeout=PATIENCE, check=False).returncode == 0
