"""
Who may go on looking, for all open pages at once.

It is asked when a page comes, and with each beat of all of them, so what a session may is asked anew all the time. Pages that
come within a moment are answered by one look of two statements, as all are that have a beat; what a session says, and whether it
was begun with a password, is worked out once as long as both stay as they are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone
from django.utils.crypto import constant_time_compare

# Close codes: those of HTTP after 4000.
NOT_LOGGED_IN: Final = 4401
NOT_ALLOWED: Final = 4403

_READ_JOBS: Final = "jobs.view_job"
_SESSIONS: Final = (
    "SELECT session_key, session_data FROM django_session WHERE expire_date > %s AND session_key = ANY(%s)"
)
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

    async def judge_all(self, keys: Collection[str]) -> Mapping[str, int]:
        """The same for many sessions, at once."""
        return await self._run(lambda: judge_sessions(keys))

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
    # Sessions end by the clock of who looks at them, as Django has it.
    now = timezone.now()  # noqa: TID251
    stored = {key: _said_by(data) for key, data in _read(_SESSIONS, now, list(verdicts))}
    owners = {owner for owner, _held in stored.values()}
    allowed = _read_passwords(owners, may_read_jobs=True)
    others = owners - allowed.keys()
    not_allowed = _read_passwords(others, may_read_jobs=False) if others else {}
    for key, (owner, held) in stored.items():
        password = allowed.get(owner, not_allowed.get(owner))
        if password is not None and _is_of_his_password(password, held):
            verdicts[key] = 0 if owner in allowed else NOT_ALLOWED
    return verdicts


def _read(statement: str, *facts: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, facts)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _read_passwords(ids: Iterable[int], *, may_read_jobs: bool) -> dict[int, str]:
    """The (hashed) passwords of those of these users who may read jobs, or who are active at least."""
    statement, facts = _question_for_passwords(may_read_jobs=may_read_jobs)
    return dict(_read(statement, *facts, list(ids)))


# Django says it best who may do what; but to word it takes longer than to look it up.
@cache
def _question_for_passwords(*, may_read_jobs: bool) -> tuple[str, tuple[Any, ...]]:
    users = User.objects.with_perm(_READ_JOBS) if may_read_jobs else User.objects.filter(is_active=True)
    statement, facts = users.values_list("pk", "password").query.sql_with_params()
    question = f"SELECT * FROM ({statement}) AS one(id, password) WHERE id = ANY(%s)"  # noqa: S608 (Django's words)
    return question, tuple(facts)


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
