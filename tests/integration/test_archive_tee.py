"""Proves that the web connector archives the raw request and response of a document, but none of its secrets."""

import gzip
import zlib
from dataclasses import replace

import brotli
import pytest

from jobs.archive.records import head_of
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, Ending, hash_of
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.fetch import Fetcher
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.robots import RobotsTable
from jobs.connectors.repository.web.specification import WebSpecification
from tests.support.free_pace import FreePace
from tests.support.hostile import HostileSite, answer, redirect

LIMITS = Limits(request_seconds=2, body_bytes=50_000)
PAGE = b"<html lang=en><title>A page</title><p>Words " * 50


async def outcome_of(route, *, path="/a", keeps=True, known=None, fetch_headers=None):
    async with HostileSite.serve({path: route}) as site, Fetcher(allow_private_networks=True, limits=LIMITS) as fetcher:
        specification = WebSpecification(allow_private_networks=True, seeds=(site.url(),))
        connector = WebConnector(
            specification, fetcher=fetcher, robots=RobotsTable(limits=LIMITS), limits=LIMITS, keeps_exchanges=keeps
        )
        connector._headers |= fetch_headers or {}
        url = site.url(path)
        document = Document(hash_of(url), url, 0, 0, "", "", 0, 0.0)
        activity = Activity(replace(document, **(known or {})), "7")
        await connector.process(document if known is None else activity.document, activity, FreePace())
        return activity.outcome


async def test_an_outcome_has_the_raw_exchange():
    outcome = await outcome_of(answer(PAGE, headers=("X-Odd:   spaced", "Content-Type: text/html")))

    exchange = outcome.exchange
    assert exchange.request_head.startswith(b"GET /a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAccept-Encoding: gzip" in exchange.request_head
    assert exchange.status_line == b"HTTP/1.1 200 OK"
    assert (b"X-Odd", b"spaced") in exchange.headers
    assert (exchange.body, exchange.truncated, exchange.status) == (PAGE, "", 200)


async def test_a_job_without_an_archive_keeps_no_exchange():
    outcome = await outcome_of(answer(PAGE), keeps=False)
    assert outcome.ending == Ending.INDEXED
    assert outcome.exchange is None


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress)]
)
async def test_a_body_is_archived_before_decoding(coding, pack):
    packed = pack(PAGE)
    outcome = await outcome_of(answer(packed, headers=(f"Content-Encoding: {coding}", "Content-Type: text/html")))
    assert outcome.content.text.startswith("Words")
    assert outcome.exchange.body == packed


async def test_chunks_are_removed_and_their_header_is_renamed():
    route = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/html\r\n\r\n5\r\nabcde\r\n2\r\nfg\r\n0\r\n\r\n"
    exchange = (await outcome_of(route)).exchange
    assert exchange.body == b"abcdefg"
    assert (b"X-Archive-Orig-Transfer-Encoding", b"chunked") in exchange.headers


async def test_cookies_and_credentials_never_enter_an_exchange():
    secrets = {"Cookie": "sid=s3cret", "authorization": "Basic s3cret", "Proxy-Authorization": "s3cret"}
    route = answer(PAGE, headers=("Set-Cookie: sid=s3cret; HttpOnly", "set-cookie2: s3cret", "Content-Type: text/html"))
    exchange = (await outcome_of(route, fetch_headers=secrets)).exchange
    assert exchange is not None
    assert b"s3cret" not in exchange.request_head + head_of(exchange.status_line, exchange.headers) + exchange.body
    assert b"ookie" not in exchange.request_head + head_of(exchange.status_line, exchange.headers)


async def test_redirects_and_errors_have_an_exchange():
    assert (await outcome_of(redirect("/b"))).exchange.status == 302
    assert (await outcome_of(answer(b"none", status="404 Not Found"))).exchange.body == b"none"
    failed = await outcome_of(answer(b"oh", status="500 Oh"))
    assert (failed.ending, failed.exchange.status) == (Ending.RETRY, 500)


async def test_a_304_has_an_exchange_without_a_body():
    known = {"validators": '{"etag": "\\"1\\""}', "version": "7:x"}
    outcome = await outcome_of(b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n', known=known)
    assert (outcome.exchange.status, outcome.exchange.body) == (304, b"")


async def test_a_body_beyond_the_limit_is_kept_truncated():
    outcome = await outcome_of(answer(b"<p>" + b"words " * 40_000, headers=("Content-Type: text/html",)))
    assert outcome.code == "TOO_LARGE"
    assert outcome.exchange.truncated == "length"
    assert 0 < len(outcome.exchange.body) < 200_000


async def test_an_unwanted_body_is_kept_up_to_the_point_where_reading_stopped():
    image = b"\x89PNG\r\n" + bytes(3_000_000)
    outcome = await outcome_of(answer(image, headers=("Content-Type: image/png",)))
    assert outcome.code == "NOT_TEXT"
    assert outcome.exchange.truncated == "length"
    assert image.startswith(outcome.exchange.body)
