"""
Proves that the web server closes the connections of clients that send requests too slowly, and no other connections.
"""

import asyncio
import contextlib
import time

import uvicorn

from crawlctl.web.slow_clients import PatientProtocol
from tests.support.tables import each_row

# Limits of the server (seconds), and time in which a client that stays open longer than a limit is seen.
WITHIN = 0.3
PATIENCE = 20.0


class Impatient(PatientProtocol):
    head_within = WITHIN
    body_within = WITHIN


async def answer_after_the_body(scope, receive, send):
    """Answer with the length of the body. `/slow` answers later than a client may take to send a request."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * WITHIN)
    said = str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": said[:1]})


@contextlib.asynccontextmanager
async def connected():
    config = uvicorn.Config(answer_after_the_body, http=Impatient, lifespan="off", log_config=None, port=0)
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
