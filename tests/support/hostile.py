"""
A web server on loopback that answers with exactly the given bytes, well-formed or not.

A route is bytes, which are sent before the connection is closed, or a coroutine function that gets the open connection.
A path without a route is a 404. Requests are noted in order.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Self

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Request:
    path: str
    host: str
    headers: Mapping[str, str]


Script = Callable[[asyncio.StreamWriter], Awaitable[None]]
Route = bytes | Script


@dataclasses.dataclass
class HostileSite:
    port: int
    routes: dict[str, Route]
    requests: list[Request] = dataclasses.field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    @classmethod
    @contextlib.asynccontextmanager
    async def serve(
        cls, routes: Mapping[str, Route], *, host: str = "127.0.0.1", tls: Any = None
    ) -> AsyncIterator[Self]:
        site = cls(port=0, routes=dict(routes))
        server = await asyncio.start_server(site._converse, host, 0, ssl=tls)
        site.port = server.sockets[0].getsockname()[1]
        try:
            yield site
        finally:
            server.close()
            for task in site._talks:
                task.cancel()
            await asyncio.gather(*site._talks, return_exceptions=True)

    def __post_init__(self) -> None:
        self.asked = asyncio.Event()
        self._talks: set[asyncio.Task] = set()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._talks.add(asyncio.current_task())
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                request = _read(head)
                self.requests.append(request)
                self.asked.set()
                route = self.routes.get(request.path, NOT_FOUND)
                if isinstance(route, bytes):
                    writer.write(route)
                    await writer.drain()
                else:
                    await route(writer)
        finally:
            with contextlib.suppress(ConnectionError):
                writer.close()
            self._talks.discard(asyncio.current_task())


def answer(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    content_type: str | None = "text/html; charset=utf-8",
    headers: tuple[str, ...] = (),
) -> bytes:
    """Return a well-formed response."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return answer(status=status, headers=(f"Location: {location}",))


def drip(start: bytes, drop: bytes, *, every: float) -> Script:
    """Return a script that sends `start`, then endlessly the few bytes of `drop`, with a pause of `every` seconds."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(every)

    return script


def endless(start: bytes, block: bytes) -> Script:
    """Return a script that sends `start`, then blocks as fast as the client reads them."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(block)
            await writer.drain()

    return script


def reset_after(start: bytes) -> Script:
    """Return a script that sends `start`, and then a TCP reset in place of an end."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()

    return script


def _read(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Request(path=first.split(" ")[1], host=headers.get("host", ""), headers=headers)
