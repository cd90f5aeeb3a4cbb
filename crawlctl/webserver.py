"""The web server: uvicorn around the ASGI application, as a process of its own."""

import signal
import socket
from typing import Final

import uvicorn
from django.conf import settings

from crawlctl.sockets import name_of
from nodes.attachment import call_when_orphaned

# How long open requests may take to end; live pages are cut at once, and come back by themselves.
_GRACE: Final = 3


def serve(listener: socket.socket, *, host: str, attached: bool) -> None:
    """
    Serve until SIGTERM or SIGINT (or, `attached`, until standard input closes).

    What listens as `host` answers under that name, without having to be told so in another setting.
    """
    name = name_of(host)
    settings.ALLOWED_HOSTS.append(f"[{name}]" if ":" in name else name)
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
