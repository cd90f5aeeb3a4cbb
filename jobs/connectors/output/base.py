"""
The contract between the crawl and a place that holds what was crawled.

An output is written inside the transaction that makes the outcome of a document durable, after the
claims were checked under their locks: an outcome that lost its claim never reaches an output. What
that is worth depends on the output, which says so in its `guarantee`. A *transactional* one commits
and rolls back with the flush. One that is not may have been written by a flush that failed later; the
document is then processed again and written anew, so what was written last is what is true.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import psycopg

from jobs.connectors.repository.base import Content


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One document as an output is given it. `content` is None where it is to be removed.

    `hash` is 32 hex digits; with the output's id it is the key. `url` names the same document in
    what is added and in what is removed.
    """

    hash: str
    url: str
    content: Content | None
    version: str
    fetched_at: dt.datetime


class OutputError(Exception):
    """
    An output cannot take what it is given; the sentence can be shown as it is.

    Nothing that the flush did may stand: it is rolled back. What stands in the way (a full disk, a
    missing directory) may pass, so the documents go back to the queue and are not lost.
    """


class Output(Protocol):
    """
    A place that holds documents, set up for one connection.

    `holds` tells whether it remembers anything: only then does the crawl keep account of what is in
    it. Rows of a `cursor` are named tuples, its transaction is the flush's own.
    """

    @property
    def id(self) -> int: ...

    @property
    def holds(self) -> bool: ...

    @property
    def is_transactional(self) -> bool: ...

    @property
    def guarantee(self) -> str: ...

    def check(self) -> None:
        """
        Look, without changing anything, whether the output could be written now.

        Raises:
            OutputError: it could not; says why.
        """

    def add_or_replace(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        """
        Let the output hold these, each hash at most once, in place of what it held.

        Raises:
            OutputError: it did not take them, none of them.
        """

    def remove(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        """
        Let the output hold these no longer; one that it does not hold is no error.

        Raises:
            OutputError: it removed none of them.
        """

    def job_complete(self) -> None:
        """A run of a job that writes here has finished."""


@runtime_checkable
class Recalls(Protocol):
    """An output that knows the texts of documents that were removed from it, such as a log."""

    def recall(self, urls: Mapping[str, str]) -> Sequence[Entry]:
        """
        Return the last text of these documents (their URLs by hash), if this output still has it.

        Raises:
            OutputError: it cannot be read.
        """


@runtime_checkable
class NoticesLoss(Protocol):
    """An output whose documents can be taken away behind the crawl's back, such as a file."""

    def notice_loss(self, cursor: psycopg.Cursor[Any]) -> None:
        """Look if everything that was written is still there, and report it if it is not. Nothing is written to the output."""


@runtime_checkable
class WritesFile(Protocol):
    """An output that writes a file of this machine: workers check the free room on its disk."""

    @property
    def path(self) -> Path: ...
