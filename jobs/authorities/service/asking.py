"""
The service asks all authorities of a request at the same time, and caches their answers.

A new snapshot of the connections starts with an empty cache. Callers of questions in progress still get their answers,
but these are not cached. The network connections of unchanged authorities and mappers stay open.
"""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jobs.authorities.service.cache import Cache
from jobs.authorities.service.limited_connection import LimitedConnection, OnResult
from jobs.authorities.service.plan import Answer, AuthorityFacts, Facts, MapperFacts, Snapshot, chain, questions
from jobs.connectors.authority.kind import MOST_OF_A_NAME, NOT_FOUND, Access, Checked, Status, Unreachable
from jobs.metrics import authority as metrics

# The answer of a mapper: a name or None.
_Mapped = tuple[str | None]


@dataclass(frozen=True, slots=True)
class _Known:
    """A snapshot of the connections, with the cached answers that belong to it."""

    snapshot: Snapshot
    answers: Cache[Access]
    names: Cache[_Mapped]


class Service:
    """
    The service of one process. All methods belong to one event loop.

    `checks` is the largest number of simultaneous questions to all connections together. `lifetime` is the lifetime of
    an answer (seconds).
    """

    def __init__(self, *, checks: int, lifetime: float, on_result: OnResult = lambda _facts, _error: None) -> None:
        self._pool, self._lifetime, self._on_result = asyncio.Semaphore(checks), lifetime, on_result
        self._connections: dict[tuple[type, int], tuple[object, LimitedConnection]] = {}
        self._known = self._with(Snapshot(generation=None))
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def snapshot(self) -> Snapshot:
        return self._known.snapshot

    def install(self, snapshot: Snapshot) -> None:
        """Use these connections from now on."""
        self._known = self._with(snapshot)
        every: list[Facts] = [*snapshot.authorities, *snapshot.mappers.values()]
        wanted = {_key(facts): _version(facts) for facts in every}
        for key, (version, connection) in list(self._connections.items()):
            if wanted.get(key) != version:
                del self._connections[key]
                task = asyncio.ensure_future(_close_when_quiet(connection))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def ask(self, users: Mapping[str, str]) -> list[Answer]:
        """Return the answers of all authorities about the user of each domain, in the order of their names."""
        metrics.REQUESTS.add()
        known = self._known
        asked = [self._answer(known, authority, user) for authority, user in questions(known.snapshot, users)]
        return list(await asyncio.gather(*asked))

    async def check(self, facts: Facts) -> Checked:
        """Check the system of a connection. Return the result, with a reason or a remark."""
        return await self._connection(facts).check()

    async def check_all(self) -> dict[tuple[type, int], Checked]:
        """Check all connections at the same time."""
        snapshot = self._known.snapshot
        every: list[Facts] = [*snapshot.authorities, *snapshot.mappers.values()]
        found = await asyncio.gather(*(self.check(facts) for facts in every))
        return {_key(facts): checked for facts, checked in zip(every, found, strict=True)}

    async def close(self) -> None:
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await asyncio.gather(*(connection.close() for _, connection in self._connections.values()))
        self._connections.clear()

    def _with(self, snapshot: Snapshot) -> _Known:
        return _Known(
            snapshot,
            Cache(lifetime=self._lifetime, keeps=lambda access: access.status is not Status.UNREACHABLE),
            Cache(lifetime=self._lifetime, keeps=lambda _name: True),
        )

    async def _answer(self, known: _Known, authority: AuthorityFacts, user: str) -> Answer:
        began = time.monotonic()
        name: str | None = user
        is_kept = False
        try:
            # The time limit of an authority includes the time of its mappers.
            async with asyncio.timeout(authority.limits.seconds):
                name = await self._mapped(known, authority, user)
            if name is None or not _can_be_asked(name):
                access = NOT_FOUND
            else:
                stored = known.answers.find((authority.id, name))
                is_kept = stored is not None
                access = stored or await self._access(known, authority, name, began=began)
        except TimeoutError:
            access = Access(Status.UNREACHABLE, why=f"No mapped name within {authority.limits.seconds:g} s.")
        except Unreachable as error:
            access = Access(Status.UNREACHABLE, why=str(error))
        seconds = time.monotonic() - began
        metrics.observe(authority.name, str(access.status), seconds=seconds, is_kept=is_kept)
        return Answer(authority, name, access, seconds, is_kept)

    async def _access(self, known: _Known, authority: AuthorityFacts, name: str, *, began: float) -> Access:
        def asking() -> Awaitable[Access]:
            return self._connection(authority).ask(lambda opened: opened.access(name))

        left = authority.limits.seconds - (time.monotonic() - began)
        try:
            async with asyncio.timeout(left):
                return await known.answers.ask((authority.id, name), asking)
        except TimeoutError:
            raise Unreachable(f"No answer within {authority.limits.seconds:g} s.") from None

    async def _mapped(self, known: _Known, authority: AuthorityFacts, user: str) -> str | None:
        """
        Return the name of a user for an authority; None if a mapper finds none. Each mapper is asked once about a name.
        """
        name: str | None = user
        for mapper in chain(known.snapshot.mappers, authority.prerequisite):
            if name is None or not _can_be_asked(name):
                return None
            (name,) = await known.names.ask((mapper.id, name), self._mapping(mapper, name))
        return name

    def _mapping(self, mapper: MapperFacts, name: str) -> Any:  # noqa: ANN401 (a function without arguments)
        async def asking() -> _Mapped:
            return (await self._connection(mapper).ask(lambda opened: opened.map(name)),)

        return asking

    def _connection(self, facts: Facts) -> LimitedConnection:
        key, version = _key(facts), _version(facts)
        stored = self._connections.get(key)
        if stored is None or stored[0] != version:
            stored = self._connections[key] = (
                version,
                LimitedConnection(facts, pool=self._pool, on_result=self._on_result),
            )
        return stored[1]


# Time from a change of a connection until its earlier version is closed (seconds). It is the longest time limit, so all
# questions have ended.
_QUIET_AFTER: Final = 120.0


async def _close_when_quiet(connection: LimitedConnection) -> None:
    try:
        await asyncio.sleep(_QUIET_AFTER)
    finally:
        await connection.close()


def _key(facts: Facts) -> tuple[type, int]:
    return type(facts), facts.id


def _version(facts: Facts) -> object:
    return facts.name, facts.kind, facts.configuration, facts.limits


def _can_be_asked(name: str) -> bool:
    """
    True for a user name that systems can be asked about: not too long, in valid Unicode, without control characters.
    """
    if not 0 < len(name) <= MOST_OF_A_NAME or not name.isprintable():
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
