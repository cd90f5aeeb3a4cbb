"""
One request and its answer over a connection of aiohttp's.

aiohttp looks up names, makes connections, with TLS, and reads heads of answers in C (`responses.py`). Its session would add cookies,
redirects, credentials, proxies and tracing, none of which a crawl uses, and spend more time on a request than all the
rest (decision 0016); its pool closes all connections that have become idle at once. So a request is written here, its
answer taken from the connection's protocol, and the connection kept by `kept.py`.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import aiohttp
from aiohttp.connector import Connection
from aiohttp.helpers import TimerNoop
from multidict import CIMultiDictProxy
from yarl import URL

from jobs.connectors.repository.web.kept import KeptConnections
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.responses import TolerantConnector, TolerantHandler

# The caller's deadline is the only one.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
_NO_TIMER: Final = TimerNoop()
# What was read of a body and not yet taken keeps the server from sending more.
_READ_AHEAD: Final = 1 << 16
# Interim answers: all of the hundreds but "switching protocols", after which nothing of HTTP follows.
_NO_ANSWER_YET: Final = frozenset({100, *range(102, 200)})


class Answer:
    """Status and headers of an answer, and its body as it comes; to be given back at the end, whatever it was."""

    __slots__ = ("_connection", "_keep", "content", "headers", "status")

    def __init__(
        self,
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
        connection: Connection,
        *,
        keep: Callable[[Connection], None],
    ) -> None:
        """`keep` takes a connection that can be used again."""
        self.status = status
        self.headers = headers
        self.content = content
        self._connection = connection
        self._keep = keep

    def all_of(self, name: str) -> tuple[str, ...]:
        """The values of a header that may come several times."""
        return tuple(self.headers.getall(name, ()))

    def give_back(self) -> None:
        """The connection is kept if the body was read to its end and the server keeps it, too, and closed otherwise."""
        connection, protocol = self._connection, self._connection.protocol
        if self.content.at_eof() and protocol is not None and protocol.is_connected() and not protocol.should_close:
            self._keep(connection)
        else:
            connection.close()


class Exchange:
    """What a process asks over its connections; made and closed inside the running loop."""

    def __init__(self, connector: TolerantConnector, *, limits: Limits) -> None:
        self.connector = connector
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self.kept = KeptConnections(self._loop)

    async def close(self) -> None:
        self.kept.close()
        await self.connector.close()

    async def ask(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        form: bytes | None = None,
        before_sent: Callable[[], None] | None = None,
        on_sent: Callable[[], None] | None = None,
        on_begun: Callable[[], None] | None = None,
    ) -> Answer:
        """
        Ask for a canonical address, or send it a form.

        `before_sent` is called when there is a connection, just before a request is written: what it raises keeps that
        from going out. `on_sent` is called when it has been written, and `on_begun` when the first bytes of an answer
        come.

        A server may close a kept connection just when it is used again, so a request that asks only is sent once more.

        Raises:
            aiohttp.ClientError, OSError, ValueError, aiohttp.http.HttpProcessingError
        """
        path = url.index("/", 8)
        origin = url[:path]
        written = _written(origin.partition("//")[2], url[path:], headers, form)
        try:
            return await self._ask(origin, written, before_sent, on_sent, on_begun)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if form is not None:
                raise
            return await self._ask(origin, written, before_sent, on_sent, on_begun)

    async def _ask(
        self,
        origin: str,
        written: bytes,
        before_sent: Callable[[], None] | None,
        on_sent: Callable[[], None] | None,
        on_begun: Callable[[], None] | None,
    ) -> Answer:
        connection = self.kept.take(origin) or await self._connect(origin)
        try:
            protocol = connection.protocol
            assert isinstance(protocol, TolerantHandler)
            protocol.on_begun = on_begun
            protocol.set_response_params(
                timer=_NO_TIMER,
                read_until_eof=True,
                auto_decompress=False,
                read_bufsize=_READ_AHEAD,
                max_line_size=self._limits.header_bytes,
                max_field_size=self._limits.header_bytes,
                max_headers=self._limits.headers,
            )
            if before_sent is not None:
                before_sent()
            # One that is closed by now loses what is written, and says so when it is read from.
            assert protocol.transport is not None
            protocol.transport.write(written)
            if on_sent is not None:
                on_sent()
            message, content = await protocol.read()
            while message.code in _NO_ANSWER_YET:
                message, content = await protocol.read()
            return Answer(message.code, message.headers, content, connection, keep=partial(self.kept.keep, origin))
        except BaseException:
            connection.close()
            raise

    async def _connect(self, origin: str) -> Connection:
        where = aiohttp.ClientRequest("GET", URL(f"{origin}/", encoded=True), loop=self._loop)
        return await self.connector.connect(where, [], _NO_TIMEOUT)


def _written(authority: str, target: str, headers: Mapping[str, str], form: bytes | None) -> bytes:
    """
    The request as it goes over the wire.

    Raises:
        ValueError: a header would break out of its line, or is not Unicode.
    """
    lines = [f"{'GET' if form is None else 'POST'} {target} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if form is not None:
        lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}"]
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1 or "\0" in head:
        raise ValueError("a line break in the request")
    return f"{head}\r\n\r\n".encode() + (form or b"")
