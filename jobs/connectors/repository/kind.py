"""
The contract of a kind of source: its configuration, its seeding, and the reading of its documents.

A `RepositoryKind` is one object for a process. It knows the specification of a job and names the documents with which a
run begins. A worker creates a `Runtime` from it, with everything that jobs share (open connections, robots.txt). The
runtime creates a `RepositoryConnector` for each job at each version of its specification.
"""

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import psycopg
from django.utils.functional import Promise

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, Reference, RetryLimit, hash_of
from jobs.connectors.schema import Schema
from jobs.lifecycle.scan import Model
from jobs.traps.quarantine import TrapGuard

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BinKind:
    """
    The bins of a kind of source, and their limits without a policy.

    Kinds that send requests to the same hosts share a `namespace`. If `asks_first`, a bin that is not yet known gets a
    single document first. At most `requests` are open at the same time. `gap` is the time between two starts (seconds).
    """

    namespace: str
    asks_first: bool
    requests: int
    gap: float


class BadIdentifier(ValueError):
    """An entered text names no document of this kind of source. The message says why."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """
    The stored settings by which a job reads its source: the configuration of its connection, and its own specification.

    If it `is_confined`, pages or the API stored its connection. `redirects` are the followed redirects of its seeds to
    other hosts, as (source, target). If it `keeps_archive`, outcomes have raw exchanges.
    """

    configuration: Mapping[str, Any] = field(default_factory=dict)
    specification: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[str] = ()
    redirects: Sequence[tuple[str, str]] = ()
    is_confined: bool = False
    keeps_archive: bool = False

    def read(self, kind: "RepositoryKind") -> dict[str, Any]:
        """
        Return the stored values, typed by the fields of this kind. A job's value overrides that of its connection.

        Raises:
            BadSpecification: the fields do not accept the stored values.
        """
        return {**kind.configuration.read(self.configuration), **kind.specification.read(self.specification)}


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: problems by field, and warnings about valid values that are probably mistakes."""

    problems: Mapping[str, list[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """
    The judgement of a job's rules on one identifier, without a request.

    `refusal` is the reason why the rules do not admit it, or "". If they admit it, `rule` says why. The path from a
    seed has at most `max_depth` links. `robots_origin` and `robots_name` identify the robots.txt that applies, and
    the crawler in it; "" for a source without one. `trap_guard` is the mode of the job's trap guard.
    """

    refusal: str = ""
    rule: str = ""
    max_depth: int | None = None
    robots_origin: str = ""
    robots_name: str = ""
    trap_guard: TrapGuard = TrapGuard.OFF


class Rules(Protocol):
    """The rules of a job that decide which identifiers belong to it, compiled for very many identifiers."""

    @property
    def max_depth(self) -> int | None:
        """Return the largest number of links on a path from a seed that the rules allow; None means no limit."""

    def why_not(self, identifier: str) -> str | None:
        """Return the reason why the rules refuse an identifier in its normal form; None if they admit it."""

    def link_to(self, identifier: str) -> str:
        """
        Return the identifier under which a link to this document is stored: this identifier, or another one of the same
        document.
        """


@runtime_checkable
class Ruled(Protocol):
    """A kind whose rules decide from identifiers alone which documents belong to a job."""

    def rules(self, source: SourceSettings) -> Rules:
        """
        Return the rules, made by the same code as in a worker.

        Raises:
            ValueError: the values are not valid.
        """


@runtime_checkable
class ReadsSeedsOtherwise(Protocol):
    """
    A kind that reads its seeds in another way than other documents. An example: the seeds are feeds, and their entries
    are pages.
    """

    @property
    def reads_seeds_otherwise(self) -> bool:
        """True if a document that was read before it became a seed must be read again."""


@runtime_checkable
class Judging(Protocol):
    """A kind that can tell without a request how the rules of a job judge an identifier."""

    def judge(self, source: SourceSettings, identifier: str, *, is_seed: bool) -> Judged:
        """
        Return the judgement, made by the same code as in a worker.

        Raises:
            ValueError: the stored values are no longer valid.
        """


class SeedingFailed(Exception):
    """
    The source could not return its seeds now. The message can be shown as it is.

    A retry may help after `retry_after` seconds, until the `limit` of retries is reached.
    """

    def __init__(self, message: str, *, retry_after: float, limit: RetryLimit | None = None) -> None:
        self.retry_after, self.limit = retry_after, limit
        super().__init__(message)


@dataclass(slots=True)
class Seeding:
    """Collects the documents that a source names when it is seeded, each once."""

    references: dict[str, Reference] = field(default_factory=dict)

    def add(self, identifier: str, *, bin: str) -> None:  # noqa: A002 (the field's name)
        key = hash_of(identifier)
        self.references.setdefault(key, Reference(hash=key, identifier=identifier, bin=bin))


class Pace(Protocol):
    """The worker's control over the speed of a connector. Every request to the source waits for it."""

    async def before_request(self) -> None:
        """
        Wait until the next request of the document's bin may start. An exception ends `process`.
        """

    def request_leaves(self, address: str) -> None:
        """
        Note that a request for this address will be sent soon.

        No other request of the bin may be sent until `request_sent` is called.
        """

    def request_goes(self) -> None:
        """Note that a request leaves now. An exception ends `process`: the request may no longer be sent."""

    def request_sent(self) -> None:
        """
        Note that a request was sent, or will not be sent. The gap to the next request begins now. Repeated calls have
        no effect.
        """

    def bytes_read(self, count: int) -> None:
        """
        Note the number of bytes that were read from the network. If bytes per second are limited, the next request
        waits longer.
        """


class RepositoryConnector(Protocol):
    """One kind of source, configured for one job in one worker process."""

    @property
    def max_depth(self) -> int | None:
        """Return the largest number of links on a path from a seed that the job allows; None means no limit."""

    def interval_of(self, identifier: str) -> float | None:
        """Return the interval that the source demands between two requests (seconds); None if it is unknown."""

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        """Report exactly one ending of the document to the activity."""


@runtime_checkable
class Selective(Protocol):
    """A connector whose job has rules about the documents that belong to it."""

    def admits(self, identifier: str) -> bool:
        """
        True if the job's present rules admit this document as the target of a stored link. Any thread may call this
        method.
        """


@runtime_checkable
class Guarding(Protocol):
    """A connector whose documents have web addresses, so that each job has a mode of the trap guard."""

    @property
    def trap_guard(self) -> TrapGuard:
        """Return the mode of the job's trap guard."""


class Database(Protocol):
    """
    The worker's connection to its database. A call runs the given function in the thread that has this connection.
    """

    def run(self, work: Callable[[psycopg.Connection[Any]], _T]) -> Awaitable[_T]: ...


class Runtime(abc.ABC):
    """
    The shared state of the jobs of one kind in one worker process, created and closed inside its event loop.

    A source without rules of its own (no robots.txt, no delay) implements only `open`.
    """

    @abc.abstractmethod
    def open(self, source: SourceSettings) -> RepositoryConnector:
        """
        Return a connector for a job.

        Raises:
            ValueError: the stored values are no longer valid.
        """

    async def prepare(self, documents: Mapping[str, float], database: Database) -> None:
        """
        Load what other workers have stored about the sources of these documents, before any of them is processed.

        Each identifier comes with the moment, of this process's `time.monotonic()`, at which its run began. Older
        knowledge does not count.
        """
        return

    @property
    def has_news(self) -> bool:
        """True if `store` would write something. The next turn of a bin must not begin before this is written."""
        return False

    def store(self, connection: psycopg.Connection[Any]) -> Callable[[str], bool]:
        """
        Store what this worker has learned about the source, for the other workers. This method runs in the database's
        thread.

        Return a predicate: True if the stored knowledge is about the bin of an identifier.
        """
        return _never

    def address_of(self, identifier: str) -> str | None:
        """
        Return the network address that was used for the document's source; None if there is none, or it is unknown.
        """
        return None

    async def find_address(self, identifier: str) -> str | None:
        """
        Return the network address of the document's source; None if the source is not on a network, or its name cannot
        be resolved.
        """
        return None

    async def close(self) -> None:
        """Close everything that is open."""
        return


def _never(_identifier: str) -> bool:
    return False


class RepositoryKind(Protocol):
    """
    An installed connector, identified by its `name`.

    `configuration` has the fields of a connection. `specification` has the fields of a job, which add to the
    configuration or override it.
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
        Return the identifier that this entered address means.

        Raises:
            BadIdentifier: the address names no document of this kind of source.
        """

    def check(self, source: SourceSettings) -> Checked:
        """
        Return the problems of a job's settings that only the connector can find, without a request to the source.

        `registry.check` calls this method after it has checked the fields that `configuration` and `specification`
        declare.
        """

    def status(self, configuration: Mapping[str, Any]) -> str:
        """Return the reason why the source cannot be reached as configured, as a sentence for people; "" if it can."""

    def seed(self, source: SourceSettings, seeding: Seeding, *, last_version: str) -> str:
        """
        Name the documents with which a run begins, and return the version for the next call.

        `last_version` is the result of the last seeding with a complete run, "" before the first one. This method runs
        in a thread of a manager, without a database, and other jobs do not wait for it.

        Raises:
            SeedingFailed: the source cannot answer now.
        """

    def runtime(self) -> Runtime: ...
