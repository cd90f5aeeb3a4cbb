"""
What the documents of a connection share, whichever worker processes them: gates and sessions.

Something that is done once for all of them is done behind a shut gate: whoever shuts it does it, and all
others wait (`Activity.wait_for`) until it opens. What came of it is kept as a session, for everybody.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ShutGate:
    """A gate that is shut, by this document if it `is_mine`."""

    name: str
    is_mine: bool


@dataclass(frozen=True, slots=True)
class Session:
    """What is kept under a name; a later one has a greater `number`. Its `value` is secret."""

    number: int
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SeedRedirect:
    """
    A redirect that a job met at a seed, or at an address that a seed redirected to.

    `target_host` is the target's bin; if the redirect `is_followed`, that host belongs to the job's scope.
    """

    source: str
    target: str
    target_host: str
    is_followed: bool


class Shared(Protocol):
    """As one document sees it. Names of gates and sessions are the connection's own."""

    @property
    def connection(self) -> str:
        """The connection's name, for sentences."""

    def shut(self, name: str) -> AbstractAsyncContextManager[ShutGate]:
        """
        Shut a gate while the block lasts. It is not mine if somebody else has shut it, or if the job must not go on.

        Whatever ends the block opens it, the death of the worker too.
        """

    async def session(self, name: str) -> Session | None:
        """What is kept under this name."""

    async def keep_session(self, name: str, value: str) -> Session:
        """Keep something in place of what was kept; it is stored sealed, for all workers."""

    async def pause_job(self, reason: str) -> None:
        """Pause the document's job: it cannot go on before a person has done something."""

    async def note_redirect(self, redirect: SeedRedirect) -> None:
        """Store a seed's redirect in place of the one that was stored before."""

    async def is_led_to(self, identifier: str) -> bool:
        """True if a seed of the job redirected to this document."""

    async def followed_to(self, host: str) -> Sequence[SeedRedirect]:
        """The redirects of seeds by which this host came into the job's scope."""
