"""
The write-ahead log in a store: segments of the servers, and the histories of their timelines.

A segment is compressed with a checksum, and sealed if there is a passphrase. The key of a segment may contain the time
that a restore reaches with the log up to this segment. So a list of the keys shows the times to which the database can
be restored.
"""

import contextlib
import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backports import zstd

from crawlctl.backups import catalogue
from crawlctl.backups.descriptions import Backup
from crawlctl.backups.errors import Damaged
from crawlctl.backups.sealing import Sealer
from nodes.stores.port import KeyMissing, Store

FOLDER: Final = "wal"
# Folder of the numbers of timelines that restores have reserved (`lineage.py`).
RESTORES: Final = "restores"
SEGMENT_BYTES: Final = 16 * 1024 * 1024
SEGMENT_NAME: Final = re.compile(r"[0-9A-F]{24}")
HISTORY_NAME: Final = re.compile(r"[0-9A-F]{8}\.history")

_KEY: Final = re.compile(r"(?P<name>[0-9A-F]{24})(~(?P<reached>[0-9T]+\.[0-9]+Z))?\.zst(?P<sealed>\.sealed)?")
_MOMENT: Final = "%Y%m%dT%H%M%S.%fZ"
_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.checksum_flag: 1,
    zstd.CompressionParameter.compression_level: 3,
}
# Size of the parts of a segment (bytes). A part of zeros is left out of the restored file, which is sparse.
_HOLE: Final = 64 * 1024
# Largest size of a history, and of the note of a restore (bytes).
_LARGEST_NOTE: Final = 1024 * 1024


@dataclass(frozen=True)
class Segment:
    """
    A stored segment. `reached` is the time that a restore reaches with the segments up to this one; None if unknown.
    """

    timeline: int
    number: int
    name: str
    key: str
    size: int
    reached: dt.datetime | None
    is_sealed: bool


@dataclass(frozen=True)
class Log:
    """
    The stored log of one server.

    `histories` has the ancestors of each timeline with the positions at which they ended, oldest first. `opened` has the
    times at which restores opened timelines.
    """

    segments: dict[tuple[int, int], Segment] = field(default_factory=dict)
    histories: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    opened: dict[int, dt.datetime] = field(default_factory=dict)


def number_of(name: str, *, segment_bytes: int) -> int:
    """Return the number of a segment by the name of its file."""
    return int(name[8:16], 16) * (0x1_0000_0000 // segment_bytes) + int(name[16:24], 16)


def name_of(timeline: int, number: int, *, segment_bytes: int) -> str:
    """Return the name of the file of a segment."""
    of_each = 0x1_0000_0000 // segment_bytes
    return f"{timeline:08X}{number // of_each:08X}{number % of_each:08X}"


def position(lsn: str) -> int:
    """Return a position in the log, such as 0/3000028, as a number."""
    high, _, low = lsn.partition("/")
    return int(high, 16) * 0x1_0000_0000 + int(low, 16)


def store_segment(store: Store, system: str, path: Path, *, reached: dt.datetime | None, sealer: Sealer | None) -> None:
    """Store a closed segment, unless the store has it already."""
    prefix = f"{FOLDER}/{system}/{path.name}"
    if any(_KEY.fullmatch(listed.key.rsplit("/", 1)[1]) for listed in store.list(prefix)):
        return
    content = zstd.compress(path.read_bytes(), options=_OPTIONS)
    if sealer is not None:
        content = sealer.seal(content, name=path.name)
    moment = f"~{reached.astimezone(dt.UTC):{_MOMENT}}" if reached else ""
    catalogue.stored_content(store, f"{prefix}{moment}.zst{'.sealed' if sealer else ''}", content)


def store_history(store: Store, system: str, path: Path) -> None:
    """Store the history of a timeline, unless the store has it already."""
    key = f"{FOLDER}/{system}/{path.name}"
    if store.head(key) is None:
        catalogue.stored_content(store, key, path.read_bytes())


def read_log(store: Store, system: str, *, segment_bytes: int = SEGMENT_BYTES) -> Log:
    """
    Return the stored log of a server.

    Raises:
        Damaged: a key, a history or a note of a restore is invalid.
    """
    log = Log()
    for listed in store.list(f"{FOLDER}/{system}/"):
        name = listed.key.rsplit("/", 1)[1]
        if HISTORY_NAME.fullmatch(name):
            with _damage_named(store, listed.key):
                log.histories[int(name[:8], 16)] = _ancestors(_small(store, listed.key).decode())
        elif found := _KEY.fullmatch(name):
            timeline = int(name[:8], 16)
            number = number_of(found["name"], segment_bytes=segment_bytes)
            reached = None
            if found["reached"]:
                with _damage_named(store, listed.key):
                    reached = dt.datetime.strptime(found["reached"], _MOMENT).replace(tzinfo=dt.UTC)
            log.segments[timeline, number] = Segment(
                timeline=timeline, number=number, name=found["name"], key=listed.key, size=listed.size,
                reached=reached, is_sealed=bool(found["sealed"]),
            )  # fmt: skip
    for listed in store.list(f"{RESTORES}/{system}/"):
        with _damage_named(store, listed.key):
            timeline = int(listed.key.rsplit("/", 1)[1])
            restore = json.loads(_small(store, listed.key))
            if "at" in restore:
                log.opened[timeline] = dt.datetime.fromisoformat(restore["at"]).astimezone(dt.UTC)
    return log


@contextlib.contextmanager
def _damage_named(store: Store, key: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        raise Damaged(f"{key} in {store.address} is damaged. Delete it, or put back the file of that name") from None


def _small(store: Store, key: str) -> bytes:
    content = b"".join(store.get(key, length=_LARGEST_NOTE + 1))
    if len(content) > _LARGEST_NOTE:
        raise ValueError(key)
    return content


def history_text(store: Store, system: str, timeline: int) -> bytes:
    """Return the history of a timeline as it is stored."""
    return b"".join(store.get(f"{FOLDER}/{system}/{timeline:08X}.history"))


def _ancestors(history: str) -> list[tuple[int, int]]:
    lines = (line.split() for line in history.splitlines() if line.strip() and not line.startswith("#"))
    return [(int(words[0]), position(words[1])) for words in lines]


def fetch_segment(store: Store, segment: Segment, path: Path, *, sealer: Sealer, segment_bytes: int) -> None:
    """
    Write a segment to the path, as a sparse file.

    Raises:
        Damaged: the segment is missing or was changed.
        Unusable: the content is sealed, and the passphrase is missing or wrong.
    """
    try:
        content = b"".join(store.get(segment.key))
    except KeyMissing:
        raise Damaged(f"{segment.key} is missing in {store.address}") from None
    if segment.is_sealed:
        content = sealer.unseal(content, name=segment.name)
    try:
        content = zstd.decompress(content)
    except zstd.ZstdError as error:
        raise Damaged(f"{segment.key} in {store.address} was changed: {error}") from None
    if len(content) != segment_bytes:
        raise Damaged(f"{segment.key} in {store.address} has {len(content)} bytes, and {segment_bytes} were expected")
    empty = bytes(_HOLE)
    with path.open("xb") as file:
        file.truncate(len(content))
        for start in range(0, len(content), _HOLE):
            part = content[start : start + _HOLE]
            if part != empty:
                file.seek(start)
                file.write(part)


def prune(store: Store, kept: Iterable[Backup]) -> int:
    """Delete the segments before the oldest of these backups of their server. Return their number."""
    firsts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for backup in kept:
        if backup.start_lsn:
            first = position(backup.start_lsn) // backup.segment_bytes
            firsts[backup.system] = min(first, firsts.get(backup.system, first))
            sizes[backup.system] = backup.segment_bytes
    deleted = 0
    for system, first in firsts.items():
        for segment in read_log(store, system, segment_bytes=sizes[system]).segments.values():
            if segment.number < first:
                store.delete(segment.key)
                deleted += 1
    return deleted
