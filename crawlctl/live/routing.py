"""The addresses of the web sockets."""

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import CookieMiddleware
from django.urls import path, re_path

from crawlctl.live.consumers import LivePage


class NoSuchSocket(AsyncWebsocketConsumer):
    """Refuses a socket at an unknown address: the router itself would raise an exception, and fill the log."""

    async def connect(self) -> None:
        await self.close()


# Django's types allow only HTTP views here, but channels routes ASGI applications by these objects.
_addresses: list[Any] = [path("live/", LivePage.as_asgi()), re_path("", NoSuchSocket.as_asgi())]  # type: ignore[arg-type]

websocket_application = AllowedHostsOriginValidator(CookieMiddleware(URLRouter(_addresses)))
