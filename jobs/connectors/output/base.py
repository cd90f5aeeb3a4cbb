"""
The contract between the crawl and a destination of crawled documents.

An output is written inside the transaction that makes the outcome of a document durable, after the claims were checked
under their locks. So an outcome that lost its claim never reaches an output. A *transactional* output commits and rolls
back with the flush. Any other output may have been written by a flush that failed later. The document is then processed
and written again, so the last write is the valid one.
"""

import datetime as dt
import errno
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import psycopg

from jobs.connectors.repository.base import Content


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One document for an output. `content` is None if the document is to be removed.

    `hash` has 32 hex digits. Together with the id of the output, it is the key of the document. `url` is the same for
    additions and removals of a document.
    """

    hash: str
    url: str
    content: Content | None
    version: str
    fetched_at: dt.datetime


class OutputError(Exception):
    """
    An output cannot accept a write. The message can be shown as it is.

    The whole flush must be rolled back. The cause (a full disk, a missing directory) may pass, so the documents return
    to the queue and are not lost. `disk` is a folder on the disk that is full or read-only; None if the disk is not the
    cause.
    """

    def __init__(self, message: str, *, disk: Path | None = None) -> None:
        super().__init__(message)
        self.disk = disk


# Errors that end when the disk has free space or is writable again. crawlctl can notice both without a write.
PASSING_ERRORS: Final = frozenset({errno.ENOSPC, errno.EROFS})


class Output(Protocol):
    """
    A destination of documents, configured for one connection.

    `holds` is True if the output keeps documents. Only then does the crawl record its content. Each `cursor` belongs to
    the transaction of the flush, and returns named tuples.
    """

    @property
    def id(self) -> int: ...

    @property
    def holds(self) -> bool: ...

    @property
    def is_transactional(self) -> bool: ...

    def check(self) -> None:
        """
        Check, without changing anything, whether the output could be written now.

        Raises:
            OutputError: the output could not be written. The message says why.
        """

    def add_or_replace(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        """
        Store these entries, each hash at most once, in place of their earlier versions.

        Raises:
            OutputError: the output stored none of them.
        """

    def remove(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        """
        Remove these entries. An entry that the output does not hold is not an error.

        Raises:
            OutputError: the output removed none of them.
        """

    def job_complete(self) -> None:
        """Note that a run of a job that writes to this output has finished."""


@runtime_checkable
class Recalls(Protocol):
    """An output that still knows the texts of documents that were removed from it, such as a log."""

    def recall(self, urls: Mapping[str, str]) -> Sequence[Entry]:
        """
        Return the last text of these documents (their URLs by hash), if this output still has it.

        Raises:
            OutputError: the output cannot be read.
        """


@dataclass(frozen=True, slots=True)
class Held:
    """
    A document that an output holds.

    `version` is the version that was written. If the output does not store versions, `version` is None, and `moment` is
    the time of the write. `url` may be empty in a listing, but not in the result of `Listing.look`.
    """

    hash: str
    url: str
    version: str | None
    moment: dt.datetime | None


class TooManyDocuments(Exception):
    """A listing would need too much memory. The caller asks for fewer buckets."""


class Listing(Protocol):
    """The documents of some buckets (`jobs.connectors.output.buckets`) that an output holds."""

    @property
    def damaged(self) -> int:
        """Return the number of unreadable entries that the listing has found so far."""
        ...

    def __iter__(self) -> Iterator[Held]:
        """
        Yield each document once.

        Raises:
            OutputError: the output cannot be read.
            TooManyDocuments: the buckets have too many documents.
        """
        ...

    def look(self, cursor: psycopg.Cursor[Any], hashes: Sequence[str]) -> Mapping[str, Held]:
        """
        Return those of these documents that the output holds now. Every write that has ended is visible.

        Raises:
            OutputError: the output cannot be read.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Lists(Protocol):
    """
    An output that can list what it holds, so that it can be verified.

    `buckets_at_once` is the number of buckets that one listing should have. It is large for an output that must be read
    as a whole for each listing.
    """

    @property
    def buckets_at_once(self) -> int: ...

    def open_listing(self, cursor: psycopg.Cursor[Any], buckets: Collection[int]) -> Listing:
        """
        Return a listing of these buckets.

        Raises:
            OutputError: the output cannot be read from this machine.
        """
        ...


@runtime_checkable
class NoticesLoss(Protocol):
    """An output whose documents may disappear without a removal by the crawl, such as a file."""

    def notice_loss(self, cursor: psycopg.Cursor[Any]) -> None:
        """Check that everything written is still there, and report a loss. This method writes nothing to the output."""


@runtime_checkable
class WritesFile(Protocol):
    """An output that writes a file on this machine. Workers check the free space on the disk of the file."""

    @property
    def path(self) -> Path: ...
