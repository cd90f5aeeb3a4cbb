"""
The documents that a JSON lines file holds. A document is held if the last line with its address is an addition.

The file is read once from its beginning, and later from the last position on. Only the position of the last line and
its version are kept for each document of the chosen buckets.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import psycopg

from jobs.connectors.output.base import Held, OutputError, TooManyDocuments
from jobs.connectors.repository.base import hash_of

# Largest number of documents in one listing. At this number a listing needs about 150 MB.
MOST: Final = 500_000

# This expression finds the address in a line, so that a line of another bucket need not be parsed.
_HEAD: Final = re.compile(rb'\{"action":"(?:add|delete)","url":("(?:[^"\\]|\\.)*")')


class LinesListing:
    """
    The documents of some buckets in a file. `descriptor` is None for a file that was lost and therefore holds nothing.
    """

    def __init__(self, path: Path, descriptor: int | None, buckets: Collection[int]) -> None:
        self._path, self._buckets = path, frozenset(buckets)
        self._file: BinaryIO | None = None if descriptor is None else os.fdopen(descriptor, "rb")
        self._read_to = 0
        # For each document, by the digest of its address: the position of its last line, and the version in this line.
        self._held: dict[bytes, tuple[int, str]] = {}
        self.damaged = 0

    def __iter__(self) -> Iterator[Held]:
        self._read_on()
        for digest, (_, version) in self._held.items():
            yield Held(digest.hex(), "", version, None)

    def look(self, cursor: psycopg.Cursor[Any], hashes: Sequence[str]) -> Mapping[str, Held]:
        self._read_on()
        found = {hash_: self._held.get(bytes.fromhex(hash_)) for hash_ in hashes}
        return {hash_: Held(hash_, self._url_at(place[0]), place[1], None) for hash_, place in found.items() if place}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _read_on(self) -> None:
        """
        Read the complete lines from the last position on. A last line without a line break is skipped: it is being
        written, or its write was interrupted.
        """
        if self._file is None:
            return
        self._check_file(self._file)
        self._file.seek(self._read_to)
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            try:
                self._note(line)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                # A line without a readable address belongs to a bucket by the hash of the line. So only one listing
                # counts it.
                self.damaged += _HEAD.match(line) is not None or self._digest(repr(line)) is not None
            self._read_to += len(line)
            if len(self._held) > MOST and len(self._buckets) > 1:
                raise TooManyDocuments

    def _note(self, line: bytes) -> None:
        head = _HEAD.match(line)
        if head is not None and self._digest(json.loads(head[1])) is None:
            return
        facts = json.loads(line)
        digest = self._digest(facts["url"])
        if digest is None:
            return
        if facts["action"] == "add":
            self._held[digest] = (self._read_to, str(facts["version"]))
        elif facts["action"] == "delete":
            self._held.pop(digest, None)
        else:
            raise ValueError(facts["action"])

    def _digest(self, url: str) -> bytes | None:
        """Return the hash of an address as bytes; None if it is in no chosen bucket."""
        digest = bytes.fromhex(hash_of(url))
        return digest if (digest[0] << 4 | digest[1] >> 4) in self._buckets else None

    def _url_at(self, position: int) -> str:
        assert self._file is not None
        self._file.seek(position)
        return str(json.loads(self._file.readline())["url"])

    def _check_file(self, file: BinaryIO) -> None:
        """
        Check that the path still leads to the open file, and that the file is not shorter than before.

        Raises:
            OutputError: the file was replaced or became shorter.
        """
        mine = os.fstat(file.fileno())
        try:
            now = self._path.lstat()
        except FileNotFoundError:
            now = None
        if now is None or (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or mine.st_size < self._read_to:
            raise OutputError(f"{self._path} was replaced during its verification. Start the verification again.")
