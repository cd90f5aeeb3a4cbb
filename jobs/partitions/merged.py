"""
A query, or a change, in the databases of all partitions, for pages, API and commands of the control partition.

A separate thread for each database executes it, as a process of that partition would: Django's connection of the
thread leads there. The connection of a query is read-only. A partition that does not answer in time is named, and no
query asks it again for a while.
"""

import datetime as dt
import heapq
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import django.db
import psycopg
from django.db import connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.models import Q
from django.utils import translation
from psycopg.conninfo import conninfo_to_dict

from jobs.models import PartitionedJob
from jobs.partitions import this_partition
from nodes.errors import Refused, Unknown
from nodes.models.keyset import rows_behind

logger = logging.getLogger(__name__)

# Longest wait (seconds) of a page for all partitions.
ANSWERS_WITHIN: Final = 2.0
# Longest wait (seconds) of an operation for a change in other partitions.
CHANGES_WITHIN: Final = 10.0
# Seconds for which a silent partition gets no query, so that not every page waits for it.
_SECONDS_NOT_ASKED: Final = 10.0
_LAST_RECEIVED: Final = "SELECT max(sent_at) FROM jobs_partitionfact WHERE source = %(name)s AND target = %(here)s"

T = TypeVar("T")
L = TypeVar("L")

# Errors of a statement or of its values. After such an error, the partition counts as silent only if it lacks a table
# or a column of the statement.
_OF_THE_STATEMENT: Final = (
    *(django.db.DataError, django.db.IntegrityError, django.db.NotSupportedError, django.db.ProgrammingError),
    *(psycopg.DataError, psycopg.IntegrityError, psycopg.NotSupportedError, psycopg.ProgrammingError),
)
# Errors of a database whose tables have another version, or whose role lacks a privilege.
_OF_THE_PARTITION: Final = (
    *(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction),
    *(psycopg.errors.InvalidCatalogName, psycopg.errors.InsufficientPrivilege),
)

# The moment (of the monotonic clock) until which an address gets no query.
_silent_until: dict[str, float] = {}


class _LastChange:
    """The moment (of the monotonic clock) of the last change that this process made in another partition."""

    ended_at: float = float("-inf")


class PartitionAway(Refused):
    """A partition does not answer, and the query or the change needs it."""

    code = "partition_away"


@dataclass(frozen=True, slots=True)
class Silent:
    """A partition that did not answer, and the time of the last figures that this partition received from it."""

    name: str
    heard_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Merged(Generic[T]):
    """The answers of this partition and of others by name, and the partitions without an answer."""

    own: T
    others: Mapping[str, T] = field(default_factory=dict)
    silent: Sequence[Silent] = ()


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """A line of a list, and the name of the partition that has it, or "" for this one."""

    line: T
    partition: str = ""


def read_everywhere(
    own: Callable[[], T],
    elsewhere: Callable[[str], T],
    *,
    among: Collection[str] | None = None,
    within: float | None = None,
) -> Merged[T]:
    """
    Return the results of `own` in this partition and of `elsewhere` in each other partition, or only in the partitions
    `among`. Both run at the same time.

    `elsewhere` is called with the name of the partition, in the language of the caller. Only the control partition
    queries others. An answer may take `within` seconds, ANSWERS_WITHIN if that is None; a partition that opens no
    connection in ANSWERS_WITHIN is silent in any case. An error of a query, or of its statement, is raised here.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        return Merged(own())
    addresses = this_partition.addresses()
    others = [name for name in placement.others if among is None or name in among]
    asked = {
        name: _Call(name, addresses[name], elsewhere, within=ANSWERS_WITHIN if within is None else within)
        for name in others
        if not is_known_silent(addresses[name])
    }
    found, answers = _call_all(asked, own)
    missing = [name for name in others if name not in answers]
    return Merged(found, answers, [Silent(name, _last_received_at(name, placement.here)) for name in missing])


def change_elsewhere(change: Callable[[str], T]) -> Merged[T | None]:
    """
    Return the result of `change` in each other partition. Each partition has its own transaction. Only the control
    partition changes others.

    A silent partition may have made the change: its answer can be lost. An error of the change, or of its statement, is
    raised here.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        return Merged(None)
    addresses = this_partition.addresses()
    asked = {
        name: _Call(name, addresses[name], change, within=CHANGES_WITHIN, is_change=True) for name in placement.others
    }
    _own, answers = _call_all(asked, lambda: None)
    missing = [name for name in placement.others if name not in answers]
    return Merged(None, answers, [Silent(name, _last_received_at(name, placement.here)) for name in missing])


def read_in(name: str, read: Callable[[], T], *, within: float | None = None) -> T:
    """
    Return what `read` returns in the database of another partition. Only the control partition queries others.

    Raises:
        Unknown: there is no other partition of this name.
        PartitionAway: the partition does not answer within `within` seconds, or CHANGES_WITHIN if that is None.
    """
    return _ask_one(name, read, within=CHANGES_WITHIN if within is None else within, is_change=False)


def change_in(name: str, change: Callable[[], T]) -> T:
    """
    Return the result of `change` in the database of another partition, which has its own transactions.

    A silent partition may have made the change: its answer can be lost.

    Raises:
        Unknown, PartitionAway: as `read_in`.
    """
    return _ask_one(name, change, within=CHANGES_WITHIN, is_change=True)


def change_in_own_partition(change: Callable[[], T]) -> T:
    """
    Run `change` in the own database of this process, although this thread uses another partition's. Return its result.
    """
    language = translation.get_language()
    answers: list[T] = []
    errors: list[Exception] = []

    def perform() -> None:
        # Each thread has its own Django connection. The connection of this new thread leads to the own database of the
        # process.
        try:
            with translation.override(language), this_partition.inside(""):
                answers.append(change())
        except Exception as error:  # noqa: BLE001 (it is raised by the thread that asked)
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=perform, name="control partition", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]


def _ask_one(name: str, asked: Callable[[], T], *, within: float, is_change: bool) -> T:
    placement = this_partition.placement()
    if placement is None or not placement.is_control or name not in placement.others:
        raise Unknown("partition", name)
    address = this_partition.addresses()[name]
    if not is_change and is_known_silent(address):
        answers: dict[str, T] = {}
    else:
        call = _Call(name, address, lambda _name: asked(), within=within, is_change=is_change)
        _own, answers = _call_all({name: call}, lambda: None)
    if name not in answers:
        raise PartitionAway(f"Partition {name} does not answer. Check it, then try again.")
    return answers[name]


def _call_all(asked: "Mapping[str, _Call[T]]", own: Callable[[], L]) -> tuple[L, dict[str, T]]:
    """
    Send the calls to the other partitions, and execute `own` in this partition meanwhile. Return the result of
    `own`, and the answers that came in time.
    """
    began_at = time.monotonic()
    for call in asked.values():
        call.thread.start()
    try:
        done = own()
    finally:
        for call in asked.values():
            call.thread.join(max(0.0, began_at + call.within - time.monotonic()))
            call.end()
            if call.is_change:
                _LastChange.ended_at = time.monotonic()
    return done, {name: call.answer[0] for name, call in asked.items() if call.has_answered()}


def is_known_silent(address: str) -> bool:
    """True if a database did not answer lately, so that no query may be sent to it yet."""
    return _silent_until.get(address, 0.0) > time.monotonic()


def note_silence(address: str) -> None:
    """Send no queries to a database that did not answer, for a while."""
    _silent_until[address] = time.monotonic() + _SECONDS_NOT_ASKED


def changed_at() -> float:
    """Return the moment (of the monotonic clock) of the last change that this process made in another partition."""
    return _LastChange.ended_at


def merge_lines(
    found: Merged[T], lines: Callable[[T], Iterable[L]], *, key: Callable[[L], Any], is_downwards: bool = False
) -> list[Placed[L]]:
    """
    Return the `lines` of the parts of all partitions.

    Each part has its lines in the order of their keys. Among lines with equal keys, the lines of this partition come
    first.
    """
    parts = {"": found.own, **dict(sorted(found.others.items()))}
    placed = [[Placed(line, name) for line in lines(part)] for name, part in parts.items()]
    return list(heapq.merge(*placed, key=lambda one: key(one.line), reverse=is_downwards))


def rows_of_next_page(
    columns: Sequence[str], last: Sequence[Any], *, downwards: bool, last_partition: str, partition: str
) -> Q:
    """
    Return the filter for rows of a partition behind the last line of a page that `merge_lines` made.

    The last column only distinguishes rows of one database, so it has no meaning in other databases.
    """
    if len(columns) == 1 and partition != last_partition:
        # The keys are equal, so only the order of the partitions decides.
        return Q() if partition > last_partition else Q(pk__in=())
    if partition == last_partition:
        return rows_behind(columns, last, downwards=downwards)
    return rows_behind(columns[:-1], last[:-1], downwards=downwards, or_equal=partition > last_partition)


def local_job(number: int) -> int | None:
    """Return the id that a job of the control partition has in the database of this thread; None if it is unknown."""
    return PartitionedJob.objects.filter(number=number).values_list("job_id", flat=True).first()


def numbers_of(jobs: set[int]) -> dict[int, int]:
    """Return the ids in the control partition of jobs in the database of this thread."""
    return dict(PartitionedJob.objects.filter(job_id__in=jobs).values_list("job_id", "number"))


class _Call(Generic[T]):
    """
    A query, or a change, in the database of one other partition: the thread that executes it, and its answer or error.
    """

    def __init__(
        self, name: str, address: str, read: Callable[[str], T], *, within: float, is_change: bool = False
    ) -> None:
        self._name, self._address, self._read = name, address, read
        self.within, self.is_change = within, is_change
        self._language = translation.get_language()
        self.answer: list[T] = []
        self._error: Exception | None = None
        self._connection: DatabaseWrapper | None = None
        self.thread = threading.Thread(target=self._ask, name=f"partition {name}", daemon=True)

    def _ask(self) -> None:
        # Connections of Django belong to threads, so this changes no connection of another thread.
        connections[django.db.DEFAULT_DB_ALIAS] = self._connection = _connection_to(
            self._address, within=self.within, is_change=self.is_change
        )
        try:
            with translation.override(self._language), this_partition.inside(self._name):
                # Connect first: a failed connection counts as silence, even if the query would handle such an error
                # itself.
                self._connection.ensure_connection()
                self.answer.append(self._read(self._name))
        except Exception as error:  # noqa: BLE001 (it is raised or logged by the thread that asked)
            self._error = error
        finally:
            self._connection.close()

    def end(self) -> None:
        """End a call that takes too long: its thread would wait for a server that may never answer."""
        opened = self._connection
        if self.thread.is_alive() and opened is not None and opened.connection is not None:
            opened.connection.close()

    def has_answered(self) -> bool:
        """
        True if the answer came in time.

        Raises:
            Exception: the query or its statement failed. A note of the error names the partition.
        """
        if self.answer:
            return True
        if self._error is not None and not _is_silence(self._error):
            self._error.add_note(f"This is an error of a call to partition {self._name}.")
            raise self._error
        logger.warning("partition %s does not answer: %s", self._name, str(self._error or "it took too long").strip())
        if not self.is_change:
            note_silence(self._address)
        return False


def _is_silence(error: Exception) -> bool:
    """True if the error shows that the database of the partition does not answer, or lacks what the query needs."""
    if not isinstance(error, (django.db.Error, psycopg.Error)):
        return False
    of_the_driver = error if isinstance(error, psycopg.Error) else error.__cause__
    return not isinstance(error, _OF_THE_STATEMENT) or isinstance(of_the_driver, _OF_THE_PARTITION)


def _connection_to(address: str, *, within: float, is_change: bool) -> DatabaseWrapper:
    facts: dict[str, Any] = dict(conninfo_to_dict(address))
    read_only = "off" if is_change else "on"
    options = {
        "connect_timeout": int(ANSWERS_WITHIN),
        "options": f"-c default_transaction_read_only={read_only} -c statement_timeout={int(within * 1000)}",
    }
    known = {name.upper(): facts.pop(name, None) or "" for name in ("user", "password", "host", "port")}
    of_this = connections[django.db.DEFAULT_DB_ALIAS].settings_dict
    settings = {**of_this, **known, "NAME": facts.pop("dbname", ""), "OPTIONS": facts | options, "CONN_MAX_AGE": 0}
    return DatabaseWrapper(settings, alias=django.db.DEFAULT_DB_ALIAS)


def _last_received_at(name: str, here_: str) -> dt.datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(_LAST_RECEIVED, {"name": name, "here": here_})
        ((heard_at,),) = cursor.fetchall()
    return heard_at  # type: ignore[no-any-return]
