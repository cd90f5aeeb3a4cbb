"""Proves that a request to a misbehaving server always ends, with the right code, and in bounded memory."""

import asyncio
import contextlib
import functools
import gzip
import socket
import ssl
import time
import tracemalloc
import zlib
from dataclasses import replace

import brotli
import pytest
from aiohttp.abc import AbstractResolver
from backports import zstd

from jobs.connectors.repository.web.fetch import Fetcher, FetchFailed
from jobs.connectors.repository.web.limits import Limits
from tests.support.hostile import HostileSite, answer, drip, endless, redirect, reset_after
from tests.support.tables import each_row

# Short limits: a second instead of a minute. The tests prove that a limit ends a request, whatever its value.
SHORT = Limits(request_seconds=1.0, body_bytes=1_000_000, least_rate=1000, least_rate_after=0.3)
# Generous limits for requests that end by another limit, also on a busy machine.
PATIENT = replace(SHORT, request_seconds=60.0, least_rate_after=30.0)
HEADERS = {"User-Agent": "crawlctl-test"}
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
# Body of ten times the longest allowed length. Each process of the tests compresses it.
BOMB = b"\0" * 10_000_000
# The best compression takes 25 times as long, and makes a larger bomb.
quick_brotli = functools.partial(brotli.compress, quality=9)


class Names(AbstractResolver):
    """Resolves every name to the next of the given addresses."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = []

    async def resolve(self, host, port=0, family=socket.AF_INET):
        self.asked.append(host)
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(addresses, Exception):
            raise addresses
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": 0,
            }
            for address in addresses
        ]

    async def close(self):
        pass


async def get(url, *, limits=SHORT, private=True, resolver=None, tls=None, is_wanted=lambda *_: True, **options):
    async with Fetcher(allow_private_networks=private, limits=limits, resolver=resolver, tls=tls) as fetcher:
        return await fetcher.fetch(url, headers=HEADERS, is_wanted=is_wanted, **options)


async def code_of(url, **options):
    with pytest.raises(FetchFailed) as failure:
        await get(url, **options)
    return failure.value.code


def encoded(body, *codings):
    return answer(body, headers=(f"Content-Encoding: {', '.join(codings)}",))


async def test_a_plain_answer_is_read_whole():
    async with HostileSite.serve(
        {"/": answer(b"hello", headers=('ETag: "1"', "X-Robots-Tag: a", "X-Robots-Tag: b"))}
    ) as site:
        response = await get(site.url())

    assert (response.status, response.body, response.bytes_read, response.whole) == (200, b"hello", 5, True)
    assert response.headers["etag"] == '"1"'
    assert response.robots_tags == ("a", "b")
    assert site.requests[0].headers["user-agent"] == "crawlctl-test"
    assert site.requests[0].headers["accept-encoding"] == "gzip, deflate, br, zstd"
    assert "cookie" not in site.requests[0].headers


async def test_the_request_names_the_host_with_its_port_and_the_whole_path():
    async with HostileSite.serve({"/a%20b?c=d&e": answer(b"hello")}, host="::1") as site:
        await get(site.url("/a%20b?c=d&e", host="[::1]"))

    assert site.paths() == ["/a%20b?c=d&e"]
    assert site.requests[0].headers["host"] == f"[::1]:{site.port}"


async def test_a_form_is_sent_like_that_of_a_browser():
    async with HostileSite.serve({"/": answer(b"hello")}) as site:
        await get(site.url(), form={"name": "a b&c", "käse": "1"})

    headers = site.requests[0].headers
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert headers["content-length"] == str(len("name=a+b%26c&k%C3%A4se=1"))


async def test_an_answer_may_follow_interim_answers():
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    async with HostileSite.serve({"/": interim + answer(b"hello")}) as site:
        response = await get(site.url())

    assert (response.status, response.body) == (200, b"hello")


async def test_an_exception_just_before_a_request_prevents_the_request():
    def refuse():
        raise asyncio.CancelledError

    async with HostileSite.serve({"/a": answer(b"x")}) as site:
        with pytest.raises(asyncio.CancelledError):
            await get(site.url("/a"), before_sent=refuse)
        await get(site.url("/a"))

        assert len(site.requests) == 1


@pytest.mark.parametrize("value", ["a\r\nX-Smuggled: 1", "a\nb", "a\rb", "a\x00b", "a\udc80b"])
async def test_a_header_that_would_break_out_of_its_line_is_never_sent(value):
    async with HostileSite.serve({"/": answer(b"hello")}) as site, Fetcher(allow_private_networks=True) as fetcher:
        with pytest.raises(FetchFailed) as failure:
            await fetcher.fetch(site.url(), headers={"User-Agent": value}, is_wanted=lambda *_: True)

    assert (failure.value.code, site.requests) == ("PROTOCOL", [])


@pytest.mark.parametrize(
    ("codings", "body"),
    [
        (["gzip"], gzip.compress(b"hello", mtime=0)),
        (["x-gzip"], gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0) + b"\x00" * 50),
        (["deflate"], zlib.compress(b"hello")),
        (["deflate"], zlib.compress(b"hello")[2:-4]),
        (["br"], brotli.compress(b"hello")),
        (["zstd"], zstd.compress(b"hel") + zstd.compress(b"lo")),
        (["gzip", "br"], brotli.compress(gzip.compress(b"hello", mtime=0))),
        (["identity"], b"hello"),
        (["UTF-8"], b"hello"),
        (["none"], b"hello"),
        (["iso-8859-1", "gzip"], gzip.compress(b"hello", mtime=0)),
    ],
)
async def test_content_codings_are_decoded(codings, body):
    async with HostileSite.serve({"/": encoded(body, *codings)}) as site:
        response = await get(site.url())

    assert (response.body, response.bytes_read) == (b"hello", len(body))


@pytest.mark.parametrize("framing", ["gzip, chunked", "GZIP , Chunked"])
async def test_a_body_that_was_compressed_for_its_transfer_is_read(framing):
    coded = gzip.compress(b"hello", mtime=0)
    sent = OK + b"Transfer-Encoding: %b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (framing.encode(), len(coded), coded)
    async with HostileSite.serve({"/": sent}) as site:
        response = await get(site.url())

    assert response.body == b"hello"


@pytest.mark.parametrize(
    ("coding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress), ("zstd", zstd.compress)],
)
async def test_a_large_page_is_read_whole_in_every_coding(coding, compress):
    body = "".join(f"<p>{number * 7919 % 100_003}" for number in range(50_000)).encode()
    async with HostileSite.serve({"/": encoded(compress(body), coding)}) as site:
        response = await get(site.url(), limits=PATIENT)

    assert (response.whole, response.body == body) == (True, True)


@pytest.mark.parametrize(
    ("route", "code"),
    [
        pytest.param(drip(b"HTTP/1.1 200 O", b"K", every=0.05), "TOO_SLOW", id="a status line that drips"),
        pytest.param(drip(OK, b"X-A: b\r\n", every=0.05), "TOO_SLOW", id="headers that drip"),
        pytest.param(drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n", every=0.0), "TOO_SLOW", id="a flood of 100 Continue"),
        pytest.param(drip(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", every=0.01), "TOO_SLOW", id="early hints"),
        pytest.param(drip(b"", b"", every=0.05), "DEADLINE", id="no answer"),
        pytest.param(drip(OK + b"Content-Length: 9999\r\n\r\n", b"x", every=0.05), "TOO_SLOW", id="a body that drips"),
        pytest.param(drip(OK + b"\r\n", b"x" * 500, every=0.05), "TOO_SLOW", id="a body that comes just fast enough"),
        pytest.param(drip(OK + b"\r\n", b"x", every=0.05), "TOO_SLOW", id="a body without length that drips"),
        pytest.param(drip(OK + b"Content-Length: 9999\r\n\r\n", b"", every=0.05), "TOO_SLOW", id="a body that stalls"),
        pytest.param(
            drip(OK + b"Content-Length: 9999\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 9999, 0)[:20], b"x", every=0.05),
            "TOO_SLOW",
            id="a compressed body that drips",
        ),
        pytest.param(drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", every=0.05), "TOO_SLOW", id="chunks that drip"),
        pytest.param(endless(OK + b"\r\n", b"x" * 65536), "TOO_LARGE", id="an endless body"),
        pytest.param(
            endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
            "TOO_LARGE",
            id="endless chunks",
        ),
        pytest.param(answer(b"x" * 1_000_001), "TOO_LARGE", id="a large body"),
        pytest.param(encoded(gzip.compress(BOMB), "gzip"), "TOO_LARGE", id="a gzip bomb"),
        pytest.param(encoded(zlib.compress(BOMB), "deflate"), "TOO_LARGE", id="a deflate bomb"),
        pytest.param(encoded(quick_brotli(BOMB), "br"), "TOO_LARGE", id="a brotli bomb"),
        pytest.param(encoded(zstd.compress(BOMB), "zstd"), "TOO_LARGE", id="a zstd bomb"),
        pytest.param(encoded(gzip.compress(gzip.compress(BOMB)), "gzip", "gzip"), "TOO_LARGE", id="a bomb in a bomb"),
        pytest.param(endless(OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"") * 100), "INCOMPLETE", id="members for ever"),
        pytest.param(encoded(b"x", "gzip", "gzip", "gzip"), "PROTOCOL", id="three codings"),
        pytest.param(encoded(b"x", "compress"), "PROTOCOL", id="a coding we did not offer"),
        pytest.param(encoded(gzip.compress(b"x" * 999)[:-9], "gzip"), "INCOMPLETE", id="cut gzip"),
        pytest.param(encoded(gzip.compress(b"x" * 999)[:-8] + b"12345678", "gzip"), "INCOMPLETE", id="bad gzip checksum"),
        pytest.param(encoded(b"not gzip at all", "gzip"), "INCOMPLETE", id="no gzip"),
        pytest.param(encoded(brotli.compress(b"hello" * 99)[:-3], "br"), "INCOMPLETE", id="cut brotli"),
        pytest.param(encoded(zstd.compress(b"hello" * 99)[:-3], "zstd"), "INCOMPLETE", id="cut zstd"),
        pytest.param(encoded(zlib.compress(b"hello" * 99)[:-6], "deflate"), "INCOMPLETE", id="cut deflate"),
        pytest.param(OK + b"Content-Length: 10\r\n\r\nshort", "INCOMPLETE", id="a body shorter than it says"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "INCOMPLETE", id="a cut chunk"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "INCOMPLETE", id="no last chunk"),
        pytest.param(reset_after(OK + b"Content-Length: 10\r\n\r\nshort"), "INCOMPLETE", id="a reset in the body"),
        pytest.param(reset_after(b""), "RESET", id="a reset before the response"),
        pytest.param(b"", "RESET", id="no response"),
        pytest.param(OK + b"Content-Len", "RESET", id="cut headers"),
        pytest.param(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "PROTOCOL", id="two lengths"),
        pytest.param(OK + b"Content-Length: -1\r\n\r\n", "PROTOCOL", id="a negative length"),
        pytest.param(OK + b"Content-Length: 1e3\r\n\r\n", "PROTOCOL", id="a length that is not a number"),
        pytest.param(OK + b"X-A: a\0b\r\n\r\n", "PROTOCOL", id="NUL in a header"),
        pytest.param(OK + b"X-A: " + b"a" * 8_000_000 + b"\r\n\r\n", "PROTOCOL", id="a header of 8 MB"),
        pytest.param(OK + b"X-A: b\r\n" * 50_000 + b"\r\n", "PROTOCOL", id="50,000 headers"),
        pytest.param(endless(OK, b"X-A: b\r\n" * 100), "PROTOCOL", id="headers for ever"),
        pytest.param(b"hello, this is no HTTP\r\n\r\n", "PROTOCOL", id="no HTTP"),
        pytest.param(b"<html>HTTP/0.9</html>", "PROTOCOL", id="HTTP/0.9"),
        pytest.param(b"HTTP/1.1 abc\r\n\r\n", "PROTOCOL", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "PROTOCOL", id="a chunk size that is not a number"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", "PROTOCOL", id="TLS where HTTP was asked"),
    ],
)  # fmt: skip
async def test_each_error_of_a_server_has_its_code(route, code):
    async with HostileSite.serve({"/": route}) as site:
        begun = time.monotonic()
        with pytest.raises(FetchFailed) as failure:
            await get(site.url(), limits=SHORT if code in {"DEADLINE", "TOO_SLOW"} else PATIENT)

    assert failure.value.code == code
    assert time.monotonic() - begun < 5


async def test_a_body_longer_than_its_length_is_never_read_whole():
    async with HostileSite.serve({"/": OK + b"Content-Length: 5\r\n\r\nhello, and more"}) as site:
        (result,) = await asyncio.gather(get(site.url()), return_exceptions=True)

    assert getattr(result, "code", None) == "PROTOCOL" or result.body == b"hello"


async def test_a_response_with_length_and_chunks_smuggles_no_second_response():
    both = OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    async with (
        HostileSite.serve({"/": both, "/next": answer(b"next")}) as site,
        Fetcher(allow_private_networks=True, limits=SHORT) as fetcher,
    ):
        with contextlib.suppress(FetchFailed):
            first = await fetcher.fetch(site.url(), headers=HEADERS, is_wanted=lambda *_: True)
            assert first.body == b"hello"
        second = await fetcher.fetch(site.url("/next"), headers=HEADERS, is_wanted=lambda *_: True)

    assert second.body == b"next"
    assert site.connections == 2


@pytest.mark.parametrize(("coding", "compress"), [("br", quick_brotli), ("zstd", zstd.compress)])
async def test_a_decompression_bomb_takes_little_memory(coding, compress):
    bomb = compress(b"\0" * 200_000_000)
    async with HostileSite.serve({"/": encoded(bomb, coding)}) as site:
        tracemalloc.start()
        try:
            assert await code_of(site.url()) == "TOO_LARGE"
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 10_000_000


async def test_a_body_that_its_caller_does_not_want_is_not_read():
    async with HostileSite.serve({"/": endless(OK + b"\r\n", b"%PDF-" * 10_000)}) as site:
        response = await get(site.url(), is_wanted=lambda status, headers, first: not first.startswith(b"%PDF-"))

    assert not response.whole
    assert response.bytes_read < 1_000_000


async def test_the_rest_of_a_short_unwanted_body_is_read_to_keep_the_connection():
    body = b"x" * 10_000
    keep = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"
    both_sent = asyncio.Event()

    async def twice(writer):
        writer.write(keep + body)
        await both_sent.wait()

    async with HostileSite.serve({"/": twice}) as site, Fetcher(allow_private_networks=True, limits=SHORT) as fetcher:
        response = await fetcher.fetch(site.url(), headers=HEADERS, is_wanted=lambda *_: False)
        kept = len(fetcher._exchange.kept)
        both_sent.set()

    assert (response.whole, kept) == (False, 1)


async def test_a_body_may_be_cut_at_the_limit_of_the_caller():
    async with HostileSite.serve({"/": answer(b"x" * 900_000)}) as site:
        response = await get(site.url(), most_bytes=1000)

    assert (response.body, response.whole) == (b"x" * 1000, False)


async def test_a_redirect_is_returned_and_not_followed():
    async with HostileSite.serve({"/": redirect("/next")}) as site:
        response = await get(site.url())

    assert (response.status, response.headers["Location"], site.paths()) == (302, "/next", ["/"])


async def test_no_cookie_is_stored():
    async with (
        HostileSite.serve({"/": answer(b"a", headers=("Set-Cookie: a=b; Path=/",))}) as site,
        Fetcher(allow_private_networks=True, limits=SHORT) as fetcher,
    ):
        for _ in range(2):
            await fetcher.fetch(site.url(), headers=HEADERS, is_wanted=lambda *_: True)

    assert [request.headers.get("cookie") for request in site.requests] == [None, None]


async def test_a_port_without_a_listener_has_a_code(unused_tcp_port):
    assert await code_of(f"http://127.0.0.1:{unused_tcp_port}/") == "REFUSED"


async def test_a_connection_that_is_never_accepted_ends_at_the_deadline():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        # Two connections fill the queue of a socket that never accepts.
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(address)
        assert await code_of(f"http://127.0.0.1:{address[1]}/") == "DEADLINE"
        for one in waiting:
            one.close()


@pytest.mark.parametrize(
    "error", [socket.gaierror(socket.EAI_NONAME, "no"), socket.gaierror(socket.EAI_AGAIN, "later")]
)
async def test_a_name_without_an_address_has_a_code(error):
    assert await code_of("http://name.test/", resolver=Names(error)) == "DNS"


@pytest.mark.parametrize("host", ["a" * 64 + ".test", ".".join(["a" * 60] * 6), "xn--zzzzzzzz.invalid", "-.invalid"])
async def test_a_failed_lookup_of_a_name_has_a_code(host):
    assert await code_of(f"http://{host}/") == "DNS"


async def test_an_untrusted_certificate_has_a_code(tls_server_context):
    async with HostileSite.serve({"/": answer(b"x")}, tls=tls_server_context) as site:
        assert await code_of(f"https://127.0.0.1:{site.port}/") == "TLS"


async def test_a_page_is_read_over_tls_with_a_trusted_certificate(tls_server_context, tmp_path):
    trust = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    async with HostileSite.serve({"/": answer(b"hello")}, tls=tls_server_context) as site:
        response = await get(f"https://127.0.0.1:{site.port}/", tls=trust)
        other_name = await code_of(f"https://localhost:{site.port}/", tls=trust)

    assert (response.body, other_name) == (b"hello", "TLS")


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
async def test_a_connection_is_closed_when_its_deadline_has_passed(is_secure, tls_server_context, tmp_path):
    closed = asyncio.Event()

    async def drip_until_closed(writer):
        try:
            await drip(OK, b"X-A: b\r\n", every=0.05)(writer)
        finally:
            closed.set()

    scheme, tls = ("https", tls_server_context) if is_secure else ("http", None)
    trust = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    async with (
        HostileSite.serve({"/": drip_until_closed}, tls=tls) as site,
        Fetcher(allow_private_networks=True, limits=SHORT, tls=trust) as fetcher,
    ):
        with pytest.raises(FetchFailed):
            await fetcher.fetch(f"{scheme}://127.0.0.1:{site.port}/", headers=HEADERS, is_wanted=lambda *_: True)
        await asyncio.wait_for(closed.wait(), 5)


async def test_a_handshake_that_never_ends_is_cut_by_the_deadline():
    # The site waits for the end of a request's head, which a handshake never contains.
    async with HostileSite.serve({}) as site:
        assert await code_of(f"https://127.0.0.1:{site.port}/") == "DEADLINE"


async def test_tls_to_a_server_without_tls_has_a_code():
    async def speak_plainly(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await code_of(f"https://127.0.0.1:{port}/") == "TLS"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[2002:7f00:1::]", "[64:ff9b::7f00:1]", "0.0.0.0",
     "169.254.169.254", "10.0.0.1", "[fe80::1]"],
)  # fmt: skip
async def test_ip_addresses_in_links_are_checked(host):
    assert await code_of(f"http://{host}:1/", private=False) == "ADDRESS_FORBIDDEN"


async def test_the_address_that_a_name_gives_is_checked_and_nothing_is_sent():
    async with HostileSite.serve({"/": answer(b"secret")}) as site:
        resolver = Names(["127.0.0.1"])
        assert await code_of(site.url(host="name.test"), private=False, resolver=resolver) == "ADDRESS_FORBIDDEN"

    assert site.connections == 0


async def test_every_address_of_a_name_is_checked():
    async with HostileSite.serve({"/": answer(b"secret")}) as site:
        resolver = Names(["127.0.0.1", "::1", "10.0.0.1"])
        assert await code_of(site.url(host="name.test"), private=False, resolver=resolver) == "ADDRESS_FORBIDDEN"

    assert site.connections == 0


async def test_a_name_that_changes_its_ip_address_passes_no_check(monkeypatch):
    """
    The name resolves to a public address first, then to loopback. The fetcher connects to the address that it checked.
    """
    connected = []
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def sock_connect(sock, address):
        connected.append(address[0])
        if address[0] == "93.184.216.34":
            raise ConnectionRefusedError(111, "refused")
        await connect(sock, address)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    async with HostileSite.serve({"/": answer(b"secret")}) as site:
        resolver = Names(["93.184.216.34"], ["127.0.0.1"])
        async with Fetcher(limits=SHORT, resolver=resolver) as fetcher:
            fetcher._exchange.connector._use_dns_cache = False
            codes = []
            for _ in range(2):
                with pytest.raises(FetchFailed) as failure:
                    await fetcher.fetch(site.url(host="name.test"), headers=HEADERS, is_wanted=lambda *_: True)
                codes.append(failure.value.code)

    assert codes == ["REFUSED", "ADDRESS_FORBIDDEN"]
    assert connected == ["93.184.216.34"]
    assert site.connections == 0


async def test_no_proxy_of_the_environment_is_used(monkeypatch):
    async with HostileSite.serve({}) as proxy, HostileSite.serve({"/": answer(b"direct")}) as site:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        response = await get(site.url())

    assert (response.body, proxy.connections) == (b"direct", 0)


async def test_an_unexpected_exception_ends_the_request_and_is_logged(monkeypatch, caplog):
    def broken(_encoding):
        raise RuntimeError

    monkeypatch.setattr("jobs.connectors.repository.web.decoding.decoder_for", broken)
    async with HostileSite.serve({"/": answer(b"x")}) as site:
        assert await code_of(site.url()) == "PROTOCOL"

    assert "defect in a request" in caplog.text


async def test_a_kept_connection_that_the_server_has_closed_is_replaced():
    hello = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    async with HostileSite.serve({"/": hello}) as site, Fetcher(allow_private_networks=True, limits=SHORT) as fetcher:
        for _ in range(3):
            response = await fetcher.fetch(site.url(), headers=HEADERS, is_wanted=lambda *_: True)
            assert response.body == b"hello"


@each_row(
    ("is_kept", "answered", "requests"),
    [
        (False, b"", 1),
        (False, b"HTTP/1.1 200 OK\r\nContent-", 1),
        (True, b"", 2),
        (True, b"HTTP/1.1 200 OK\r\nContent-", 1),
    ],
)
async def test_a_request_is_repeated_only_if_a_kept_connection_breaks_before_an_answer(is_kept, answered, requests):
    seen = []

    async def converse(reader, writer):
        if is_kept and not seen:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answered)
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, Fetcher(allow_private_networks=True) as fetcher:
        if is_kept:
            await fetcher.fetch(url, headers=HEADERS, is_wanted=lambda *_: True)

        with pytest.raises(FetchFailed) as failed:
            await fetcher.fetch(url, headers=HEADERS, is_wanted=lambda *_: True)

    # An immediate retry would exceed the rate of the host.
    assert (failed.value.code, len(seen)) == ("RESET", requests)


@pytest.fixture
def tls_server_context(tmp_path):
    """Return a context with a self-signed certificate, made by the openssl of this machine."""
    import shutil
    import subprocess

    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
