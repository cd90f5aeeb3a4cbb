"""
One request and its answer over an aiohttp connection.

aiohttp resolves names, opens connections (also with TLS), and parses heads of answers in C (`responses.py`). Its
session would add cookies, redirects, credentials, proxies and tracing. A crawl uses none of these, and they cost more
time per request than everything else (decision 0016). Its pool closes all idle connections at the same moment. So this
module writes the request and reads the answer from the connection's protocol, and `kept_connections.py` keeps the
connection.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import aiohttp
from aiohttp.connector import Connection
from aiohttp.helpers import TimerNoop
from aiohttp.http import RawResponseMessage
from multidict import CIMultiDictProxy
from yarl import URL

from jobs.connectors.repository.web.kept_connections import KeptConnections
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.responses import TolerantConnector, TolerantHandler

# Only the caller's deadline applies.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
_NO_TIMER: Final = TimerNoop()
# Largest number of bytes of a body that are read and not yet taken. Beyond this number the server has to wait.
_READ_AHEAD: Final = 1 << 16
# Statuses of interim answers: all 1xx except "switching protocols" (101), because no HTTP follows after it.
_NO_ANSWER_YET: Final = frozenset({100, *range(102, 200)})


class Answer:
    """Status and headers of an answer, and its body as it arrives. The caller must call `give_back` in any case."""

    __slots__ = ("_connection", "_keep", "_message", "content", "headers", "status")

    def __init__(
        self,
        message: RawResponseMessage,
        content: aiohttp.StreamReader,
        connection: Connection,
        *,
        keep: Callable[[Connection], None],
    ) -> None:
        """`keep` takes a connection that can be used again."""
        self._message = message
        self.status: int = message.code
        self.headers: CIMultiDictProxy[str] = message.headers
        self.content = content
        self._connection = connection
        self._keep = keep

    @property
    def status_line(self) -> bytes:
        """Return the first line of the answer."""
        message = self._message
        version = f"HTTP/{message.version.major}.{message.version.minor}"
        return f"{version} {message.code} {message.reason}".rstrip().encode("utf-8", "surrogateescape")

    @property
    def raw_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Return the headers as bytes, in the order in which the server sent them."""
        return self._message.raw_headers

    def all_of(self, name: str) -> tuple[str, ...]:
        """Return the values of a header that may occur several times."""
        return tuple(self.headers.getall(name, ()))

    def give_back(self) -> None:
        """
        Keep the connection if the body was read to its end, and the server keeps the connection open. Otherwise close
        it.
        """
        connection, protocol = self._connection, self._connection.protocol
        if self.content.at_eof() and protocol is not None and protocol.is_connected() and not protocol.should_close:
            self._keep(connection)
        else:
            connection.close()


class Exchange:
    """The connections of a process, created and closed inside the running loop."""

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
        Send a request for a canonical address, or a form to it. Return the answer.

        `before_sent` is called after the connection is open, just before the request is written. An exception of it
        stops the request. `on_sent` is called after the request was written, and `on_begun` when the first bytes of an
        answer arrive.

        A server may close a kept connection at the moment of its reuse. So a request without a form is sent once more,
        over a new connection, if it got no byte of an answer on a kept one. Requests with other failures are never
        repeated here, because a repetition would not keep the minimum gap.

        Raises:
            aiohttp.ClientError: the connection cannot be opened, or broke before the head of the answer.
            OSError: the host has no address, or the address is not allowed.
            ValueError: a header contains a line break, or is not Unicode.
            aiohttp.http.HttpProcessingError: the head of the answer cannot be read.
        """
        path = url.index("/", 8)
        origin = url[:path]
        written = _written(origin.partition("//")[2], url[path:], headers, form)
        kept = self.kept.take(origin)
        if kept is not None:
            protocol = kept.protocol
            assert isinstance(protocol, TolerantHandler)
            begun = on_begun or _nothing
            try:
                return await self._ask(origin, kept, written, before_sent, on_sent, begun)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                # The handler forgets the function when the first bytes of an answer arrive. So if it still has the
                # function, no byte has arrived.
                if form is not None or protocol.on_begun is not begun:
                    raise
        connection = await self._connect(origin)
        return await self._ask(origin, connection, written, before_sent, on_sent, on_begun)

    async def _ask(
        self,
        origin: str,
        connection: Connection,
        written: bytes,
        before_sent: Callable[[], None] | None,
        on_sent: Callable[[], None] | None,
        on_begun: Callable[[], None] | None,
    ) -> Answer:
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
            # If the server has closed the connection, this write is lost, and the next read raises the error.
            assert protocol.transport is not None
            protocol.transport.write(written)
            if on_sent is not None:
                on_sent()
            message, content = await protocol.read()
            while message.code in _NO_ANSWER_YET:
                message, content = await protocol.read()
            return Answer(message, content, connection, keep=partial(self.kept.keep, origin))
        except BaseException:
            connection.close()
            raise

    async def _connect(self, origin: str) -> Connection:
        where = aiohttp.ClientRequest("GET", URL(f"{origin}/", encoded=True), loop=self._loop)
        return await self.connector.connect(where, [], _NO_TIMEOUT)


def _nothing() -> None:
    """Do nothing. This is the default for a caller that need not know when an answer begins."""


def _written(authority: str, target: str, headers: Mapping[str, str], form: bytes | None) -> bytes:
    """
    Return the bytes of the request.

    Raises:
        ValueError: a header contains a line break, or is not Unicode.
    """
    lines = [f"{'GET' if form is None else 'POST'} {target} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if form is not None:
        lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}"]
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1 or "\0" in head:
        raise ValueError("a line break in the request")
    return f"{head}\r\n\r\n".encode() + (form or b"")
