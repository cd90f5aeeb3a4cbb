"""
The state that documents of a connection share across worker processes: gates and sessions.

An action that is done once for all documents runs behind a closed gate. The document that closes the gate executes it,
and all others wait (`Activity.wait_for`) until the gate opens. The result is stored as a session for all.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A closed gate; `is_mine` if this document closed it."""

    name: str
    is_mine: bool


@dataclass(frozen=True, slots=True)
class Session:
    """A value that is stored under a name. A later one has a greater `number`. Its `value` is secret."""

    number: int
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SeedRedirect:
    """
    A redirect that a job met at a seed, or at an address to which a seed redirected.

    `target_host` is the target's bin. If the redirect `is_followed`, that host belongs to the job's scope.
    """

    source: str
    target: str
    target_host: str
    is_followed: bool


class Shared(Protocol):
    """The shared state as one document sees it. Names of gates and sessions belong to the connection."""

    @property
    def connection(self) -> str:
        """Return the connection's name, for messages."""

    def close_gate(self, name: str) -> AbstractAsyncContextManager[ClosedGate]:
        """
        Close a gate while the block lasts. The gate is not the caller's if another document has closed it, or if the
        job must not continue.

        Every end of the block opens the caller's gate, even the death of the worker.
        """

    async def session(self, name: str) -> Session | None:
        """Return the session of this name."""

    async def keep_session(self, name: str, value: str) -> Session:
        """Store a session in place of the present one, sealed, for all workers."""

    async def pause_job(self, reason: str) -> None:
        """Pause the document's job: it cannot continue before a person has acted."""

    async def note_redirect(self, redirect: SeedRedirect) -> None:
        """Store a seed's redirect in place of the one that was stored before."""

    async def forget_redirects(self, sources: Sequence[str]) -> None:
        """Delete the stored redirects of these addresses: they have ended."""

    async def is_led_to(self, identifier: str) -> bool:
        """True if a seed of the job redirected to this document."""

    async def followed_to(self, host: str) -> Sequence[SeedRedirect]:
        """Return the redirects of seeds by which this host came into the job's scope."""
