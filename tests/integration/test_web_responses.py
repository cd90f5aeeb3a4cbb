"""
Proves that the connector reads malformed responses that curl and browsers read, in segments of any size.

Each test runs with aiohttp's parser in C, and with its parser in Python.
"""

import asyncio

import aiohttp
import aiohttp.client_proto
import aiohttp.http_parser
import pytest

from jobs.connectors.repository.web.fetch import Fetcher, FetchFailed
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.responses import TolerantHandler
from tests.support.hostile import HostileSite, answer
from tests.support.tables import each_row

LIMITS = Limits(request_seconds=30.0)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"

TOLERATED = {
    "two equal lengths": OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of equal lengths": OK + b"Content-Length: 5, 5\r\n\r\nhello",
    "a length with a plus": OK + b"Content-Length: +5\r\n\r\nhello",
    "bytes after the length": OK + b"Content-Length: 5\r\n\r\nhello, and more",
    "bytes after the length and close": OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello, and more",
    "a response after the length": OK + b"Content-Length: 5\r\n\r\nhello" + OK + b"Content-Length: 4\r\n\r\nevil",
    "a bare line feed after a size": CHUNKED + b"\r\n5\nhello\r\n0\r\n\r\n",
    "a bare line feed after a chunk": CHUNKED + b"\r\n5\r\nhello\n0\r\n\r\n",
    "bare line feeds everywhere": CHUNKED.replace(b"\r", b"") + b"\n5\nhello\n0\n\n",
    "a length beside chunks": CHUNKED + b"Content-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunks beside a length": OK + b"Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "bytes after the last chunk": CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\nmore",
    "no empty line after the last chunk": CHUNKED + b"\r\n5\r\nhello\r\n0\r\n",
    "the coding identity": OK + b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
    "a header name with a blank": OK + b"X Y: z\r\nContent-Length: 5\r\n\r\nhello",
    "a header without a colon": OK + b"nonsense\r\nContent-Length: 5\r\n\r\nhello",
    "a header without a name": OK + b": a\r\nContent-Length: 5\r\n\r\nhello",
    "a carriage return in a header": OK + b"X-A: a\rb\r\nContent-Length: 5\r\n\r\nhello",
    "a version in small letters": b"http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "version 2 in the status line": b"HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "an interim response before": b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello",
}
# Responses whose end is certain.
CLEAN = {
    "a bare line feed after a size",
    "a bare line feed after a chunk",
    "bare line feeds everywhere",
    "an interim response before",
}
tolerated = pytest.mark.parametrize("sent", TOLERATED.values(), ids=TOLERATED)


@pytest.fixture(
    params=[aiohttp.http_parser.HttpResponseParser, aiohttp.http_parser.HttpResponseParserPy],
    ids=["parser in C", "parser in Python"],
    autouse=True,
)
def parser(request, monkeypatch):
    monkeypatch.setattr(aiohttp.client_proto, "HttpResponseParser", request.param)


async def read(fetcher, url):
    return await fetcher.fetch(url, headers={"User-Agent": "crawlctl-test"}, is_wanted=lambda *_: True)


def new_handler():
    """Return the reader of a connection without a socket. A test feeds the segments."""
    handler = TolerantHandler(asyncio.get_running_loop())
    handler.set_response_params(
        timer=None, read_until_eof=True, auto_decompress=False, max_line_size=8190, max_field_size=8190, max_headers=100
    )
    return handler


@tolerated
async def test_a_response_that_browsers_read_is_read(sent):
    async with HostileSite.serve({"/": sent}) as site, Fetcher(allow_private_networks=True, limits=LIMITS) as fetcher:
        response = await read(fetcher, site.url())

    assert (response.status, response.body, response.whole) == (200, b"hello", True)


@tolerated
async def test_a_response_is_read_the_same_in_any_segments(sent):
    for cut in range(1, len(sent)):
        handler = new_handler()
        handler.data_received(sent[:cut])
        handler.data_received(sent[cut:])
        handler.connection_lost(None)
        message, content = await handler.read()
        while message.code < 200:
            message, content = await handler.read()

        assert await content.read() == b"hello"


@each_row("name", TOLERATED.keys() - CLEAN)
async def test_a_connection_with_unexpected_bytes_is_not_used_again(name):
    """Bytes after a misread response would be taken for the next response."""

    async def keep_open(writer):
        writer.write(TOLERATED[name])
        if name != "no empty line after the last chunk":
            await asyncio.sleep(60)

    async with (
        HostileSite.serve({"/": keep_open}) as site,
        Fetcher(allow_private_networks=True, limits=LIMITS) as fetcher,
    ):
        await read(fetcher, site.url())

        assert len(fetcher._exchange.kept) == 0


async def test_an_unrequested_answer_is_not_used_for_the_next_request():
    is_kept = asyncio.Event()

    async def speak_again(writer):
        writer.write(OK + b"Content-Length: 5\r\n\r\nhello")
        await is_kept.wait()
        writer.write(OK + b"Content-Length: 4\r\n\r\nevil")
        await asyncio.sleep(60)

    async with (
        HostileSite.serve({"/": speak_again, "/next": answer(b"next")}) as site,
        Fetcher(allow_private_networks=True, limits=LIMITS) as fetcher,
    ):
        await read(fetcher, site.url())
        (kept,) = fetcher._exchange.kept._idle
        closed = kept.protocol.closed
        is_kept.set()
        await closed
        second = await read(fetcher, site.url("/next"))

    assert (second.body, site.connections) == (b"next", 2)


async def test_a_stray_line_break_after_a_response_keeps_the_connection():
    async def keep_open(writer):
        writer.write(OK + b"Content-Length: 5\r\n\r\nhello\r\n")
        await asyncio.sleep(60)

    async with (
        HostileSite.serve({"/": keep_open}) as site,
        Fetcher(allow_private_networks=True, limits=LIMITS) as fetcher,
    ):
        await read(fetcher, site.url())

        assert len(fetcher._exchange.kept) == 1


@each_row(
    ("sent", "code"),
    [
        pytest.param(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "PROTOCOL", id="two different lengths"),
        pytest.param(CHUNKED + b"\r\n5\r\nhello, and more\r\n0\r\n\r\n", "PROTOCOL", id="a chunk longer than its size"),
        pytest.param(CHUNKED + b"\r\n5\r\nhello\r\nzz\r\n", "PROTOCOL", id="a second chunk without a size"),
        pytest.param(CHUNKED + b"\r\n5\r\nhello\r\n", "INCOMPLETE", id="no last chunk"),
        pytest.param(OK + b"Content-Length: 6\r\n\r\nhello", "INCOMPLETE", id="shorter than its length"),
        pytest.param(OK + b"X-A: " + b"a" * 300_000 + b"\r\n\r\n", "PROTOCOL", id="a header of 300 KB"),
    ],
)
async def test_a_response_without_a_certain_end_has_a_code(sent, code):
    async with HostileSite.serve({"/": sent}) as site, Fetcher(allow_private_networks=True, limits=LIMITS) as fetcher:
        with pytest.raises(FetchFailed) as failure:
            await read(fetcher, site.url())

    assert failure.value.code == code


async def test_a_body_without_length_that_ends_with_a_reset_is_not_whole():
    handler = new_handler()
    handler.data_received(OK + b"\r\nhello")
    handler.connection_lost(ConnectionResetError())
    _, content = await handler.read()

    with pytest.raises(aiohttp.ClientPayloadError):
        await content.read()
