"""
Proves that webmasters can limit the crawler at hosts that they control, and that operators can withdraw these limits.
"""

import http.server
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import dns.resolver
import pytest
from django.db import connection as django_connection
from django.test import Client

from jobs.connectors.repository.web.fetch import Fetcher
from jobs.duties.webmasters import end_webmasters_limits
from jobs.models import Bin, WebmasterLimit
from jobs.queries.webmasters import read_webmasters_limits
from jobs.queue.pace.limits import read_limits
from jobs.settings import webmasters as settings_of_webmasters
from jobs.verbs import policies, webmasters
from jobs.webmasters import checking, dns_proof, limit_requests
from jobs.webmasters.file_proof import problem_of_file
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused
from nodes.models import NodeEvent
from tests.support.api import client_of
from tests.support.cluster import seconds
from tests.support.factories import make_bin, make_job, make_policy
from tests.support.stepping import Main
from tests.support.tables import each_row

HOST = "www.a.example"


@pytest.fixture(autouse=True)
def pages(settings, connection):
    """Switch the pages on, and forget the checks of other tests."""
    on = {settings_of_webmasters.PAGES.path: True}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **on}
    checking.forget_checks()


@pytest.fixture
def visitor():
    return Client()


@pytest.fixture
def record(monkeypatch):
    """Return a function that publishes a TXT record at a DNS server of this test."""
    servers = []

    def publish(name, text):
        command = [sys.executable, "-m", "tests.support.dns_server", name, text]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        servers.append(server)
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], int(server.stdout.readline())
        monkeypatch.setattr(dns_proof, "system_resolver", lambda: resolver)

    yield publish
    for server in servers:
        server.kill()
        server.wait()
        server.stdout.close()


@contextmanager
def web_server(files):
    """Serve these files of a host, by path. Yield the host and the paths that were requested."""
    requested = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            status, body = files.get(self.path, (404, b"nothing"))
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", requested
        server.shutdown()


def request_limit(visitor, host=HOST, **form):
    """Send the form of a host, and return the address of the proof and its token."""
    answer = visitor.post(f"/webmasters/{host}/limit/", form)
    address = answer["Location"]
    token = re.search(r'class="address">([0-9a-f]{40})<', visitor.get(address).content.decode())[1]
    return address, token


def put_in_force(host=HOST, *, gap=60.0, lasts=86_400):
    facts = {"proof": WebmasterLimit.Proof.DNS, "token": "a token", "lasts": seconds(lasts)}
    return webmasters.put_in_force(host, gap=gap, now=read_clock(), **facts)


def in_force(host):
    (found,) = read_limits(
        django_connection.connection, bins=[Bin.objects.get(name=host).pk], now=read_clock()
    ).values()
    return found.limits


def test_a_webmaster_limits_the_crawler_by_a_record_in_the_dns(visitor, record):
    for name in (HOST, f"{HOST}:8080", "b.a.example"):
        make_bin(name)
    address, token = request_limit(visitor, limit="gap", gap="60")
    record(f"_crawlctl.{HOST}", token)

    page = visitor.post(address, {"proof": "dns"})

    assert "The limit is in force" in page.content.decode()
    assert (in_force(HOST).gap, in_force(HOST).requests) == (60.0, 1)
    assert in_force(f"{HOST}:8080").gap == 60.0
    assert in_force("b.a.example").gap < 60.0
    journal = [event.message for event in NodeEvent.objects.all()]
    assert f"A webmaster of {HOST} asked for at most one request in 60 s. Proof: a DNS record" in journal


def test_the_record_of_another_visitor_proves_nothing(visitor, record):
    _, published = request_limit(visitor, limit="gap", gap="60")
    address, _ = request_limit(visitor, limit="stop")
    record(f"_crawlctl.{HOST}", published)

    page = visitor.post(address, {"proof": "dns"})

    assert "has another text" in page.content.decode()
    assert not WebmasterLimit.objects.exists()


def test_a_host_without_a_record_is_not_limited(visitor, record):
    address, token = request_limit(visitor, limit="stop")
    record("_crawlctl.other.example", token)

    page = visitor.post(address, {"proof": "dns"})

    assert "has no TXT record yet" in page.content.decode()
    assert not WebmasterLimit.objects.exists()


def test_a_requested_limit_is_for_one_host_and_cannot_be_changed(visitor):
    address, _ = request_limit(visitor, limit="stop")
    signed = parse_qs(urlsplit(address).query)["request"][0]

    for host, text in (("b.example", signed), (HOST, signed + "x"), (HOST, ""), (HOST, "x" * 5000)):
        with pytest.raises(limit_requests.InvalidLimitRequest):
            limit_requests.read(text, host=host)
        assert visitor.get(f"/webmasters/{host}/proof/", {"request": text})["Location"] == f"/webmasters/{host}/"


@each_row("form", [{}, {"limit": "x"}, *({"limit": "gap", "gap": gap} for gap in ("", "0", "nan", "-1", "1e9", "x"))])
def test_an_invalid_limit_is_refused_at_its_field(visitor, form):
    answer = visitor.post(f"/webmasters/{HOST}/limit/", form)

    assert answer.status_code == 400
    assert "gap-problem" in answer.content.decode()


def test_an_immediate_second_check_of_a_proof_is_refused_with_429(visitor, record):
    address, _ = request_limit(visitor, limit="stop")
    record("_crawlctl.other.example", "x")
    visitor.post(address, {"proof": "dns"})

    again = visitor.post(address, {"proof": "dns"})

    assert again.status_code == 429


@each_row(
    ("files", "problem"),
    [
        ({"/a.txt": (200, b"the-token\n")}, ""),
        ({"/a.txt": (200, b"another")}, "has another text"),
        ({"/a.txt": (302, b"the-token")}, "answered 302"),
        ({"/a.txt": (200, b"x" * 100_000)}, "has another text"),
        ({}, "answered 404"),
    ],
)
def test_a_file_on_a_host_proves_that_the_webmaster_controls_the_host(files, problem):
    with web_server(files) as (host, _):
        found = problem_of_file(host, "/a.txt", "the-token", fetcher=lambda: Fetcher(allow_private_networks=True))

    assert problem in found
    assert bool(found) == bool(problem)


def test_the_file_of_a_proof_is_not_requested_from_a_private_network():
    with web_server({"/a.txt": (200, b"the-token")}) as (host, requested):
        found = problem_of_file(host, "/a.txt", "the-token")

    assert "could not be read" in found
    assert requested == []


def test_a_limit_of_a_webmaster_is_never_faster_than_that_of_the_operator():
    make_bin(HOST)
    make_policy(name="slow", min_gap=100.0, applies_everywhere=True)

    put_in_force(gap=10.0)

    assert in_force(HOST).gap == 100.0


def test_a_webmaster_stops_requests_and_allows_them_again(visitor, record):
    make_bin(HOST)
    put_in_force(gap=None)
    assert in_force(HOST).denied
    address, token = request_limit(visitor, limit="none")
    record(f"_crawlctl.{HOST}", token)

    visitor.post(address, {"proof": "dns"})

    assert not in_force(HOST).denied
    assert not WebmasterLimit.objects.exists()


def test_operators_see_and_withdraw_a_limit_with_its_proof():
    host = make_bin(HOST)
    make_job()
    put_in_force()
    operator = client_of("operator")

    for path in ("/hosts/webmasters/", f"/hosts/{host.pk}/"):
        shown = operator.get(path).content.decode()
        assert "at most one request in 60 s" in shown
        assert "a DNS record" in shown
    operator.post("/hosts/webmasters/", f"host={HOST}", content_type="application/x-www-form-urlencoded")

    assert in_force(HOST).gap < 60.0
    assert not WebmasterLimit.objects.exists()
    assert any("withdrew the limit" in event.message for event in NodeEvent.objects.all())


def test_operators_withdraw_a_limit_by_the_api():
    put_in_force()
    operator = client_of("operator")
    (line,) = operator.get("/api/v1/webmasters-limits/").json()["limits"]

    left = operator.post("/api/v1/webmasters-limits/withdraw/", {"host": HOST}, format="json").json()
    again = operator.post("/api/v1/webmasters-limits/withdraw/", {"host": HOST}, format="json")

    assert (line["host"], line["gap"], line["proof"], line["is_in_force"]) == (HOST, 60.0, "dns", True)
    assert left == {"limits": []}
    assert (again.status_code, again.json()["code"]) == (404, "not_found")


def test_a_limit_removed_from_the_policy_is_not_shown_as_in_force():
    put_in_force()
    policy = policies.ThrottlePolicy.objects.get(name="Webmasters")

    policies.change(policy.pk, rules=[], everywhere=True)

    assert [line.is_in_force for line in read_webmasters_limits()] == [False]


def test_the_limit_of_a_webmaster_ends_when_it_expires(connection):
    make_bin(HOST)
    make_bin("b.example")
    put_in_force(lasts=-1)
    put_in_force("b.example", gap=None)

    assert Main(connection).step(end_webmasters_limits) == 1

    assert in_force(HOST).gap < 60.0
    assert in_force("b.example").denied
    assert [limit.host for limit in WebmasterLimit.objects.all()] == ["b.example"]
    assert any("has expired" in event.message for event in NodeEvent.objects.all())


def test_the_number_of_limits_is_bounded(monkeypatch):
    monkeypatch.setattr(webmasters, "MOST_LIMITS", 1)
    put_in_force()
    put_in_force(gap=None)

    with pytest.raises(Refused):
        put_in_force("b.example")
    with pytest.raises(Invalid):
        put_in_force(gap=0.5)
