"""
Resolution of host names by the system's resolver.

The resolver blocks, so it runs in threads. It does not use the loop's small pool of threads: a few names whose servers
do not answer would block all other names. The threads of this module are daemon threads: Python waits for the threads
of a pool before it exits, so a hanging look-up would keep a stopped worker alive.
"""

import asyncio
import contextlib
import errno
import queue
import socket
import threading
from concurrent.futures import Future
from ipaddress import ip_address
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

_MOST_THREADS: Final = 32
_MOST_ADDRESSES: Final = 100_000

_Rows = list[ResolveResult]


class ThreadedNames(AbstractResolver):
    """A resolver for aiohttp. If all its threads are busy, further look-ups wait."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[tuple[Future[_Rows], str, int, int] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        # The last result by host. If there are several addresses, the lowest one is stored, so their order does not
        # matter.
        self._addresses: dict[str, str] = {}

    def address_of(self, host: str) -> str | None:
        """
        Return the address of a host whose name was looked up before; None for another host. If the host is itself an
        address, return the host.
        """
        with contextlib.suppress(ValueError):
            return str(ip_address(host))
        return self._addresses.get(host)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found: Future[_Rows] = Future()
        self._wanted.put((found, host, port, family))
        if not self._idle.acquire(blocking=False) and self._threads < _MOST_THREADS:
            self._threads += 1
            threading.Thread(target=self._look_up_what_is_wanted, name="names", daemon=True).start()
        rows = await asyncio.wrap_future(found)
        if not rows:
            raise OSError(errno.EADDRNOTAVAIL, "the name has no address")
        if len(self._addresses) >= _MOST_ADDRESSES:
            self._addresses.clear()
        self._addresses[host] = min(row["host"] for row in rows)
        return rows

    async def close(self) -> None:
        for _ in range(self._threads):
            self._wanted.put(None)

    def _look_up_what_is_wanted(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            found, host, port, family = wanted
            if found.set_running_or_notify_cancel():
                try:
                    found.set_result(_look_up(host, port, family))
                except (OSError, ValueError) as error:
                    found.set_exception(error)
            self._idle.release()


def _look_up(host: str, port: int, family: int) -> _Rows:
    try:
        rows = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from None
    return [
        ResolveResult(
            hostname=host,
            host=str(address[0]),
            port=port,
            family=kind,
            proto=proto,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for kind, _, proto, _, address in rows
    ]
