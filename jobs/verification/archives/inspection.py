"""The copies of an archive file, as they are: whole, missing, cut, changed, or out of reach. Needs no database."""

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jobs.archive import files
from jobs.archive.copies import Copy, StoredCopy
from jobs.archive.records import Archived, BadArchive, Format, RecordKind, digest_of
from nodes.stores.opening import open_store
from nodes.stores.port import CHUNK, StoreError


class State(enum.StrEnum):
    """The state of a copy. A copy that is `deleted`, `truncated` or `damaged` is a fault."""

    WHOLE = "whole"
    DELETED = "deleted"
    TRUNCATED = "truncated"
    DAMAGED = "damaged"
    UNREACHABLE = "unreachable"


class Row(NamedTuple):
    """The columns of a row with which the content of its record is compared."""

    id: int
    offset: int
    kind: str
    digest: str


@dataclass(frozen=True, slots=True)
class InspectedCopy:
    """A copy with its state. `size` and `sha256` describe its content, if that could be read."""

    place: str
    copy: Copy | None
    state: State
    size: int = 0
    sha256: str = ""

    @property
    def has_content(self) -> bool:
        return self.state in {State.TRUNCATED, State.DAMAGED}


@dataclass(frozen=True, slots=True)
class Compared:
    """
    The rows without their record in a copy. `surplus` counts records without a row, None if the copy is damaged.
    """

    bad: Sequence[Row]
    surplus: int | None


def inspect_local(place: str, root: Path, path: str, *, length: int, sha256: str) -> InspectedCopy:
    """
    Return the copy on this machine.

    The copy is out of reach in two cases: the root is missing or empty, because its disk is not mounted; or the file
    cannot be read, because another account owns it or the disk returns errors. A copy counts as damaged only if its
    content was read.
    """
    local = root / path
    if not files.is_mounted(root):
        return InspectedCopy(place, None, State.UNREACHABLE)
    try:
        size, found = local.stat().st_size, files.sha256_of(local)
    except (FileNotFoundError, NotADirectoryError):
        return InspectedCopy(place, None, State.DELETED)
    except OSError:
        return InspectedCopy(place, None, State.UNREACHABLE)
    return InspectedCopy(place, local, _judge(size, found, length=length, sha256=sha256), size, found)


def inspect_stored(address: str, path: str, *, length: int, sha256: str) -> InspectedCopy:
    """Return the copy in a store. All of it is read, because a store does not notice changed bits."""
    try:
        store = open_store(address)
        stored = store.head(path)
        if stored is None:
            return InspectedCopy(address, None, State.DELETED)
        size, digest = 0, hashlib.sha256()
        for start in range(0, stored.size, CHUNK):
            chunk = b"".join(store.get(path, start, CHUNK))
            size += len(chunk)
            digest.update(chunk)
    except StoreError:
        return InspectedCopy(address, None, State.UNREACHABLE)
    copy = StoredCopy(store, path, size=size)
    return InspectedCopy(
        address, copy, _judge(size, digest.hexdigest(), length=length, sha256=sha256), size, digest.hexdigest()
    )


def compare(copy: Copy, rows: Sequence[Row], *, form: Format) -> Compared:
    """
    Compare the records of a copy with the rows of its file.

    Raises:
        OSError, StoreError: the copy cannot be read.
    """
    try:
        records = {one.offset: _digest_of(one) for one in files.read_all(copy, form)}
    except BadArchive:
        # A damaged record hides those behind it, so each row is looked up by itself.
        return Compared([row for row in rows if not _has_record(copy, row, form)], None)
    bad = [row for row in rows if records.get(row.offset) != (row.kind, row.digest)]
    return Compared(bad, len(records.keys() - {row.offset for row in rows}))


def _has_record(copy: Copy, row: Row, form: Format) -> bool:
    try:
        return _digest_of(files.read_at(copy, row.offset, form)) == (row.kind, row.digest)
    except BadArchive:
        return False


def _digest_of(record: Archived) -> tuple[str, str]:
    """Return the kind of a record and the digest of its content; for a revisit, the digest that it names."""
    if record.kind is RecordKind.RESPONSE:
        return record.kind.value, digest_of(record.body)
    return record.kind.value, record.digest


def _judge(size: int, found: str, *, length: int, sha256: str) -> State:
    if found == sha256:
        return State.WHOLE
    return State.TRUNCATED if size < length else State.DAMAGED
