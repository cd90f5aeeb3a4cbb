"""
The location of an answer in an archive: the value that a part of an archive file carries to the documents whose answers
it contains.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote_to_bytes

from jobs.archive.records import RecordKind
from jobs.archive.scanning import Found


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """An answer in a file. Locations are ordered by date, then by place in the file."""

    date: dt.datetime
    path: bytes
    offset: int
    kind: RecordKind
    status: int
    is_truncated: bool
    fingerprint: str

    @classmethod
    def of(cls, found: Found, path: bytes) -> Self:
        return cls(found.date, path, found.offset, found.kind, found.status, found.is_truncated, found.fingerprint)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the location of a text that `text` returned."""
        date, offset, kind, status, mark, fingerprint, path = text.split(" ")
        moment, where = dt.datetime.fromisoformat(date), unquote_to_bytes(path)
        return cls(moment, where, int(offset), RecordKind(kind), int(status), mark == "cut", fingerprint)

    @property
    def text(self) -> str:
        mark = "cut" if self.is_truncated else "whole"
        path = quote(self.path)
        return f"{self.date.isoformat()} {self.offset} {self.kind} {self.status} {mark} {self.fingerprint} {path}"

    @property
    def has_body(self) -> bool:
        """True if the record itself holds the complete body of a success."""
        return self.kind is RecordKind.RESPONSE and 200 <= self.status < 300 and not self.is_truncated

    @property
    def may_be_read(self) -> bool:
        """True for a success, and for a not-modified answer, which repeats the success before it."""
        return 200 <= self.status < 300 or self.kind is RecordKind.NOT_MODIFIED
