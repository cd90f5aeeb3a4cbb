"""The web server: uvicorn around the ASGI application, as a process of its own."""

import errno
import signal
import socket
from typing import Final

import uvicorn
from django.conf import settings

from nodes.attachment import call_when_orphaned

_BACKLOG: Final = 128
_LAST_PORT: Final = 65_535
# How long open requests may take to end; live pages are cut at once, and come back by themselves.
_GRACE: Final = 3


def listen(*, host: str, port: int) -> socket.socket:
    """
    Return a socket that listens on `port` of that address, or on the next one that is free.

    Whoever holds it may hand it to a server, and to the next one when that died: no connection is refused.

    Raises:
        OSError: the address is not of this machine, or no port is free.
    """
    for candidate in range(port, _LAST_PORT + 1):
        try:
            return socket.create_server(
                (host, candidate), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG
            )
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
    raise OSError(errno.EADDRINUSE, f"no port from {port} on is free on {host}")


def address_of(listener: socket.socket) -> str:
    """Where a browser finds what listens there."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(listener: socket.socket, *, attached: bool) -> None:
    """Serve until SIGTERM or SIGINT (or, `attached`, until standard input closes)."""
    server = uvicorn.Server(
        uvicorn.Config(
            settings.ASGI_APPLICATION.replace(".application", ":application"),
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # The live views refuse frames above a kilobyte; nobody need buffer sixteen megabytes first.
            ws_max_size=4096,
            # Addresses of clients are counted against their guesses of passwords: only a proxy that the
            # operator has told us of may say whom it speaks for.
            proxy_headers=settings.SECURE_PROXY_SSL_HEADER is not None,
            timeout_graceful_shutdown=_GRACE,
        )
    )
    # The server takes these signals over while it runs, then hands them on to whoever had them before:
    # to itself, so that to be told to end is no error. It also hears what comes before it runs.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    if attached:
        call_when_orphaned(lambda: setattr(server, "should_exit", True))
    server.run(sockets=[listener])
