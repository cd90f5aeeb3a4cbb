"""
Idle connections that may be used again, by the origin to which they lead.

Each connection is closed after an idle time. If there are too many, the one with the longest idle time is closed. Only
a few are closed at a time: closing thousands together, as after a crawl of many small hosts, would delay every request
that is due during that time.
"""

import asyncio
import resource
from itertools import islice
from typing import Final

from aiohttp.connector import Connection

_IDLE_SECONDS: Final = 15.0
# Number of connections that are closed together, and the pause before the next ones (seconds).
_CLOSED_AT_ONCE: Final = 16
_PAUSE: Final = 0.02
_MOST: Final = 4096


class KeptConnections:
    """Idle connections, for use in the event loop's thread. A caller that takes one has it exclusively."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, idle_seconds: float = _IDLE_SECONDS, most: int | None = None
    ) -> None:
        """
        `most` is the largest number of idle connections. By default, it is 4,096, or half of the files that the process
        may open if that is less.
        """
        self._loop = loop
        self._idle_seconds = idle_seconds
        self._most = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2) if most is None else most
        # Origin, and start of the idle time, by connection. The connection with the longest idle time is the first.
        self._idle: dict[Connection, tuple[str, float]] = {}
        self._by_origin: dict[str, list[Connection]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, origin: str) -> Connection | None:
        """Return the most recently used connection to this origin that still seems usable, or None."""
        kept = self._by_origin.get(origin)
        while kept:
            connection = kept[-1]
            self._forget(connection)
            protocol = connection.protocol
            # Before it closes a connection, a server may send bytes without a request. They must not be read as the
            # next answer.
            if not connection.closed and protocol is not None and not protocol.should_close:
                return connection
            connection.close()
        return None

    def keep(self, origin: str, connection: Connection) -> None:
        """Keep a connection without an open request."""
        self._idle[connection] = origin, self._loop.time()
        self._by_origin.setdefault(origin, []).append(connection)
        if len(self._idle) > self._most:
            self._close(next(iter(self._idle)))
        self._schedule_next_check()

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._idle):
            self._close(connection)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_idle(self) -> None:
        self._timer = None
        before = self._loop.time() - self._idle_seconds
        for connection, (_, since) in list(islice(self._idle.items(), _CLOSED_AT_ONCE)):
            if since <= before:
                self._close(connection)
        self._schedule_next_check()

    def _schedule_next_check(self) -> None:
        """Schedule the next check for when the oldest connection has been idle for long enough."""
        if self._timer is None and self._idle:
            _, since = next(iter(self._idle.values()))
            at = max(since + self._idle_seconds, self._loop.time() + _PAUSE)
            self._timer = self._loop.call_at(at, self._close_idle)

    def _close(self, connection: Connection) -> None:
        self._forget(connection)
        connection.close()

    def _forget(self, connection: Connection) -> None:
        origin, _ = self._idle.pop(connection)
        kept = self._by_origin[origin]
        kept.remove(connection)
        if not kept:
            del self._by_origin[origin]
