"""
Finds the bodies of revisits that refer to other addresses. The first of these revisits builds an index of the archive.

The index is a temporary file of this process. It holds only answers whose records have a body. So a revisit never leads
to another revisit, and records that refer to each other cause no endless search.
"""

import datetime as dt
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

from jobs.archive.records import Original
from jobs.archive.scanning import Found, NotByRecord, scan
from jobs.connectors.repository.archive.library import Library, signature_of
from jobs.connectors.repository.archive.locations import Location
from jobs.connectors.repository.archive.places import Place
from jobs.connectors.repository.filesystem.tree import TreeError

logger = logging.getLogger(__name__)

# Least time between two searches for new files (seconds).
_SEARCH_PAUSE: Final = 30.0


class Originals:
    """Finds answers by their address and date, or by the digest of their payload. Any thread may ask."""

    def __init__(self, library: Library, places: Sequence[Place]) -> None:
        self._library = library
        self._places = places
        self._lock = threading.Lock()
        self._index: sqlite3.Connection | None = None
        self._files: dict[bytes, str] = {}
        self._searched_at = -_SEARCH_PAUSE

    def find(self, original: Original | None, digest: str) -> Location | None:
        """Return the answer that a revisit names, or else an answer with the same payload; None if neither exists."""
        keys = [] if original is None else [_key(original.url, _second(original.date))]
        if digest:
            keys.append(_key(digest.upper()))
        with self._lock:
            found = self._find(keys)
            if found is None and time.monotonic() - self._searched_at >= _SEARCH_PAUSE:
                self._read_files()
                self._searched_at = time.monotonic()
                found = self._find(keys)
        return found

    def _find(self, keys: Sequence[bytes]) -> Location | None:
        if self._index is not None:
            for key in keys:
                row = self._index.execute("SELECT location FROM answer WHERE key = ? LIMIT 1", (key,)).fetchone()
                if row is not None:
                    return Location.read(row[0])
        return None

    def _read_files(self) -> None:
        if self._index is None:
            # SQLite opens a temporary file for the name "", and deletes it when the connection is closed.
            self._index = sqlite3.connect("", check_same_thread=False, isolation_level=None)
            self._index.execute("CREATE TABLE answer (key BLOB, path BLOB, location TEXT)")
            self._index.execute("CREATE INDEX answer_key ON answer (key)")
        for place in self._places:
            try:
                for path in self._library.files_at(place):
                    self._read_file(self._index, path)
            except TreeError as error:
                logger.warning("cannot search %s for the bodies of revisits: %s", place.identifier, error)

    def _read_file(self, index: sqlite3.Connection, path: bytes) -> None:
        try:
            with self._library.opened(path) as file:
                signature = signature_of(file)[0]
                if self._files.get(path) == signature:
                    return
                index.execute("BEGIN")
                index.execute("DELETE FROM answer WHERE path = ?", (path,))
                start = 0
                while (part := scan(file, start)) is not None:
                    index.executemany("INSERT INTO answer VALUES (?, ?, ?)", _rows(part.found, path))
                    if part.is_torn or part.end <= start:
                        break
                    start = part.end
                index.execute("COMMIT")
                self._files[path] = signature
        except (TreeError, NotByRecord, sqlite3.Error) as error:
            # An error of SQLite is handled in the same way, because the disk with temporary files may be full.
            logger.warning("cannot search an archive file for the bodies of revisits: %s", error)
        finally:
            # An open transaction would prevent the read of the next file.
            if index.in_transaction:
                index.execute("ROLLBACK")


def _rows(found: Sequence[Found], path: bytes) -> Iterator[tuple[bytes, bytes, str]]:
    for answer in found:
        location = Location.of(answer, path)
        if location.has_body:
            text = location.text
            yield _key(answer.url, _second(answer.date)), path, text
            if answer.digest:
                yield _key(answer.digest.upper()), path, text


def _second(date: dt.datetime) -> str:
    """
    Return a date in whole seconds, because two formats may store the same date with different fractions of a second.
    """
    return f"{date.timestamp():.0f}"


def _key(*parts: str) -> bytes:
    return blake2b("\n".join(parts).encode(errors="replace"), digest_size=16).digest()
