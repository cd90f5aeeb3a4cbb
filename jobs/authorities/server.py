"""
The authority service as a separate process. It answers `GET /UserACLs`, and gives the same answer as JSON at
`/access`.

It reads the connections again at a request if the last read is more than a second ago. So a change applies to requests
that come a second later. Without the database the service answers 503, because it cannot check the tokens of its
callers.
"""

import asyncio
import json
import logging
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp import web
from django.db import connection

from jobs.authorities.contract import CONTENT_TYPE, Question, read_question, text_of
from jobs.authorities.serializers import access_shown
from jobs.authorities.service.plan import Answer, Snapshot
from jobs.authorities.threaded_service import UnstoredStates, new_service, read_generation, read_silent, read_snapshot
from nodes.api.bearer import digest_of, token_in
from nodes.database.outage import OUTAGES, outage
from nodes.errors import Invalid
from nodes.life.attachment import call_when_orphaned

logger = logging.getLogger(__name__)

# Time between two reads of the connections, and the time that open requests get at a stop (seconds).
_READ_EVERY: Final = 1.0
_GRACE: Final = 5.0
_PLAIN: Final = "text/plain; charset=utf-8"
_NO_STORE: Final = {"Cache-Control": "no-store"}


class RefreshedService:
    """
    The service, with connections to authorities that are read again when they are a second old. The queries run in one
    thread, with one database connection.
    """

    def __init__(self) -> None:
        self._unstored = UnstoredStates()
        self.service = new_service(self._unstored)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="database")
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def refresh(self) -> Snapshot:
        """
        Return the connections to authorities. These are read again if the last read is more than a second ago.

        Raises:
            OperationalError, InterfaceError: the database does not answer.
        """
        if time.monotonic() - self._read_at > _READ_EVERY:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(self._read_if_changed())
            await asyncio.shield(self._reading)
        return self.service.snapshot

    async def close(self) -> None:
        await self.service.close()
        await asyncio.get_running_loop().run_in_executor(self._thread, lambda: connection.close())  # noqa: PLW0108 (each thread has its own)
        self._thread.shutdown()

    async def _read_if_changed(self) -> None:
        began = time.monotonic()
        known = self.service.snapshot
        found = await asyncio.get_running_loop().run_in_executor(self._thread, self._read, known)
        if found is not known:
            self.service.install(found)
        self._read_at = began

    def _read(self, known: Snapshot) -> Snapshot:
        try:
            self._unstored.store()
            self._unstored.note_stored(read_silent())
            return known if read_generation() == known.generation else read_snapshot()
        except OUTAGES:
            connection.close()
            raise


class Server:
    """Answers requests to the addresses of the process."""

    def __init__(self, refreshed: RefreshedService) -> None:
        self._refreshed = refreshed

    def application(self) -> web.Application:
        made = web.Application(client_max_size=1024)
        for path in ("/UserACLs", "/mcf-authority-service/UserACLs"):
            made.router.add_get(path, self._text)
        made.router.add_get("/access", self._json)
        made.router.add_get("/healthz", self._alive)
        made.router.add_get("/readyz", self._ready)
        return made

    async def _text(self, request: web.Request) -> web.Response:
        found = await self._answers(request)
        if isinstance(found, web.Response):
            return found
        question, answers = found
        return web.Response(
            body=text_of(question, answers).encode("ascii"), headers={**_NO_STORE, "Content-Type": CONTENT_TYPE}
        )

    async def _json(self, request: web.Request) -> web.Response:
        found = await self._answers(request)
        if isinstance(found, web.Response):
            return found
        question, answers = found
        shown = {"users": question.users, "answers": access_shown(answers)}
        return web.json_response(shown, dumps=json.dumps, headers=_NO_STORE)

    async def _alive(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"}, headers=_NO_STORE)

    async def _ready(self, _request: web.Request) -> web.Response:
        try:
            await self._refreshed.refresh()
        except OUTAGES as error:
            return _unavailable(error)
        return web.json_response({"status": "ok"}, headers=_NO_STORE)

    async def _answers(self, request: web.Request) -> tuple[Question, list[Answer]] | web.Response:
        try:
            snapshot = await self._refreshed.refresh()
        except OUTAGES as error:
            return _unavailable(error)
        if not _may_ask(request, snapshot):
            said = "Send the token of a service as Authorization: Bearer …\n"
            return _refusal(401, said, **{"WWW-Authenticate": "Bearer"})
        try:
            question = read_question(request.query.items())
        except Invalid as invalid:
            return _refusal(400, f"{invalid.by_field}\n")
        return question, await self._refreshed.service.ask(question.users)


def _may_ask(request: web.Request, snapshot: Snapshot) -> bool:
    token = token_in(request.headers.get("Authorization", ""))
    found = snapshot.callers.get(digest_of(token)) if token else None
    return found is not None and (found[1] is None or found[1] > time.time())


def _unavailable(error: Exception) -> web.Response:
    logger.warning("cannot read the connections: %s", outage(error))
    return _refusal(503, "The database does not answer. Try again later.\n")


def _refusal(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, body=text.encode(), headers={**_NO_STORE, "Content-Type": _PLAIN, **headers})


async def serve(listener: socket.socket, *, attached: bool) -> None:
    """
    Serve until SIGTERM or SIGINT. If `attached`, also stop when standard input closes. Open requests get time to end.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if attached:
        call_when_orphaned(lambda: loop.call_soon_threadsafe(stopped.set))
    refreshed = RefreshedService()
    runner = web.AppRunner(Server(refreshed).application(), access_log=None, shutdown_timeout=_GRACE)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        await stopped.wait()
    finally:
        await runner.cleanup()
        await refreshed.close()
