"""
The state that documents of a connection share across worker processes: gates and sessions.

An action that is executed once for all documents, such as a login, happens behind a closed gate. The document that
closes the gate executes it, and all others wait (`Activity.wait_for`) until the gate opens. The result is stored as a
session for all.
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
    """A secret `value` that is stored under a name. When it is replaced, the `number` grows."""

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
    """The shared state, for the processing of one document. Names of gates and sessions are unique in a connection."""

    @property
    def connection(self) -> str:
        """Return the connection's name, for messages."""

    def close_gate(self, name: str) -> AbstractAsyncContextManager[ClosedGate]:
        """
        Close a gate until the block ends. `is_mine` is False if another document has closed the gate, or if the job
        must not continue.

        If the caller has closed the gate, it opens when the block ends in any way, and also if the worker dies.
        """

    async def session(self, name: str) -> Session | None:
        """Return the session of this name; None if there is none."""

    async def keep_session(self, name: str, value: str) -> Session:
        """Encrypt a session, and store it for all workers in place of the present one."""

    async def pause_job(self, reason: str) -> None:
        """Pause the document's job because it needs the action of a person."""

    async def note_redirect(self, redirect: SeedRedirect) -> None:
        """Store a seed's redirect in place of the one that was stored before."""

    async def forget_redirects(self, sources: Sequence[str]) -> None:
        """Delete the stored redirects of these addresses, because they no longer redirect."""

    async def is_led_to(self, identifier: str) -> bool:
        """True if a seed of the job redirected to this document."""

    async def followed_to(self, host: str) -> Sequence[SeedRedirect]:
        """Return the redirects of seeds by which this host came into the job's scope."""
