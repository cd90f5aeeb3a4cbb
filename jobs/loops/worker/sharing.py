"""Data that documents share across all workers, in the database: the worker's side of `Shared`."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import Database
from jobs.connectors.repository.shared import ClosedGate, SeedRedirect, Session
from jobs.connectors.repository.web.urls import canonical
from jobs.queue import wake
from jobs.queue.flushing import gates
from jobs.queue.redirects import forget_redirects
from jobs.state import channels
from nodes.database.sealing import Unreadable, seal, unseal
from nodes.life.identity import NodeIdentity

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

# A change of the job holds the row, and removes the redirects of removed seeds. Locks: Job SHARE.
_VERSION: Final[LiteralString] = "SELECT specification_version FROM jobs_job WHERE id = %(job)s FOR SHARE"
_SEEDS: Final[LiteralString] = """
SELECT url FROM jobs_seed AS seed CROSS JOIN LATERAL unnest(seed.urls) AS url
 WHERE seed.job_id = %(job)s AND seed.removed_at IS NULL
"""
# Locks: the row that it inserts or changes.
_NOTE: Final[LiteralString] = """
INSERT INTO jobs_seedredirect AS kept (job_id, hash, source, target_hash, target, target_host, is_followed, noted_at)
VALUES (%(job)s, %(hash)s, %(source)s, %(target_hash)s, %(target)s, %(target_host)s, %(is_followed)s, clock_timestamp())
ON CONFLICT (job_id, hash) DO UPDATE
   SET target_hash = excluded.target_hash, target = excluded.target, target_host = excluded.target_host,
       is_followed = excluded.is_followed, noted_at = excluded.noted_at
 WHERE (kept.target, kept.is_followed) IS DISTINCT FROM (excluded.target, excluded.is_followed)
"""
_IS_LED_TO: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_seedredirect WHERE job_id = %(job)s AND target_hash = %(hash)s)
"""
_FOLLOWED_TO: Final[LiteralString] = """
SELECT source, target, is_followed FROM jobs_seedredirect WHERE job_id = %(job)s AND target_host = %(host)s AND is_followed
"""


@dataclass(frozen=True, slots=True)
class SharedByWorkers:
    """
    `stop_job` pauses the job, with a reason, and returns after the commit. `version` is the version of the
    specification that the worker knows.
    """

    database: Database
    me: NodeIdentity
    job: int
    version: int
    repository: int
    connection: str
    stop_job: Callable[[int, str], Awaitable[None]]

    @asynccontextmanager
    async def close_gate(self, name: str) -> AsyncIterator[ClosedGate]:
        gate, key = f"connection {self.repository}: {name}", uuid.uuid4()
        # True until the call has its answer, and also if the call is cancelled before that.
        may_be_mine = True
        try:
            may_be_mine = await self.database.run(
                partial(gates.close_gate, gate=gate, key=key, node=self.me.id, job=self.job)
            )
            yield ClosedGate(gate, may_be_mine)
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

    async def note_redirect(self, redirect: SeedRedirect) -> None:
        await self.database.run(partial(_note_redirect, job=self.job, version=self.version, redirect=redirect))

    async def forget_redirects(self, sources: Sequence[str]) -> None:
        await self.database.run(partial(forget_redirects, job=self.job, sources=sources))

    async def is_led_to(self, identifier: str) -> bool:
        return await self.database.run(partial(_is_led_to, job=self.job, hash=hash_of(identifier)))

    async def followed_to(self, host: str) -> Sequence[SeedRedirect]:
        return await self.database.run(partial(_followed_to, job=self.job, host=host))


def _read(connection: psycopg.Connection[Any], *, repository: int, name: str) -> Session | None:
    row = connection.execute(_READ, {"repository": repository, "name": name}).fetchone()
    if row is None:
        return None
    try:
        return Session(row[0], unseal(row[1]))
    except Unreadable:
        # The secret key has changed, so the stored session cannot be read. The worker logs in again.
        return None


def _keep(connection: psycopg.Connection[Any], *, repository: int, name: str, value: str) -> Session:
    row = connection.execute(_KEEP, {"repository": repository, "name": name, "sealed": seal(value)}).fetchone()
    assert row is not None
    return Session(row[0], value)


def _note_redirect(connection: psycopg.Connection[Any], *, job: int, version: int, redirect: SeedRedirect) -> None:
    """Store a redirect, unless its seed was removed after the worker read this version of the job."""
    facts = {
        "job": job,
        "hash": hash_of(redirect.source),
        "source": redirect.source,
        "target_hash": hash_of(redirect.target),
        "target": redirect.target,
        "target_host": redirect.target_host,
        "is_followed": redirect.is_followed,
    }
    with connection.transaction():
        row = connection.execute(_VERSION, facts).fetchone()
        if row is not None and (row[0] == version or _is_of_seed(connection, job=job, source=redirect.source)):
            connection.execute(_NOTE, facts)


def _is_of_seed(connection: psycopg.Connection[Any], *, job: int, source: str) -> bool:
    """Return True if the address is a seed, or a seed leads to it."""
    if _is_led_to(connection, job=job, hash=hash_of(source)):
        return True
    return any(canonical(url) == source for (url,) in connection.execute(_SEEDS, {"job": job}))


def _is_led_to(connection: psycopg.Connection[Any], *, job: int, hash: str) -> bool:  # noqa: A002 (the field's word)
    row = connection.execute(_IS_LED_TO, {"job": job, "hash": hash}).fetchone()
    return bool(row and row[0])


def _followed_to(connection: psycopg.Connection[Any], *, job: int, host: str) -> list[SeedRedirect]:
    rows = connection.execute(_FOLLOWED_TO, {"job": job, "host": host}).fetchall()
    return [SeedRedirect(source, target, host, is_followed) for source, target, is_followed in rows]
