"""Proves that each answer of a web server leads to exactly one result of the document."""

import asyncio
import email.utils
import logging
import time
from dataclasses import replace

import pytest

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, Ending, hash_of
from jobs.connectors.repository.kind import Seeding, SourceSettings
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.fetch import Fetcher
from jobs.connectors.repository.web.kind import WEB
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.robots import ALLOW_ALL, RobotsAnswer, RobotsKind, RobotsTable
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.urls import origin_of
from tests.support.free_pace import FreePace
from tests.support.hostile import HostileSite, answer, drip, redirect, reset_after
from tests.support.stages import ReadsTypes

SHORT = Limits(request_seconds=0.5, body_bytes=200_000, least_rate=1000, least_rate_after=0.2)
CONFIGURATION = "7"
PAGE = b"<html lang=en><title>A page</title><meta name=description content=About><p>Words <a href=/b>b</a>"


class Crawl:
    """A web connector with its process-wide objects. `process` returns the outcome for one address."""

    def __init__(self, fetcher, *, seeds, robots=None, limits=SHORT, **specification):
        specification = {"allow_private_networks": True, "seeds": tuple(seeds), **specification}
        self.robots = robots or RobotsTable(limits=limits)
        self.pace = FreePace()
        self.connector = WebConnector(
            WebSpecification(**specification), fetcher=fetcher, robots=self.robots, limits=limits
        )

    async def process(self, url, *, pipeline=None, shared=None, **known):
        document = Document(
            **{
                "hash": hash_of(url),
                "identifier": url,
                "depth": 0,
                "redirects": 0,
                "version": "",
                "validators": "",
                "failures": 0,
                "failing_for": 0.0,
                **known,
            }
        )
        activity = Activity(document, CONFIGURATION, pipeline=pipeline, shared=shared)
        await self.connector.process(document, activity, self.pace)
        return activity.outcome


@pytest.fixture
async def fetcher():
    async with Fetcher(allow_private_networks=True, limits=SHORT) as fetcher:
        yield fetcher


async def outcome_of(fetcher, route, *, path="/a", limits=SHORT, known=None, **specification):
    """Return the outcome of the only document of a site."""
    async with HostileSite.serve({path: route}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()], limits=limits, **specification)
        return await crawl.process(site.url(path), **(known or {}))


def named(outcome):
    return None if outcome.references is None else [r.identifier.split("/", 3)[3] for r in outcome.references]


async def test_a_page_is_ingested_with_its_links(fetcher):
    route = answer(PAGE, headers=('ETag: "1"', "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT"))

    outcome = await outcome_of(fetcher, route, known={"depth": 3})

    assert (outcome.ending, outcome.code, outcome.requested) == (Ending.INDEXED, "200", True)
    assert outcome.bytes_read == len(PAGE)
    assert outcome.version.startswith("7:")
    content = outcome.content
    assert (content.title, content.description, content.text) == ("A page", "About", "Words b")
    assert (content.content_type, content.language) == ("text/html", "en")
    assert content.url == outcome.document.identifier
    assert [(r.identifier[-2:], r.is_redirect) for r in outcome.references] == [("/b", False)]


async def test_every_request_is_recorded_for_the_history(fetcher):
    async with HostileSite.serve({"/robots.txt": answer(status="404 No"), "/a": answer(PAGE)}) as site:
        outcome = await Crawl(fetcher, seeds=[site.url()]).process(site.url("/a"))

        assert [(record.activity, record.entity, record.result_code) for record in outcome.records] == [
            ("fetch", site.url("/robots.txt"), "404"),
            ("fetch", site.url("/a"), "200"),
        ]
    assert outcome.records[1].bytes == len(PAGE)
    assert 0 < outcome.records[1].seconds < 5


async def test_a_request_that_failed_is_recorded_with_its_reason(fetcher):
    outcome = await outcome_of(fetcher, answer(b"x" * 300_000, content_type="text/plain"))

    assert [record.result_code for record in outcome.records][-1] == "TOO_LARGE"


async def test_a_plain_text_is_ingested(fetcher):
    outcome = await outcome_of(fetcher, answer(b"\n<b>words</b>\n", content_type="text/plain"))

    assert (outcome.code, outcome.content.text, outcome.references) == ("200", "<b>words</b>", [])


@pytest.mark.parametrize(
    ("route", "ending", "code"),
    [
        pytest.param(answer(b""), Ending.INDEXED, "200", id="empty"),
        pytest.param(answer(PAGE, status="203 Changed"), Ending.INDEXED, "203", id="203"),
        pytest.param(answer(status="204 No Content"), Ending.EXCLUDED, "NOT_TEXT", id="204"),
        pytest.param(answer(PAGE, status="206 Partial"), Ending.RETRY, "INCOMPLETE", id="206 unasked"),
        pytest.param(answer(status="304 Not Modified"), Ending.FAILED, "PROTOCOL", id="304 unasked"),
        pytest.param(answer(status="300 Choices"), Ending.FAILED, "300", id="300"),
        pytest.param(answer(status="400 Bad"), Ending.FAILED, "400", id="400"),
        pytest.param(answer(status="401 No"), Ending.FAILED, "401", id="401"),
        pytest.param(answer(status="403 No"), Ending.FAILED, "403", id="403"),
        pytest.param(answer(status="404 Gone"), Ending.FAILED, "404", id="404"),
        pytest.param(answer(status="410 Gone"), Ending.FAILED, "410", id="410"),
        pytest.param(answer(status="418 Teapot"), Ending.FAILED, "418", id="418"),
        pytest.param(answer(status="099 No"), Ending.FAILED, "PROTOCOL", id="099"),
        pytest.param(answer(status="999 No"), Ending.FAILED, "999", id="999"),
        pytest.param(answer(status="408 Slow"), Ending.RETRY, "408", id="408"),
        pytest.param(answer(status="425 Early"), Ending.RETRY, "425", id="425"),
        pytest.param(answer(status="500 Error"), Ending.RETRY, "500", id="500"),
        pytest.param(answer(status="599 Error"), Ending.RETRY, "599", id="599"),
        pytest.param(answer(b"%PDF-1.7", content_type="application/pdf"), Ending.EXCLUDED, "NOT_TEXT", id="PDF"),
        pytest.param(answer(b"%PDF-1.7 ..."), Ending.EXCLUDED, "NOT_TEXT", id="PDF as HTML"),
        pytest.param(answer(b"x" * 300_000, content_type="image/png"), Ending.EXCLUDED, "NOT_TEXT", id="a large image"),
        pytest.param(answer(b"<p>" + b"x" * 300_000), Ending.FAILED, "TOO_LARGE", id="too large"),
        pytest.param(answer(b"<p>words", content_type=None), Ending.INDEXED, "200", id="no type"),
        pytest.param(answer(b"<meta name=robots content=noindex>"), Ending.EXCLUDED, "NOINDEX", id="meta noindex"),
        pytest.param(answer(PAGE, headers=("X-Robots-Tag: noindex",)), Ending.EXCLUDED, "NOINDEX", id="header noindex"),
        pytest.param(answer(PAGE, headers=("X-Robots-Tag: otherbot: noindex",)), Ending.INDEXED, "200", id="not us"),
        pytest.param(drip(b"HTTP/1.1 404 No\r\n\r\n", b"x", every=0.05), Ending.FAILED, "404", id="404 that drips"),
        pytest.param(answer(b"x" * 300_000, status="410 Gone"), Ending.FAILED, "410", id="410 too large"),
        pytest.param(answer(b"no gzip", status="404 No", headers=("Content-Encoding: gzip",)), Ending.FAILED, "404", id="404 broken"),
        pytest.param(b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nx", Ending.FAILED, "404", id="404 cut"),
        pytest.param(
            drip(b"HTTP/1.1 302 No\r\nLocation: /b\r\n\r\n", b"x", every=0.05), Ending.EXCLUDED, "REDIRECT", id="302 that drips"
        ),
        pytest.param(b"", Ending.RETRY, "RESET", id="closed"),
        pytest.param(reset_after(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), Ending.RETRY, "INCOMPLETE", id="cut"),
        pytest.param(b"nonsense\r\n\r\n", Ending.RETRY, "PROTOCOL", id="nonsense"),
        pytest.param(drip(b"HTTP/1.1 200 O", b"K", every=0.05), Ending.FAILED, "TOO_SLOW", id="drips its head"),
        pytest.param(drip(b"", b"", every=0.05), Ending.RETRY, "DEADLINE", id="says nothing"),
        pytest.param(drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x", every=0.05), Ending.FAILED, "TOO_SLOW", id="drips its body"),
    ],
)  # fmt: skip
async def test_every_answer_gives_its_result(fetcher, route, ending, code):
    outcome = await outcome_of(fetcher, route)

    assert (outcome.ending, outcome.code, outcome.requested) == (ending, code, True)


@pytest.mark.parametrize(("status", "removes"), [("404 Gone", True), ("410 Gone", True), ("403 No", False)])
async def test_only_an_answer_of_the_source_removes_a_document(fetcher, status, removes):
    outcome = await outcome_of(fetcher, answer(status=status), known={"version": "7:x", "validators": "{}"})

    assert outcome.removes is removes
    assert outcome.references == ([] if removes else None)
    assert outcome.version == ("" if removes else "7:x")


@pytest.mark.parametrize(
    ("status", "failures", "ending", "after", "back_off"),
    [
        ("500 Error", 0, Ending.RETRY, 1.0, None),
        ("500 Error", 1, Ending.RETRY, 5.0, None),
        ("500 Error", 2, Ending.FAILED, 0.0, None),
        ("429 Busy", 0, Ending.RETRY, 1.0, 0.0),
        ("503 Busy", 3, Ending.RETRY, 8.0, 0.0),
        ("503 Busy", 4, Ending.FAILED, 0.0, 0.0),
    ],
)
async def test_a_temporary_failure_is_retried_a_few_times(fetcher, status, failures, ending, after, back_off):
    outcome = await outcome_of(fetcher, answer(status=status), known={"failures": failures})

    assert (outcome.ending, outcome.retry_after, outcome.back_off) == (ending, after, back_off)


@pytest.mark.parametrize(
    ("value", "after"),
    [
        ("7", 7.0),
        ("99999999", 86400.0),
        ("Mon, 01 Jan 2024 00:01:00 GMT", 60.0),
        ("Mon, 01 Jan 2023 00:00:00 GMT", 0.0),
    ],
)
async def test_retry_after_is_obeyed_up_to_a_day(fetcher, value, after):
    route = answer(status="503 Busy", headers=(f"Retry-After: {value}", "Date: Mon, 01 Jan 2024 00:00:00 GMT"))

    outcome = await outcome_of(fetcher, route)

    assert (outcome.retry_after, outcome.back_off) == (after, after)


@pytest.mark.parametrize("value", ["soon", "-5"])
async def test_an_invalid_retry_after_is_ignored(fetcher, value):
    outcome = await outcome_of(fetcher, answer(status="503 Busy", headers=(f"Retry-After: {value}",)))

    assert (outcome.retry_after, outcome.back_off) == (1.0, 0.0)


async def test_retry_after_without_a_date_is_read_by_our_clock(fetcher):
    later = email.utils.formatdate(time.time() + 100, usegmt=True)

    outcome = await outcome_of(fetcher, answer(status="503 Busy", headers=(f"Retry-After: {later}",)))

    assert 90 < outcome.retry_after <= 100


async def test_an_unchanged_page_is_not_indexed_again(fetcher):
    first = await outcome_of(fetcher, answer(PAGE))

    again = await outcome_of(fetcher, answer(PAGE + b"<script>17</script>"), known={"version": first.version})
    changed = await outcome_of(fetcher, answer(PAGE + b"more"), known={"version": first.version})

    assert (again.ending, again.code, named(again)) == (Ending.UNCHANGED, "OK_UNCHANGED", ["b"])
    assert (changed.ending, changed.code) == (Ending.INDEXED, "200")


async def test_a_page_is_requested_conditionally_if_the_outputs_hold_it(fetcher):
    first = await outcome_of(fetcher, answer(PAGE, headers=('ETag: "1"', "Last-Modified: yesterday")))
    held = {"version": first.version, "validators": first.validators}
    async with HostileSite.serve({"/a": answer(status="304 Not Modified")}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])

        outcome = await crawl.process(site.url("/a"), **held)
        elsewhere = await crawl.process(site.url("/a"), **{**held, "version": "6:other"})

    assert (outcome.ending, outcome.code, outcome.references) == (Ending.UNCHANGED, "304", None)
    assert (outcome.version, outcome.validators) == (first.version, first.validators)
    headers = site.requests[1].headers
    assert (headers["if-none-match"], headers["if-modified-since"]) == ('"1"', "yesterday")
    assert "if-none-match" not in site.requests[2].headers
    assert (elsewhere.ending, elsewhere.code) == (Ending.FAILED, "PROTOCOL")


@pytest.mark.parametrize(
    ("location", "known", "code"),
    [
        ("/b", {}, "REDIRECT"),
        ("/b", {"redirects": 9}, "REDIRECT"),
        ("/b", {"redirects": 10}, "TOO_MANY_REDIRECTS"),
        ("/a", {}, "REDIRECT_LOOP"),
        ("/a#there", {}, "REDIRECT_LOOP"),
        ("", {}, "BAD_REDIRECT"),
        ("http://", {}, "BAD_REDIRECT"),
        ("http://[", {}, "BAD_REDIRECT"),
        ("file:///etc/passwd", {}, "BAD_REDIRECT"),
        ("gopher://127.0.0.1/", {}, "BAD_REDIRECT"),
        ("data:text/html,x", {}, "BAD_REDIRECT"),
        ("/" + "a" * 3000, {}, "BAD_REDIRECT"),
        ("http://other.example/", {}, "OUT_OF_SCOPE"),
        ("http://0x7f.1/", {}, "OUT_OF_SCOPE"),
    ],
)
@pytest.mark.parametrize("status", ["301 Moved", "308 Moved"])
async def test_each_redirect_has_the_expected_outcome(fetcher, status, location, known, code):
    outcome = await outcome_of(fetcher, redirect(location, status), known=known)

    assert (outcome.ending, outcome.code, outcome.removes) == (Ending.EXCLUDED, code, True)
    assert named(outcome) == (["b"] if code == "REDIRECT" else [])


async def test_addresses_that_the_rules_refuse_are_reported(fetcher):
    page = await outcome_of(fetcher, answer(b"<html><a href=b>b</a><a href=http://other.example/x>x</a>"))
    moved = await outcome_of(fetcher, redirect("http://other.example/"))

    assert (named(page), list(page.rejected)) == (["b"], ["http://other.example/x"])
    assert list(moved.rejected) == ["http://other.example/"]


@pytest.mark.parametrize(
    ("route", "ended"),
    [
        (answer(PAGE), ["/a", "/b"]),
        (answer(b"%PDF-", content_type="application/pdf"), ["/a", "/b"]),
        (answer(b'<meta name=robots content="noindex">'), ["/a", "/b"]),
        (answer(PAGE, status="206 Partial"), []),
        (answer(status="404 Not Found"), []),
        (answer(status="500 Error"), []),
        (redirect("/c"), []),
        (reset_after(b""), []),
    ],
)
async def test_a_page_at_the_address_of_a_redirect_ends_the_redirect(fetcher, route, ended):
    class Stored:
        def __init__(self):
            self.forgotten = []

        async def note_redirect(self, _redirect):
            pass

        async def forget_redirects(self, sources):
            self.forgotten += sources

    shared = Stored()
    async with HostileSite.serve({"/a": route}) as site:
        redirects = ((site.url("/a"), site.url("/b")), (site.url("/b"), "http://www.example/"))
        crawl = Crawl(fetcher, seeds=[site.url("/a")], redirects=redirects)

        for _ in range(2):
            await crawl.process(site.url("/a"), shared=shared)

    assert shared.forgotten == [site.url(path) for path in ended]


async def test_a_redirect_is_followed_where_no_link_would_be(fetcher):
    outcome = await outcome_of(fetcher, redirect("/b"), known={"depth": 4, "redirects": 2}, max_depth=4)

    assert [r.is_redirect for r in outcome.references] == [True]


async def test_a_redirect_in_binary_bytes_is_escaped(fetcher):
    route = b"HTTP/1.1 301 Moved\r\nLocation: /caf\xe9\xff\r\nContent-Length: 0\r\n\r\n"

    assert named(await outcome_of(fetcher, route)) == ["caf%E9%FF"]


@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<a href=b><a href=/a><a href=#x><a href=http://other.example/><a href=mailto:x><a href=b#y>", ["b"]),
        ("<base href=/c/><a href=b>", ["c/b"]),
        ("<base href=javascript:x><a href=b>", ["b"]),
        ("<base href=http://other.example/><a href=b><a href=/b>", []),
        ("<meta name=robots content=nofollow><a href=b>", []),
        ("<meta name=robots content=noindex><a href=b>", ["b"]),
        ("<meta http-equiv=refresh content='0;url=b'>", ["b"]),
        ("<a href='//user:secret@127.0.0.1:1/'><a href='javascript:'><a href='http://['>", []),
    ],
)
async def test_only_links_that_may_be_followed_become_references(fetcher, html, links):
    assert named(await outcome_of(fetcher, answer(html.encode()))) == links


async def test_links_of_a_document_at_the_depth_limit_are_ignored(fetcher):
    assert named(await outcome_of(fetcher, answer(PAGE), known={"depth": 1}, max_depth=2)) == ["b"]
    assert named(await outcome_of(fetcher, answer(PAGE), known={"depth": 2}, max_depth=2)) == []
    assert named(await outcome_of(fetcher, answer(PAGE), max_depth=0)) == []


async def test_patterns_of_the_job_apply_to_links(fetcher):
    html = b"<a href=/en/1><a href=/en/2.pdf><a href=/de/1>"

    outcome = await outcome_of(fetcher, answer(html), path="/en/", include=("/en/",), exclude=(r"\.pdf$",))

    assert named(outcome) == ["en/1"]


@pytest.mark.parametrize("rules", [{"include": ("/en/",)}, {"exclude": ("/a$",)}])
async def test_a_page_that_the_present_rules_refuse_is_not_requested(fetcher, rules):
    async with HostileSite.serve({"/a": answer(PAGE)}) as site:
        outcome = await Crawl(fetcher, seeds=[site.url("/en/")], **rules).process(site.url("/a"), version="6:text")

        assert site.paths() == []
    assert (outcome.ending, outcome.code, outcome.removes) == (Ending.EXCLUDED, "OUT_OF_SCOPE", True)
    assert (outcome.requested, outcome.references) == (False, [])


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ({"content_types": ("text/html",)}, "200"),
        ({"content_types": ("TEXT/*",)}, "200"),
        ({"content_types": ("text/plain", "application/*")}, "EXCLUDED_TYPE"),
        ({"max_bytes": len(PAGE)}, "200"),
        ({"max_bytes": len(PAGE) - 1}, "EXCLUDED_LENGTH"),
        ({"exclude_text": ("words",)}, "200"),
        ({"exclude_text": ("nothing", "(?i)words")}, "EXCLUDED_TEXT"),
        ({"exclude_text": ("^A page$",)}, "EXCLUDED_TEXT"),
    ],
)
async def test_a_page_that_the_job_does_not_index_is_removed_and_its_links_count(fetcher, rules, code):
    outcome = await outcome_of(fetcher, answer(PAGE), known={"version": "7:old"}, **rules)

    assert (outcome.code, outcome.removes, named(outcome)) == (code, code != "200", ["b"])


@pytest.mark.parametrize(
    ("rules", "field", "says"),
    [
        ({"content_types": ["html"]}, "content_types", "'html' is not a content type; write text/html or text/*"),
        ({"max_bytes": 0}, "max_bytes", "max_bytes"),
        ({"exclude_text": ["("]}, "exclude_text", "pattern '(', position 0"),
    ],
)
def test_invalid_rules_of_indexing_are_refused_by_field(rules, field, says):
    checked = WEB.check(SourceSettings(specification=rules, seeds=["http://a.example/"]))

    assert list(checked.problems) == [field]
    assert says in checked.problems[field][0]


async def test_a_page_that_robots_txt_forbids_is_not_requested(fetcher):
    routes = {"/robots.txt": answer(b"User-agent: *\nDisallow: /a\nAllow: /a/b\n", content_type="text/plain")}
    async with HostileSite.serve(routes) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])

        forbidden = await crawl.process(site.url("/a"))
        allowed = await crawl.process(site.url("/a/b"))

    assert (forbidden.ending, forbidden.code, forbidden.removes) == (Ending.EXCLUDED, "ROBOTS", True)
    assert (forbidden.requested, forbidden.references) == (False, [])
    assert (allowed.code, allowed.requested) == ("404", True)
    assert site.paths() == ["/robots.txt", "/a/b"]
    assert (crawl.pace.requests, crawl.pace.left) == (2, 2)
    assert list(crawl.robots.take_fetched()) == [origin_of(site.url())]
    assert crawl.robots.take_fetched() == {}


async def test_robots_txt_is_applied_by_the_name_of_our_crawler(fetcher):
    rules = b"User-agent: *\nDisallow:\nCrawl-delay: 3\n\nUser-agent: OurBot\nDisallow: /\nCrawl-delay: 86400\n"
    async with HostileSite.serve({"/robots.txt": answer(rules, content_type="text/plain"), "/a": answer(PAGE)}) as site:
        robots = RobotsTable(limits=SHORT)
        ours = Crawl(fetcher, seeds=[site.url()], robots=robots, user_agent="OurBot/1.0 (+http://a.example)")
        other = Crawl(fetcher, seeds=[site.url()], robots=robots, user_agent="Another/1.0")

        assert (await ours.process(site.url("/a"))).code == "ROBOTS"
        assert (await other.process(site.url("/a"))).code == "200"

    origin = origin_of(site.url())
    assert robots.crawl_delay(origin, name="OurBot") == 60.0
    assert robots.crawl_delay(origin, name="Another") == 3.0


@pytest.mark.parametrize(
    ("robots", "code"),
    [
        pytest.param(answer(status="404 Not Found"), "200", id="404"),
        pytest.param(answer(status="401 No"), "200", id="401"),
        pytest.param(answer(status="403 No"), "200", id="403"),
        pytest.param(answer(b"<!DOCTYPE html><title>Not found</title><p>Nothing here"), "200", id="a page"),
        pytest.param(answer(b"<!-- ours -->\nUser-agent: *\nDisallow: /a"), "ROBOTS", id="behind a comment of HTML"),
        pytest.param(answer(b"\xef\xbb\xbfUser-agent: *\nDisallow: /a"), "ROBOTS", id="byte order mark"),
        pytest.param(answer(b"user-agent:*\r\ndisallow:/a\r\n"), "ROBOTS", id="carriage returns"),
        pytest.param(answer(b"\x00\xff\x01" * 999), "200", id="binary"),
        pytest.param(answer(b"User-agent: *\nDisallow: /a\n#" + b"x" * 5_000_000), "ROBOTS", id="5 MB, rule first"),
        pytest.param(answer(b"User-agent: *\nDisallow: /".ljust(500 * 1024, b"a") + b"b\n"), "200", id="a rule cut at the limit"),
        pytest.param(answer(b"#" + b"x" * 5_000_000 + b"\nUser-agent: *\nDisallow: /a"), "200", id="5 MB, rule last"),
        pytest.param(redirect("/1"), "ROBOTS", id="five redirects"),
        pytest.param(redirect("/0"), "200", id="six redirects"),
        pytest.param(redirect("file:///etc/passwd"), "200", id="a redirect to a file"),
        pytest.param(redirect("/robots.txt"), "200", id="a redirect to itself"),
        pytest.param(b"HTTP/1.1 302 Found\r\nLocation: /caf\xe9\r\nContent-Length: 0\r\n\r\n", "ROBOTS", id="a redirect in binary bytes"),
        pytest.param(answer(b"User-agent: *\nDisallow: /a", status="203 Changed"), "ROBOTS", id="203"),
    ],
)  # fmt: skip
async def test_each_valid_form_of_robots_txt_is_read(fetcher, robots, code):
    rules = answer(b"User-agent: *\nDisallow: /a\n", content_type="text/plain")
    hops = {f"/{n}": redirect(f"/{n + 1}") for n in range(5)} | {"/5": rules, "/caf%E9": rules}
    async with HostileSite.serve({"/robots.txt": robots, "/a": answer(PAGE), **hops}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])

        outcome = await crawl.process(site.url("/a"))

    assert outcome.code == code


@pytest.mark.parametrize("status", ["500 Error", "503 Busy", "429 Busy"])
async def test_a_host_whose_robots_txt_fails_is_retried_a_limited_number_of_times(fetcher, status):
    async with HostileSite.serve({"/robots.txt": answer(status=status), "/a": answer(PAGE)}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()], robots_wait=60)

        first = await crawl.process(site.url("/a"), version="7:x")
        second = await crawl.process(site.url("/b"))
        last = await crawl.process(site.url("/a"), version="7:x", failures=6, failing_for=60.0)

    assert (first.ending, first.code, first.requested) == (Ending.RETRY, "ROBOTS_UNREACHABLE", False)
    assert first.back_off == first.retry_after == 1.0
    assert second.ending is Ending.RETRY
    assert (last.ending, last.code, last.removes) == (Ending.EXCLUDED, "ROBOTS_UNREACHABLE", False)
    assert (last.version, last.references, last.requested) == ("7:x", None, False)
    assert site.paths() == ["/robots.txt"]


@pytest.mark.parametrize(
    ("route", "by_cause", "ending"),
    [
        pytest.param(
            answer(status="500 Error"), {"robots": 6, "back-off": 3}, Ending.RETRY, id="network after outages"
        ),
        pytest.param(answer(status="500 Error"), {"robots": 6, "network": 2}, Ending.FAILED, id="last of the network"),
        pytest.param(answer(status="503 Busy"), {"robots": 6, "network": 2}, Ending.RETRY, id="busy after an outage"),
        pytest.param(answer(status="503 Busy"), {"back-off": 4, "network": 1}, Ending.FAILED, id="last of being busy"),
    ],
)
async def test_an_outage_does_not_use_up_retries_of_another_kind(fetcher, route, by_cause, ending):
    known = {"failures": sum(by_cause.values()), "failures_by_cause": by_cause}

    outcome = await outcome_of(fetcher, route, known=known)

    assert (outcome.ending, outcome.retry_after) == (ending, 1.0 if ending is Ending.RETRY else 0.0)


async def test_without_a_wait_for_robots_txt_a_first_failure_excludes_a_document(fetcher):
    async with HostileSite.serve({"/robots.txt": answer(status="500 Error")}) as site:
        outcome = await Crawl(fetcher, seeds=[site.url()], robots_wait=0).process(site.url("/a"))

    assert (outcome.ending, outcome.code) == (Ending.EXCLUDED, "ROBOTS_UNREACHABLE")


async def test_a_host_that_answers_again_is_crawled(fetcher):
    now = [0.0]
    async with HostileSite.serve({"/robots.txt": answer(status="500 Error"), "/a": answer(PAGE)}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()], robots=RobotsTable(clock=lambda: now[0]))
        assert (await crawl.process(site.url("/a"))).ending is Ending.RETRY

        site.routes["/robots.txt"] = answer(status="404 Not Found")
        now[0] += 5

        assert (await crawl.process(site.url("/a"), failures=1, failing_for=5.0)).code == "200"
        assert crawl.robots.unreachable_for(origin_of(site.url())) == 0.0


@pytest.mark.parametrize(
    ("robots", "ending", "code"),
    [
        pytest.param(b"", Ending.RETRY, "RESET", id="closed"),
        pytest.param(b"nonsense\r\n\r\n", Ending.RETRY, "PROTOCOL", id="nonsense"),
        pytest.param(drip(b"HTTP/1.1 200 O", b"K", every=0.05), Ending.RETRY, "DEADLINE", id="drips its head"),
        pytest.param(drip(b"", b"", every=0.05), Ending.RETRY, "DEADLINE", id="says nothing"),
    ],
)
async def test_a_connection_that_fails_for_robots_txt_fails_the_document(fetcher, robots, ending, code):
    async with HostileSite.serve({"/robots.txt": robots}) as site:
        outcome = await Crawl(fetcher, seeds=[site.url()]).process(site.url("/a"))

    assert (outcome.ending, outcome.code, outcome.requested) == (ending, code, False)


async def test_the_requests_of_a_document_share_one_deadline(fetcher):
    """Each redirect of robots.txt comes late, but within the limit of one request."""

    def late(response):
        async def script(writer):
            await asyncio.sleep(0.3)
            writer.write(response)

        return script

    limits = replace(SHORT, document_seconds=0.5)
    routes = {f"/{hop}.txt": late(redirect(f"/{hop + 1}.txt")) for hop in range(5)}
    async with HostileSite.serve({"/robots.txt": late(redirect("/0.txt")), **routes}) as site:
        begun = time.monotonic()
        outcome = await Crawl(fetcher, seeds=[site.url()], limits=limits).process(site.url("/a"))

    assert (outcome.ending, outcome.code, len(site.requests)) == (Ending.RETRY, "DEADLINE", 2)
    assert time.monotonic() - begun < 1.5


async def test_a_redirected_robots_txt_cannot_reach_a_private_network(fetcher, unused_tcp_port):
    async with Fetcher(limits=SHORT) as public, HostileSite.serve({}) as site:
        outcome = await Crawl(public, seeds=[site.url()], allow_private_networks=False).process(site.url("/a"))

    assert (outcome.ending, outcome.code) == (Ending.FAILED, "ADDRESS_FORBIDDEN")
    assert site.connections == 0


async def test_robots_txt_known_to_other_workers_is_not_fetched_again(fetcher):
    async with HostileSite.serve({"/a": answer(PAGE), "/b": answer(PAGE)}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])
        crawl.robots.learn(
            origin_of(site.url()), RobotsAnswer(RobotsKind.RULES, text="User-agent: *\nDisallow: /b"), lives_for=60
        )

        assert (await crawl.process(site.url("/a"))).code == "200"
        assert (await crawl.process(site.url("/b"))).code == "ROBOTS"

    assert site.paths() == ["/a"]


async def test_a_cached_answer_expires(fetcher):
    now = [0.0]
    robots = RobotsTable(clock=lambda: now[0])
    robots.learn("http://a.example", ALLOW_ALL, lives_for=10)

    assert robots.known("http://a.example") is ALLOW_ALL
    now[0] = 10.0
    assert robots.known("http://a.example") is None


async def test_an_unexpected_error_while_reading_ends_the_document_and_is_logged(fetcher, monkeypatch, caplog):
    def broken(*_args, **_more):
        raise RecursionError

    monkeypatch.setattr("jobs.connectors.repository.web.reading.read_page", broken)
    with caplog.at_level(logging.ERROR):
        outcome = await outcome_of(fetcher, answer(PAGE))

    assert (outcome.ending, outcome.code) == (Ending.FAILED, "PROTOCOL")
    assert "defect while reading" in caplog.text


async def test_no_password_of_a_link_is_logged_or_kept(fetcher, caplog):
    with caplog.at_level(logging.DEBUG):
        async with HostileSite.serve({"/a": answer(b"<a href='http://me:secret@127.0.0.1/'>")}) as site:
            crawl = Crawl(fetcher, seeds=[f"http://me:secret@127.0.0.1:{site.port}/"], scope="any")
            seed = WEB.canonical(f"http://me:secret@127.0.0.1:{site.port}/a")
            outcome = await crawl.process(seed)

    assert "secret" not in seed + caplog.text + repr(outcome)
    assert named(outcome) == [""]
    assert not any("authorization" in request.headers for request in site.requests)


def test_seeds_are_made_canonical_and_listed_once():
    named = Seeding()
    typed = ["HTTP://a.example", "http://a.example/#x", "http://b.example:81", "not an address any more"]

    WEB.seed(SourceSettings(seeds=typed), named, last_version="")

    assert [(s.identifier, s.bin) for s in named.references.values()] == [
        ("http://a.example/", "a.example"),
        ("http://b.example:81/", "b.example:81"),
    ]


def test_refused_seeds_are_named_with_the_rule_and_the_remedy():
    seeds = [f"http://a.example/docs/{n}" for n in range(12)] + ["http://a.example/"]

    checked = WEB.check(SourceSettings(specification={"exclude": ["docs"]}, seeds=seeds))

    assert checked.problems["seeds"][0] == (
        "The seed http://a.example/docs/0 would never be fetched: the exclude pattern 'docs' matches it."
        " Change the rules or remove the seed."
    )
    assert len(checked.problems["seeds"]) == 11
    assert checked.problems["seeds"][-1] == "The rules refuse 2 more seeds."


def test_seeds_that_are_no_web_addresses_are_refused():
    checked = WEB.check(SourceSettings(seeds=["http://a.example/", "ftp://a.example/", "nonsense"]))

    assert [len(sentences) for sentences in checked.problems.values()] == [2]


async def test_many_documents_of_a_host_request_robots_txt_once(fetcher):

    async with HostileSite.serve({"/robots.txt": answer(b"User-agent: *\nDisallow: /x")}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])
        await asyncio.gather(*(crawl.process(site.url(f"/{n}")) for n in range(10)))

    assert site.paths().count("/robots.txt") == 1


async def test_all_documents_of_a_dead_host_wait_for_one_request(fetcher):
    robots = drip(b"HTTP/1.1 200 O", b"K", every=0.05)
    async with HostileSite.serve({"/robots.txt": robots}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])
        begun = time.monotonic()
        outcomes = await asyncio.gather(*(crawl.process(site.url(f"/{n}")) for n in range(5)))

    assert {outcome.code for outcome in outcomes} == {"DEADLINE"}
    assert time.monotonic() - begun < 2 * SHORT.request_seconds
    assert site.paths() == ["/robots.txt"]


async def test_another_document_repeats_a_cancelled_fetch_of_robots_txt(fetcher):
    async with HostileSite.serve(
        {"/robots.txt": drip(b"HTTP/1.1 200 O", b"K", every=0.05), "/b": answer(PAGE)}
    ) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])
        first = asyncio.create_task(crawl.process(site.url("/a")))
        second = asyncio.create_task(crawl.process(site.url("/b")))
        await site.asked.wait()
        site.routes["/robots.txt"] = answer(b"")

        first.cancel()

        assert (await second).code == "200"
    assert site.paths() == ["/robots.txt", "/robots.txt", "/b"]


async def test_a_content_type_that_is_no_text_reaches_no_output(fetcher):
    route = b"HTTP/1.1 200 OK\r\nContent-Type: caf\xe9\xff\r\n\r\n<html><p>words"

    outcome = await outcome_of(fetcher, route)

    assert (outcome.code, outcome.content.content_type, outcome.content.text) == ("200", "text/html", "words")


async def test_an_unexpected_error_while_reading_robots_txt_ends_the_document(fetcher, monkeypatch, caplog):
    def broken(*_args, **_more):
        raise IndexError

    monkeypatch.setattr("jobs.connectors.repository.web.robots_rules.Protego.parse", broken)
    async with HostileSite.serve({"/robots.txt": answer(b"User-agent: *")}) as site:
        outcome = await Crawl(fetcher, seeds=[site.url()]).process(site.url("/a"))

    assert (outcome.ending, outcome.code, site.paths()) == (Ending.FAILED, "PROTOCOL", ["/robots.txt"])
    assert "defect while reading robots.txt" in caplog.text


async def test_an_exception_that_the_pace_raises_ends_the_processing(fetcher):
    class TurnIsOver(Exception):
        pass

    class Stopping:
        async def before_request(self):
            raise TurnIsOver

    async with HostileSite.serve({}) as site:
        crawl = Crawl(fetcher, seeds=[site.url()])
        crawl.pace = Stopping()
        with pytest.raises(TurnIsOver):
            await crawl.process(site.url("/a"))

    assert site.requests == []


async def test_bytes_that_a_stage_reads_are_ingested_with_their_type(fetcher):
    route = answer(
        b"%PDF-1.7", content_type="application/pdf; x=1", headers=("Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT",)
    )
    pipeline = ReadsTypes("application/pdf")
    outcome = await outcome_of(fetcher, route, known={"pipeline": pipeline})
    assert (outcome.ending, outcome.code, outcome.item.body) == (Ending.INDEXED, "200", b"%PDF-1.7")
    assert (outcome.content.content_type, outcome.content.text) == ("application/pdf", "")
    assert outcome.content.metadata == {"last_modified": ("2024-01-01T00:00:00+00:00",)}
    other = await outcome_of(fetcher, answer(b"%PDF-1.8", content_type="application/pdf"), known={"pipeline": pipeline})
    assert other.version != outcome.version


async def test_bytes_beyond_the_length_that_a_stage_reads_are_not_loaded(fetcher):
    # If the connector loaded this body, the code would say that the body is too large.
    route = answer(b"%PDF-1.7" + b"x" * 300_000, content_type="application/pdf")
    outcome = await outcome_of(fetcher, route, known={"pipeline": ReadsTypes("application/pdf")})
    assert (outcome.ending, outcome.code) == (Ending.EXCLUDED, "NOT_TEXT")


async def test_a_page_keeps_its_text_and_links_if_a_stage_reads_its_bytes(fetcher):
    route = answer(PAGE, content_type="text/html; charset=ISO-8859-1")
    outcome = await outcome_of(fetcher, route, known={"pipeline": ReadsTypes("text/html")})
    assert (outcome.item.text, outcome.item.body, outcome.item.charset) == ("Words b", PAGE, "iso-8859-1")
    assert named(outcome) == ["b"]
