"""Reads one part of an archive file, unless the result of an earlier run is still valid."""

import json
import os
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import IO, Final, Self

from jobs.archive.scanning import Part, scan
from jobs.connectors.repository.archive.library import Library, signature_of
from jobs.connectors.repository.archive.places import Place
from jobs.connectors.repository.filesystem.tree import TreeError

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class KnownPart:
    """
    The stored facts of a part that was read under a configuration of the job.

    `signature` is the signature of the file, "" if it is uncertain. `digest` is the digest of the part's bytes. If it
    `has_next`, another part begins at its `end`.
    """

    configuration: str
    signature: str
    end: int
    digest: str
    has_next: bool
    code: str

    @classmethod
    def read(cls, stored: str, *, configuration: str) -> Self | None:
        facts = json.loads(stored or "null")
        known = cls(*facts) if isinstance(facts, list) else None
        return known if known is not None and known.configuration == configuration else None

    @property
    def stored(self) -> str:
        return json.dumps([self.configuration, self.signature, self.end, self.digest, self.has_next, self.code])


@dataclass(frozen=True, slots=True)
class ReadPart:
    """
    A part as it is now. `part` is None if the earlier result is still valid. `size` is the number of bytes that were
    scanned.
    """

    known: KnownPart
    part: Part | None = None
    size: int = 0


def read_part(library: Library, place: Place, known: KnownPart | None, *, configuration: str) -> ReadPart | None:
    """
    Read the part of a file that begins at a place; None if the file is not an archive.

    An earlier result is still valid if the file has the same signature. It is also valid if the part is not the last
    one and has the same bytes, because archives grow at their end.

    Raises:
        NotByRecord: all records of the file are in one gzip member.
        TreeError: the file cannot be read, or is shorter than it was.
    """
    with library.opened(place.path) as file:
        signature, is_settled = signature_of(file)
        stored = signature if is_settled else ""
        if known is not None and known.signature == signature:
            return ReadPart(known)
        if known is not None and known.has_next and _digest_of(file, place.start, known.end) == known.digest:
            return ReadPart(replace(known, signature=stored))
        size = file.seek(0, os.SEEK_END)
        if place.start and place.start >= size:
            raise TreeError("NOT_FOUND", "the file is shorter than it was")
        part = scan(file, place.start)
        if part is None:
            return None
        has_next = not part.is_torn and part.end < size
        code = "ARCHIVE_DAMAGED" if part.bad or part.is_torn else "ARCHIVE"
        digest = _digest_of(file, place.start, part.end)
        if signature_of(file)[0] != signature:
            # The file has changed during the read. So no signature is stored, and the next run reads its end again.
            stored = ""
        return ReadPart(
            KnownPart(configuration, stored, part.end, digest, has_next, code), part, part.end - place.start
        )


def _digest_of(file: IO[bytes], start: int, end: int) -> str:
    """Return the digest of the bytes in a range of a file."""
    digest, left = blake2b(digest_size=16), end - start
    file.seek(start)
    while left > 0 and (piece := file.read(min(_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest() if left == 0 else ""
