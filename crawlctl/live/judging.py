"""
Who may go on looking, for all open pages at once.

Each page asks with each of its beats, so what its session may is asked anew all the time. Pages that ask within a
moment are answered by one look of two statements, however many they are; what a session says, and whether it was begun
with a password, is worked out once as long as both stay as they are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.crypto import constant_time_compare

# Close codes: those of HTTP after 4000.
NOT_LOGGED_IN: Final = 4401
NOT_ALLOWED: Final = 4403

_READ_JOBS: Final = "jobs.view_job"
# Sessions of which is known what they say.
_REMEMBERED: Final = 1_000
# So long who asks waits for others who ask too.
_TOGETHER: Final = 0.1


class Judge:
    """Answers who asks from one event loop; `run` runs a function in a thread that has a connection."""

    def __init__(self, run: Callable[[Callable[[], Mapping[str, int]]], Awaitable[Mapping[str, int]]]) -> None:
        self._run = run
        self._asked: set[str] = set()
        self._next: asyncio.Task[Mapping[str, int]] | None = None

    async def judge(self, key: str) -> int:
        """
        Return the code with which the owner of a session is to be sent away, 0 when he may stay.

        Raises:
            DatabaseError: nobody can say.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._look(), name="judging sessions")
        self._asked.add(key)
        return (await asyncio.shield(self._next))[key]

    async def _look(self) -> Mapping[str, int]:
        await asyncio.sleep(_TOGETHER)
        asked, self._asked, self._next = self._asked, set(), None
        return await self._run(lambda: judge_sessions(asked))


def judge_sessions(keys: Iterable[str]) -> dict[str, int]:
    """
    Look whose sessions these are at this moment, and what each may; 0 for those who may read jobs.

    Read anew each time: what a socket's scope holds is what was true when it was opened. The same as Django's `get_user`,
    which looks at one session at a time.
    """
    verdicts = dict.fromkeys(keys, NOT_LOGGED_IN)
    live = Session.objects.filter(session_key__in=list(verdicts), expire_date__gt=timezone.now())
    stored = {key: _said_by(data) for key, data in live.values_list("session_key", "session_data")}
    allowed = _passwords(User.objects.with_perm(_READ_JOBS), {owner for owner, _held in stored.values()})
    others = {owner for owner, _held in stored.values()} - allowed.keys()
    not_allowed = _passwords(User.objects.filter(is_active=True), others) if others else {}
    for key, (owner, held) in stored.items():
        password = allowed.get(owner, not_allowed.get(owner))
        if password is not None and _is_of_his_password(password, held):
            verdicts[key] = 0 if owner in allowed else NOT_ALLOWED
    return verdicts


def _passwords(users: "QuerySet[User]", ids: Iterable[int]) -> dict[int, str]:
    """The (hashed) passwords of those of these users who have one of the ids."""
    return dict(users.filter(pk__in=list(ids)).values_list("pk", "password"))


@lru_cache(maxsize=_REMEMBERED)
def _said_by(data: str) -> tuple[int, str]:
    """Who is logged in by a session with this (signed) data, 0 for nobody; and what it says of his password."""
    facts = Session(session_data=data).get_decoded()
    return int(facts.get(SESSION_KEY, 0)), str(facts.get(HASH_SESSION_KEY, ""))


@lru_cache(maxsize=_REMEMBERED)
def _is_of_his_password(password: str, held: str) -> bool:
    """Whether a session was begun with the password, and the key of the site, that are in force."""
    user = User(password=password)
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(held, each) for each in hashes)
