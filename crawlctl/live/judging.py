"""
Who may go on looking, for all open pages at once.

Each page asks with each of its beats, so what its session may is asked anew all the time. Pages that ask within a
moment are answered by one look of three statements, however many they are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

# Close codes: those of HTTP after 4000.
NOT_LOGGED_IN: Final = 4401
NOT_ALLOWED: Final = 4403

_READ_JOBS: Final = "jobs.view_job"
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
    stored = {session.session_key: session.get_decoded() for session in live}
    ids = {int(facts[SESSION_KEY]) for facts in stored.values() if SESSION_KEY in facts}
    users = {user.pk: user for user in User.objects.filter(pk__in=ids, is_active=True)}
    allowed = set(User.objects.with_perm(_READ_JOBS).filter(pk__in=users).values_list("pk", flat=True))
    for key, facts in stored.items():
        user = users.get(int(facts.get(SESSION_KEY, 0)))
        if user is not None and _is_of_his_password(user, str(facts.get(HASH_SESSION_KEY, ""))):
            verdicts[key] = 0 if user.pk in allowed else NOT_ALLOWED
    return verdicts


def _is_of_his_password(user: User, held: str) -> bool:
    """Whether a session was begun with the password, and the key of the site, that are in force."""
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(held, each) for each in hashes)
