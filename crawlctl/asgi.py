"""The ASGI application: pages and the API over HTTP, live views over web sockets."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")

# Django must know its settings, and the apps must be loaded, before the models that live pages read.
from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application
from django.db import connections

_pages = get_asgi_application()

# Each request here runs in a separate thread, which ends with it. A connection kept by the thread would stay open
# until the garbage collector finds it. The web server keeps idle connections by itself
# (crawlctl/postgres/backend/idle.py).
connections.settings["default"]["CONN_MAX_AGE"] = 0

from crawlctl.live.bridge import bridge, stop_bridge  # noqa: E402
from crawlctl.live.routing import websocket_application  # noqa: E402


async def run_lifespan(
    _scope: object, receive: Callable[[], Awaitable[dict[str, Any]]], send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Start and stop the parts that belong to the server's process and to no single request."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            bridge()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await stop_bridge()
            await send({"type": "lifespan.shutdown.complete"})
            return


application = ProtocolTypeRouter({"http": _pages, "websocket": websocket_application, "lifespan": run_lifespan})
