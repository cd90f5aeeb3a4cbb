"""The web server: uvicorn around the ASGI application, as a separate process."""

import signal
import socket
from typing import Final

import uvicorn
from django.conf import settings

from crawlctl.postgres.backend.base import DatabaseWrapper
from crawlctl.postgres.backend.idle import IdleConnections
from crawlctl.web.slow_clients import PatientProtocol
from crawlctl.web.sockets import name_of
from nodes.life.attachment import call_when_orphaned

# Time for open requests to end (seconds). Live pages are disconnected immediately, and reconnect by themselves.
_GRACE: Final = 3


def serve(listener: socket.socket, *, host: str, attached: bool) -> None:
    """
    Serve until SIGTERM or SIGINT (or, `attached`, until standard input closes).

    A server that listens as `host` answers under that name without another setting.
    """
    DatabaseWrapper.idle = IdleConnections()
    name = name_of(host)
    settings.ALLOWED_HOSTS.append(f"[{name}]" if ":" in name else name)
    server = uvicorn.Server(
        uvicorn.Config(
            settings.ASGI_APPLICATION.replace(".application", ":application"),
            http=PatientProtocol,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # The live views refuse frames above a kilobyte, so no larger buffer is needed.
            ws_max_size=4096,
            # Guesses of passwords are counted by client address: only a proxy that the operator has configured may name
            # another address.
            proxy_headers=settings.SECURE_PROXY_SSL_HEADER is not None,
            timeout_graceful_shutdown=_GRACE,
        )
    )
    # The server handles these signals while it runs, then passes them to the previous handler. That is the server
    # itself again, so that a stop is not an error. It also receives signals before it runs.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    if attached:
        call_when_orphaned(lambda: setattr(server, "should_exit", True))
    server.run(sockets=[listener])
