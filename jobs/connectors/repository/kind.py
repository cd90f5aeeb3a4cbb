"""
What a kind of source is: how it is set up, seeded and read.

A `RepositoryKind` is one object for a process; it knows what a job may ask for and names what a run
begins with. A worker makes a `Runtime` of it, where what jobs share lives (open connections, what hosts
said of themselves), and with that a `RepositoryConnector` for each job at each version of its
specification.
"""

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import psycopg
from django.utils.functional import Promise

from jobs.connectors.repository.base import Activity, Document, Reference, RetryLimit, hash_of
from jobs.connectors.schema import Schema
from jobs.lifecycle.scan import Model

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BinKind:
    """
    The bins of a kind of source, and how they are treated where no policy says anything.

    Kinds that ask the same hosts share a `namespace`. `asks_first` says that of a bin that nobody knows, one
    document is handed out alone. At most `requests` are open at once; `gap` seconds lie between two starts.
    """

    namespace: str
    asks_first: bool
    requests: int
    gap: float


class BadIdentifier(ValueError):
    """What somebody typed names no document of this kind of source; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """
    A job's request to a source, as it is stored: the configuration of its connection, and its own specification.

    If it `is_confined`, pages or the API stored its connection. `redirects` are those of its seeds that were followed to other hosts, as (source, target).
    """

    configuration: Mapping[str, Any] = field(default_factory=dict)
    specification: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[str] = ()
    redirects: Sequence[tuple[str, str]] = ()
    is_confined: bool = False

    def read(self, kind: "RepositoryKind") -> dict[str, Any]:
        """
        Return the stored values, typed by the fields of this kind. A job's value overrides that of its connection.

        Raises:
            BadSpecification: the fields do not accept the stored values.
        """
        return {**kind.configuration.read(self.configuration), **kind.specification.read(self.specification)}


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong, by field, and warnings about what is legal and probably not meant."""

    problems: Mapping[str, list[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()


class SeedingFailed(Exception):
    """
    The source could not be asked for its seeds now; the sentence can be shown as it is.

    Trying again may help after `retry_after` seconds, until `limit`.
    """

    def __init__(self, message: str, *, retry_after: float, limit: RetryLimit | None = None) -> None:
        self.retry_after, self.limit = retry_after, limit
        super().__init__(message)


@dataclass(slots=True)
class Seeding:
    """Collects what a source names when it is seeded; each document once."""

    references: dict[str, Reference] = field(default_factory=dict)

    def add(self, identifier: str, *, bin: str) -> None:  # noqa: A002 (the field's word)
        key = hash_of(identifier)
        self.references.setdefault(key, Reference(hash=key, identifier=identifier, bin=bin))


class Pace(Protocol):
    """The worker's hold on a connector: every request to the source begins behind it."""

    async def before_request(self) -> None:
        """Return when the next request of the document's bin may start. What it raises ends `process`."""

    def request_leaves(self) -> None:
        """Say that it is about to go out, and may not have yet: until `request_sent` no other one of the bin may."""

    def request_goes(self) -> None:
        """Say that it goes out at once. What this raises ends `process`: by now it may not be sent any more."""

    def request_sent(self) -> None:
        """Say that it has gone out, or never will: the gap to the next one counts from here. More than once is once."""

    def bytes_read(self, count: int) -> None:
        """Say how much it has read, as it came over the wire: where bytes are limited, the next one waits for it."""


class RepositoryConnector(Protocol):
    """One kind of source, set up for one job in one worker process."""

    @property
    def max_depth(self) -> int | None:
        """The longest way from a seed, in links, that the job allows; None is no limit."""

    def interval_of(self, identifier: str) -> float | None:
        """The seconds between two requests that the source asks for, as far as that is known by now."""

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        """Say exactly one ending of the document to the activity."""


@runtime_checkable
class Selective(Protocol):
    """A connector whose job has rules about which documents belong to it."""

    def admits(self, identifier: str) -> bool:
        """True if the job's present rules let a stored link name this document. Any thread may ask."""


class Database(Protocol):
    """The worker's way to its database: the function runs in the database's thread."""

    def run(self, work: Callable[[psycopg.Connection[Any]], _T]) -> Awaitable[_T]: ...


class Runtime(abc.ABC):
    """
    What the jobs of one kind share in one worker process; made and closed inside its event loop.

    A source that says nothing of itself (no robots.txt, no delay) has nothing to do but `open`.
    """

    @abc.abstractmethod
    def open(self, asked: Asked) -> RepositoryConnector:
        """
        Set the source up for a job.

        Raises:
            ValueError: what was stored cannot be read any more.
        """

    async def prepare(self, documents: Mapping[str, float], database: Database) -> None:
        """
        Know of these documents what other workers know, before any of them is processed.

        Each identifier comes with the moment, of this process' `time.monotonic()`, at which its run began:
        what is older does not count.
        """
        return

    @property
    def has_news(self) -> bool:
        """Whether `store` would write something: a bin's next turn must not begin before."""
        return False

    def store(self, connection: psycopg.Connection[Any]) -> Callable[[str], bool]:
        """
        Store what was learned of the source, for the other workers; in the database's thread.

        Returns whether there is something new about the bin of an identifier.
        """
        return _is_about_nothing

    def address_of(self, identifier: str) -> str | None:
        """The network address that the document's source was asked at, if it has one."""
        return None

    async def find_address(self, identifier: str) -> str | None:
        """The network address at which the document's source would be asked; None if it has none, or is not found."""
        return None

    async def close(self) -> None:
        """Let go of what is open."""
        return


def _is_about_nothing(_identifier: str) -> bool:
    return False


class RepositoryKind(Protocol):
    """
    A connector as it is installed, known by its `name`.

    `configuration` is what a connection may say, `specification` what a job may say beside it or instead.
    """

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str | Promise: ...

    @property
    def model(self) -> Model: ...

    @property
    def link_types(self) -> tuple[str, ...]: ...

    @property
    def bins(self) -> BinKind: ...

    @property
    def configuration(self) -> Schema: ...

    @property
    def specification(self) -> Schema: ...

    def canonical(self, typed: str) -> str:
        """
        The identifier that somebody means by this address.

        Raises:
            BadIdentifier
        """

    def check(self, asked: Asked) -> Checked:
        """
        Return the problems of a job's request that only the connector can find, without a request to the source.

        `registry.check` has checked the fields before, as `configuration` and `specification` declare them.
        """

    def status(self, configuration: Mapping[str, Any]) -> str:
        """Look whether the source can be reached as configured: "" if so, else a sentence; for people only."""

    def seed(self, asked: Asked, seeding: Seeding, *, last_version: str) -> str:
        """
        Name the documents that a run begins with, and return the version to be given next time.

        `last_version` is what the last seeding returned that was followed by a whole run, "" from the
        beginning. In a thread of a manager that has no database; other jobs do not wait for it.

        Raises:
            SeedingFailed: the source cannot say it now.
        """

    def runtime(self) -> Runtime: ...
