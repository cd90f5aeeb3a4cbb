"""
As many hosts as loopback has addresses, served by one socket: `python -m tests.benchmarks.many_hosts LOG`.

The addresses begin at 127.1.0.0, and each is a separate host to a crawler. The process prints its port when it listens.
It answers every request with a small page (robots.txt with 404), and logs requests as the synthetic site does.
"""

import asyncio
import signal
import socket
import sys
import time
from contextlib import closing, suppress
from ipaddress import IPv4Address
from pathlib import Path

import uvloop

from crawlctl.demo.log import RequestLog

_FIRST = IPv4Address("127.1.0.0")
_PAGE = b"<html><title>One</title><p>The only page of its host, or one of a million.</html>"
_FOUND = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(_PAGE), _PAGE)
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_FLUSH_INTERVAL = 0.1


def host(number: int) -> str:
    """Return the address of a host by its number."""
    return str(_FIRST + number)


class _Answering(asyncio.Protocol):
    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert hasattr(transport, "write")
        self._transport = transport
        address, port = transport.get_extra_info("sockname")
        self._host = f"{address}:{port}"

    def data_received(self, data: bytes) -> None:
        *heads, self._received = (self._received + data).split(b"\r\n\r\n")
        for head in heads:
            path = head.split(b" ", 2)[1].decode("latin-1")
            is_robots = path == "/robots.txt"
            self._log.write(
                at=time.monotonic_ns(),
                host=self._host,
                path=path,
                status=404 if is_robots else 200,
                open_requests=1,
                method="GET",
                agent="-",
            )
            self._transport.write(_MISSING if is_robots else _FOUND)  # type: ignore[attr-defined]


async def _serve(log: RequestLog) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    listener = socket.socket()
    # Listen on all addresses of the loopback interface.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    listener.bind(("0.0.0.0", 0))
    listener.listen(4096)
    await loop.create_server(lambda: _Answering(log), sock=listener)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    while not stop.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_INTERVAL):
                await stop.wait()
        log.flush()


def main() -> None:
    with closing(RequestLog(Path(sys.argv[1]))) as log, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(log))


if __name__ == "__main__":
    main()
