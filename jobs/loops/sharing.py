"""What documents share over all workers, kept in the database: the worker's side of `Shared`."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString

import psycopg

from jobs import channels
from jobs.connectors.repository.kind import Database
from jobs.connectors.repository.shared import Session, ShutGate
from jobs.connectors.sealing import Unreadable, seal, unseal
from jobs.queue import gates, wake
from nodes.identity import NodeIdentity

_READ: Final[LiteralString] = (
    "SELECT number, sealed FROM jobs_session WHERE repository_id = %(repository)s AND name = %(name)s"
)
_KEEP: Final[LiteralString] = """
INSERT INTO jobs_session AS kept (repository_id, name, number, sealed, made_at)
VALUES (%(repository)s, %(name)s, 1, %(sealed)s, clock_timestamp())
ON CONFLICT (repository_id, name) DO UPDATE
   SET number = kept.number + 1, sealed = excluded.sealed, made_at = excluded.made_at
RETURNING number
"""


@dataclass(frozen=True, slots=True)
class SharedByWorkers:
    """`stop_job` pauses the job, with a reason; it returns when that is committed."""

    database: Database
    me: NodeIdentity
    job: int
    repository: int
    connection: str
    stop_job: Callable[[int, str], Awaitable[None]]

    @asynccontextmanager
    async def shut(self, name: str) -> AsyncIterator[ShutGate]:
        gate, key = f"connection {self.repository}: {name}", uuid.uuid4()
        # Also if this is broken off before the answer is there.
        may_be_mine = True
        try:
            may_be_mine = await self.database.run(
                partial(gates.shut, gate=gate, key=key, node=self.me.id, job=self.job)
            )
            yield ShutGate(gate, may_be_mine)
        finally:
            if may_be_mine:
                await self.database.run(partial(self._open, gate=gate, key=key))

    def _open(self, connection: psycopg.Connection[Any], *, gate: str, key: uuid.UUID) -> None:
        gates.open_gate(connection, gate=gate, key=key)
        wake.notify(connection, channels.STUFF, self.me.scope)

    async def session(self, name: str) -> Session | None:
        return await self.database.run(partial(_read, repository=self.repository, name=name))

    async def keep_session(self, name: str, value: str) -> Session:
        return await self.database.run(partial(_keep, repository=self.repository, name=name, value=value))

    async def pause_job(self, reason: str) -> None:
        await self.stop_job(self.job, reason)


def _read(connection: psycopg.Connection[Any], *, repository: int, name: str) -> Session | None:
    row = connection.execute(_READ, {"repository": repository, "name": name}).fetchone()
    if row is None:
        return None
    try:
        return Session(row[0], unseal(row[1]))
    except Unreadable:
        # The key has changed: what was kept is as good as gone.
        return None


def _keep(connection: psycopg.Connection[Any], *, repository: int, name: str, value: str) -> Session:
    row = connection.execute(_KEEP, {"repository": repository, "name": name, "sealed": seal(value)}).fetchone()
    assert row is not None
    return Session(row[0], value)
