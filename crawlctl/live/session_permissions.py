"""
The permissions of sessions with open pages, read for all pages together.

They are read for each new page, and at each beat for all pages, so they are always current. Two statements answer for
all pages that open within a moment, or for all pages at a beat. The content of a session, and the check of its password
hash, are cached while both stay the same.
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

# Close codes: those of HTTP plus 4000.
NOT_LOGGED_IN: Final = 4401
NOT_ALLOWED: Final = 4403

_READ_JOBS: Final = "jobs.view_job"
_SESSIONS: Final = (
    "SELECT session_key, session_data FROM django_session WHERE expire_date > %s AND session_key = ANY(%s)"
)
# Largest number of sessions whose decoded content is cached.
_REMEMBERED: Final = 1_000
# Time that a request waits for other requests, so that one query answers all of them (seconds).
_TOGETHER: Final = 0.1


class Judge:
    """
    Decides for the pages of one event loop whether they may stay open. `run` calls a function in a thread that has a
    connection.
    """

    def __init__(self, run: Callable[[Callable[[], Mapping[str, int]]], Awaitable[Mapping[str, int]]]) -> None:
        self._run = run
        self._asked: set[str] = set()
        self._next: asyncio.Task[Mapping[str, int]] | None = None

    async def judge(self, key: str) -> int:
        """
        Return the close code for a session, 0 if its owner may stay.

        Raises:
            DatabaseError: the database does not answer.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._judge_waiting(), name="judging sessions")
        self._asked.add(key)
        return (await asyncio.shield(self._next))[key]

    async def judge_all(self, keys: Collection[str]) -> Mapping[str, int]:
        """Return the close codes of many sessions, which are read together."""
        return await self._run(lambda: judge_sessions(keys))

    async def _judge_waiting(self) -> Mapping[str, int]:
        await asyncio.sleep(_TOGETHER)
        asked, self._asked, self._next = self._asked, set(), None
        return await self._run(lambda: judge_sessions(asked))


def judge_sessions(keys: Iterable[str]) -> dict[str, int]:
    """
    Return the close code of each session now; 0 for users who may read jobs.

    The sessions are read each time: a socket's scope holds the state at its opening. The result agrees with Django's
    `get_user`, which reads one session at a time.
    """
    verdicts = dict.fromkeys(keys, NOT_LOGGED_IN)
    # Sessions expire by the clock of the reading process, as in Django.
    now = timezone.now()  # noqa: TID251
    stored = {key: _user_and_password_hash_in(data) for key, data in _read(_SESSIONS, now, list(verdicts))}
    owners = {owner for owner, _held in stored.values()}
    allowed = _read_passwords(owners, may_read_jobs=True)
    others = owners - allowed.keys()
    not_allowed = _read_passwords(others, may_read_jobs=False) if others else {}
    for key, (owner, held) in stored.items():
        password = allowed.get(owner, not_allowed.get(owner))
        if password is not None and _belongs_to_current_password(password, held):
            verdicts[key] = 0 if owner in allowed else NOT_ALLOWED
    return verdicts


def _read(statement: str, *facts: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, facts)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _read_passwords(ids: Iterable[int], *, may_read_jobs: bool) -> dict[int, str]:
    """
    Return the password hashes of the users among these who may read jobs; without that permission, of active users.
    """
    statement, facts = _statement_for_passwords(may_read_jobs=may_read_jobs)
    return dict(_read(statement, *facts, list(ids)))


# Django's own query finds the users with a permission. Building the query takes longer than executing it, so it is
# cached.
@cache
def _statement_for_passwords(*, may_read_jobs: bool) -> tuple[str, tuple[Any, ...]]:
    users = User.objects.with_perm(_READ_JOBS) if may_read_jobs else User.objects.filter(is_active=True)
    statement, facts = users.values_list("pk", "password").query.sql_with_params()
    of_some = f"SELECT * FROM ({statement}) AS one(id, password) WHERE id = ANY(%s)"  # noqa: S608 (the statement is Django's)
    return of_some, tuple(facts)


@lru_cache(maxsize=_REMEMBERED)
def _user_and_password_hash_in(data: str) -> tuple[int, str]:
    """
    Return the id of the user of a session with this (signed) data, 0 without a user; and the password hash in the
    session.
    """
    facts = Session(session_data=data).get_decoded()
    return int(facts.get(SESSION_KEY, 0)), str(facts.get(HASH_SESSION_KEY, ""))


@lru_cache(maxsize=_REMEMBERED)
def _belongs_to_current_password(password: str, held: str) -> bool:
    """True if a session began with the current password and the current key of the site."""
    user = User(password=password)
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(held, each) for each in hashes)
