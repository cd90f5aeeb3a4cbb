"""
Proves that the web server closes the connections of clients that send requests or take answers too slowly, and no other
connections.
"""

import asyncio
import contextlib
import socket
import time

import uvicorn

from crawlctl.web.slow_clients import PatientProtocol
from tests.support.tables import each_row

# Time limit of the server, and the longest time in which a test waits for the end of a connection (seconds).
WITHIN = 0.3
PATIENCE = 20.0
# Bytes of a long answer, and of one of its parts. The buffers of the kernel hold far less in these tests.
LONG = 4 << 20
PART = 1 << 16
# Bytes of an answer that the server writes without a wait, because no buffer exceeds its limit.
SHORT = 48 << 10


class ShortLimits(PatientProtocol):
    head_within = WITHIN
    body_within = WITHIN
    taken_within = WITHIN


class LongerTakeLimit(PatientProtocol):
    taken_within = 3 * WITHIN


async def answer_after_the_body(scope, receive, send):
    """
    Answer with the first digit of the length of the body. `/slow` answers later than a client may take to send a
    request.
    """
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * WITHIN)
    length = str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": length[:1]})


class Download:
    """An answer in parts, each of which waits until the part before it was sent. `ended` is set when its view ends."""

    def __init__(self, size):
        self.size = size
        self.ended = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await receive()
        headers = [(b"content-length", str(self.size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for begin in range(0, self.size, PART):
            part = bytes(min(PART, self.size - begin))
            await send({"type": "http.response.body", "body": part, "more_body": begin + PART < self.size})
        self.ended.set()


@contextlib.asynccontextmanager
async def serving(application, *, http):
    """Serve with the smallest send buffer of the kernel. Yield the server and its port."""
    config = uvicorn.Config(application, http=http, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        await server.startup([listener])
        try:
            yield server, listener.getsockname()[1]
        finally:
            await server.shutdown([listener])


@contextlib.asynccontextmanager
async def requested_download(port):
    """Request the download over a connection with the smallest receive buffer. Yield its socket."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
        yield client


@contextlib.asynccontextmanager
async def connected():
    config = uvicorn.Config(answer_after_the_body, http=ShortLimits, lifespan="off", log_config=None, port=0)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await server.shutdown()


@each_row(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: example.org\r\nX-Slow: ",
        b"POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 9\r\n\r\nabc",
    ],
)
def test_a_request_that_does_not_end_in_time_ends_its_connection(sent):
    async def ask():
        async with connected() as (reader, writer):
            writer.write(sent)
            began = time.monotonic()
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            return time.monotonic() - began

    assert asyncio.run(ask()) > WITHIN / 2


def test_a_head_sent_byte_by_byte_gets_no_additional_time():
    async def ask():
        async with connected() as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: example.org\r\n")
            reading = asyncio.ensure_future(reader.read())
            began = time.monotonic()
            while not reading.done() and time.monotonic() - began < PATIENCE:
                with contextlib.suppress(ConnectionError):
                    writer.write(b"X-Slow: 1\r\n")
                    await writer.drain()
                await asyncio.sleep(WITHIN / 10)
            with contextlib.suppress(ConnectionError):
                assert await reading == b""
            return reading.done()

    assert asyncio.run(ask())


@each_row("path", ["/", "/slow"])
def test_a_server_that_answers_slowly_keeps_the_connection_of_a_quick_client(path):
    async def ask():
        async with connected() as (reader, writer):
            for _ in range(2):
                writer.write(f"POST {path} HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\nabc".encode())
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
                assert head.startswith(b"HTTP/1.1 200")
                assert await reader.readexactly(1) == b"3"

    asyncio.run(ask())


@each_row("size", [LONG, SHORT])
def test_an_answer_that_its_client_does_not_take_ends_its_connection(size):
    async def ask():
        download = Download(size)
        async with serving(download, http=ShortLimits) as (server, port), requested_download(port):
            await asyncio.wait_for(download.ended.wait(), PATIENCE)
            async with asyncio.timeout(PATIENCE):
                while server.server_state.connections:  # noqa: ASYNC110 (a set of uvicorn, which tells no change)
                    await asyncio.sleep(WITHIN / 10)

    asyncio.run(ask())


def test_a_client_that_takes_its_answer_slowly_gets_all_of_it():
    async def ask():
        async with serving(Download(LONG), http=LongerTakeLimit) as (_, port), requested_download(port) as client:
            loop = asyncio.get_running_loop()
            began, got = time.monotonic(), 0
            while got < LONG:
                part = await asyncio.wait_for(loop.sock_recv(client, PART), PATIENCE)
                assert part, f"closed after {got} bytes"
                got += len(part)
                # The whole answer takes twice the limit.
                ahead = 2 * LongerTakeLimit.taken_within * got / LONG - (time.monotonic() - began)
                await asyncio.sleep(max(0.0, ahead))

    asyncio.run(ask())
