"""
The web socket of one open page.

The page sends `{"type": "follow", "topic": ..., "language": "en", "visible": true}`, later `{"type": "hidden"}` and
`{"type": "visible"}`. It receives `{"type": "screen", "cells": {...}}` for each newer screen: the whole screen at
first, then its changes (`changes`). It receives `{"type": "gone"}` when the topic has ended, and `{"type": "beat"}`
every two seconds without a screen, as a sign that the connection lives. While it is hidden it receives nothing. The
bridge sends one beat to all pages. At the next beat it closes the pages of users who have logged out or lost the right
to see jobs.
"""

import asyncio
import contextlib
import json
import re
import time
from typing import Any, Final
from urllib.parse import urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseError

from crawlctl.languages import ENGLISH
from crawlctl.live.bridge import Bridge, bridge
from crawlctl.live.session_permissions import NOT_ALLOWED, NOT_LOGGED_IN
from crawlctl.live.topics import View

# Close codes: status codes of HTTP plus 4000, and codes of the socket itself.
TOO_MUCH: Final = 4429
TOO_BIG: Final = 1009

# Time before a beat in which a sent screen replaces it as a sign of life (seconds).
_SIGN_OF_LIFE: Final = 1.0
# Limits of a page's messages: their length (bytes), and their number between two beats.
_LONGEST_FRAME: Final = 1024
_FRAMES_A_BEAT: Final = 20
# Pattern of Django's session keys.
_SESSION: Final = re.compile(r"[a-z0-9]{32}")


class LivePage(AsyncWebsocketConsumer):
    """Sends screens of the one topic that its page shows."""

    async def connect(self) -> None:
        self._bridge: Bridge = bridge()
        self._view = View("")
        self._is_visible = True
        self._sent_version = 0
        self._sent_at = float("-inf")
        self._frames = 0
        self._refusal = 0
        self._beat_is_due = False
        self.session = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        self._news = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        # Accept every socket, even one that is refused below: a browser learns the close code only of an accepted
        # socket.
        await self.accept()
        refusal = NOT_ALLOWED if not self._is_from_our_page() else await self._judge()
        if refusal:
            await self.close(refusal)
            return
        self._sender = asyncio.create_task(self._send_changes(), name="updates of a live page")
        self._bridge.attach(self)

    async def disconnect(self, code: int) -> None:
        self._bridge.detach(self)
        self._unfollow()
        if self._sender is not None:
            self._sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sender

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._sender is None:
            return
        self._frames += 1
        if self._frames > _FRAMES_A_BEAT:
            await self._send_away(TOO_MUCH)
        elif text_data is None or len(text_data) > _LONGEST_FRAME:
            await self._send_away(TOO_BIG)
        else:
            await self._obey(text_data)

    async def _obey(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            frame = None
        match frame:
            case {"type": "follow", "topic": str(topic), "visible": bool(visible)} if (
                view := View(topic, str(frame.get("language", ENGLISH)))
            ).is_known:
                self._unfollow()
                self._view, self._is_visible = view, visible
                if visible:
                    self._follow()
            case {"type": "visible"} if self._view.topic and not self._is_visible:
                self._is_visible = True
                self._follow()
            case {"type": "hidden"}:
                self._is_visible = False
                self._unfollow()
            case {"type": "visible"}:
                pass
            case _:
                await self._send({"type": "error", "message": "This frame cannot be understood."})

    def _follow(self) -> None:
        self._sent_version = 0
        self._bridge.watch(self._view, self._news)
        self._news.set()

    def _unfollow(self) -> None:
        if self._view.topic:
            self._bridge.unwatch(self._view, self._news)

    def beat(self, refusal: int) -> None:
        """Receive a beat of the bridge. A `refusal` other than 0 closes the page."""
        self._frames = 0
        self._refusal = refusal
        self._beat_is_due = self._is_visible and time.monotonic() - self._sent_at > _SIGN_OF_LIFE
        if refusal or self._beat_is_due:
            self._news.set()

    async def _send_changes(self) -> None:
        """Send messages to the page until it leaves."""
        # `disconnect` is called as well when the page leaves.
        with contextlib.suppress(OSError):
            await self._send_newer_screens()

    async def _send_newer_screens(self) -> None:
        """Send each newer screen after the screen before it was sent, and beats between them."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._refusal:
                await self._send_away(self._refusal)
                return
            if self._is_visible:
                await self._send_screen()
            if self._beat_is_due and self._is_visible:
                self._beat_is_due = False
                await self._send({"type": "beat", "stalled": self._bridge.is_stalled})

    async def _send_away(self, code: int) -> None:
        self._unfollow()
        self._is_visible = False
        await self.close(code)

    async def _send_screen(self) -> None:
        version, frame = self._bridge.frame_of(self._view, shown=self._sent_version)
        if version != self._sent_version:
            self._sent_version, self._sent_at = version, time.monotonic()
            began = time.thread_time()
            await self.send(text_data=frame)
            self._bridge.count_use(time.thread_time() - began)

    async def _judge(self) -> int:
        """Return the close code for a new page, 0 if it may stay."""
        if not _SESSION.fullmatch(self.session):
            return NOT_LOGGED_IN
        try:
            return await self._bridge.judge(self.session)
        except DatabaseError:
            return NOT_ALLOWED

    def _is_from_our_page(self) -> bool:
        """
        True if the page that opened the socket has the same host and port as the socket.

        The allowed hosts are checked earlier. This check is needed because another port of an allowed host is another
        site, and cookies do not distinguish ports.
        """
        headers = dict(self.scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        host = headers.get(b"host", b"").decode("latin-1")
        return urlsplit(origin).netloc == host or origin in settings.CSRF_TRUSTED_ORIGINS

    async def _send(self, frame: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(frame, ensure_ascii=False))
