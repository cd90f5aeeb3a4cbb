"""
The service of a process whose requests have threads. It reads the connections from the database, and stores which of
them are silent.

The web server has one service for all its requests. The event loop of the service runs in a separate thread. Before
each question, the service reads the mark of the last change, so that a change applies to the next question.
"""

import asyncio
import datetime as dt
import functools
import threading
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Value
from django.db.models.functions import Now

from jobs.authorities.contract import tokens_shown
from jobs.authorities.models import LONGEST_ERROR, AuthorityConnection, Generation, MappingConnection, ServiceToken
from jobs.authorities.service.asking import Service
from jobs.authorities.service.plan import Answer, AuthorityFacts, Facts, MapperFacts, Snapshot
from jobs.connectors.authority.kind import Checked, Limits
from jobs.settings.authorities import CACHE_LIFETIME, CHECKS
from nodes.database.outage import OUTAGES
from nodes.settings.running import current

_T = TypeVar("_T")
_MODELS: Final[Mapping[type, type[AuthorityConnection] | type[MappingConnection]]] = {
    AuthorityFacts: AuthorityConnection,
    MapperFacts: MappingConnection,
}
_Key = tuple[type, int]


class UnstoredStates:
    """
    Changes that the service has noticed and that are not stored yet: connections that became silent, or answer again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._silent: dict[_Key, str] = {}
        self._answered: set[_Key] = set()
        self._stored_silent: frozenset[_Key] = frozenset()

    def note(self, facts: Facts, why: str) -> None:
        """Note that a connection answered, or that it is silent now."""
        key = (type(facts), facts.id)
        with self._lock:
            if why:
                self._silent[key] = why
                self._answered.discard(key)
            else:
                self._answered.add(key)
                self._silent.pop(key, None)

    def note_stored(self, stored: Iterable[_Key]) -> None:
        """Remember the connections that the database has as silent."""
        self._stored_silent = frozenset(stored)

    def store(self) -> None:
        """
        Store the connections that are silent now, and those connections that answer again.

        Raises:
            OperationalError, InterfaceError: the database does not answer. The changes stay for the next call.
        """
        with self._lock:
            unstored = [*self._silent.items(), *((key, "") for key in self._answered & self._stored_silent)]
            self._silent, self._answered = {}, set()
        for number, (key, why) in enumerate(unstored):
            try:
                _store(key, why)
            except OUTAGES:
                self._keep(unstored[number:])
                raise

    def _keep(self, unstored: Iterable[tuple[_Key, str]]) -> None:
        """Keep the changes that could not be stored, unless a newer change of the same connection is known."""
        with self._lock:
            for key, why in unstored:
                if key in self._silent or key in self._answered:
                    continue
                if why:
                    self._silent[key] = why
                else:
                    self._answered.add(key)


def _store(key: _Key, why: str) -> None:
    kind, pk = key
    rows = _MODELS[kind].objects.filter(pk=pk)
    if why:
        rows.filter(silent_since=None).update(silent_since=Now())
        rows.update(last_error=why[:LONGEST_ERROR])
    else:
        rows.update(silent_since=None, last_error="")


def new_service(unstored: UnstoredStates) -> Service:
    """Return a service with the settings of this process."""
    lifetime: dt.timedelta = current()[CACHE_LIFETIME]
    return Service(checks=current()[CHECKS], lifetime=lifetime.total_seconds(), on_result=unstored.note)


def read_generation() -> UUID | None:
    """Return the mark of the last change of connections; None before the first change."""
    return Generation.objects.values_list("mark", flat=True).first()


def read_silent() -> list[_Key]:
    """Return the connections that are stored as silent."""
    authorities = AuthorityConnection.objects.filter(silent_since__isnull=False).order_by()
    mappers = MappingConnection.objects.filter(silent_since__isnull=False).order_by()
    found = (
        authorities.annotate(of=Value("a"))
        .values_list("of", "pk")
        .union(mappers.annotate(of=Value("m")).values_list("of", "pk"), all=True)
    )
    return [(AuthorityFacts if of == "a" else MapperFacts, key) for of, key in found]


def read_snapshot() -> Snapshot:
    """Return all connections. The mark is read first, so that the next comparison notices a change during this read."""
    generation = read_generation()
    return Snapshot(
        generation=generation,
        authorities=[
            AuthorityFacts(
                **_common(row),
                group=row.group.name,
                domain=row.domain,
            )
            for row in AuthorityConnection.objects.select_related("group").order_by("name")
        ],
        mappers={row.pk: MapperFacts(**_common(row)) for row in MappingConnection.objects.all()},
        callers={
            row.digest: (row.name, row.expires_at.timestamp() if row.expires_at else None)
            for row in ServiceToken.objects.all()
        },
    )


def _common(row: AuthorityConnection | MappingConnection) -> dict[str, Any]:
    return {
        "id": row.pk,
        "name": row.name,
        "kind": row.kind,
        "configuration": row.configuration,
        "limits": Limits(at_once=row.at_once, seconds=float(row.time_limit)),
        "prerequisite": row.prerequisite_id,
        "is_silent": row.silent_since is not None,
    }


class ThreadedService:
    """The service of the web server, for callers in threads."""

    def __init__(self) -> None:
        self._unstored = UnstoredStates()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="authorities", daemon=True).start()
        self._service = self._wait(self._new())
        self._one_reads = threading.Lock()

    def ask(self, users: Mapping[str, str]) -> list[Answer]:
        """Return the answers of all authorities about the user of each domain."""
        self.refresh()
        answers = self._wait(self._service.ask(users))
        self._unstored.store()
        return answers

    def check(self, facts: Facts) -> Checked:
        """Check the system of a connection. Return the result, with a reason or a remark."""
        self.refresh()
        checked = self._wait(self._service.check(facts))
        self._unstored.store()
        return checked

    def check_all(self) -> dict[_Key, Checked]:
        """Check all connections at the same time."""
        self.refresh()
        found = self._wait(self._service.check_all())
        self._unstored.store()
        return found

    @property
    def snapshot(self) -> Snapshot:
        return self._service.snapshot

    def refresh(self) -> Snapshot:
        """Read the connections if they have changed; return them."""
        with self._one_reads:
            if read_generation() != self._service.snapshot.generation:
                snapshot = read_snapshot()
                self._wait(self._install(snapshot))
            self._unstored.note_stored(read_silent())
            return self._service.snapshot

    async def _new(self) -> Service:
        return new_service(self._unstored)

    async def _install(self, snapshot: Snapshot) -> None:
        self._service.install(snapshot)

    def _wait(self, asked: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()


@functools.cache
def _service_of(_var_dir: object) -> ThreadedService:
    return ThreadedService()


def authority_service() -> ThreadedService:
    """Return the service of this process. The first call makes it."""
    return _service_of(settings.VAR_DIR)


def tokens_of(user: str, *, domain: str = "") -> frozenset[tuple[str, str]]:
    """
    Return the tokens of a user, each with its group, for a search in the documents that the user may see.

    A group whose authority does not answer, or does not know the user, has the deny token (`kind.DENY_TOKEN`), which
    every protected document of the group denies.
    """
    return tokens_of_users({domain: user})


def tokens_of_users(users: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return the tokens of a user who has a name in each of several domains, in the form of `tokens_of`."""
    answers = authority_service().ask(users)
    return frozenset((answer.authority.group, token) for answer in answers for token in tokens_shown(answer))
