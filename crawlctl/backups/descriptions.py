"""
The descriptions of backups. A store may return anything under their keys, so each value is checked before it is used.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

FOLDER: Final = "base"
SEALED_DATA: Final = "data.tar.zst.sealed"
# Bytes.
LARGEST_DESCRIPTION: Final = 64 * 1024
_LARGEST_SIZE: Final = 2**63 - 1
_LSN: Final = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# Pattern of the names of servers, which are parts of keys.
_WORD: Final = re.compile(r"(?!\.)[A-Za-z0-9_.+-]{1,100}")
# Identity of an unknown server: a part of keys, so it is not empty.
_UNKNOWN_SYSTEM: Final = "unknown"
# Sizes of a segment that PostgreSQL allows (bytes).
_SEGMENT_SIZES: Final = frozenset(2**power for power in range(20, 31))


@dataclass(frozen=True)
class File:
    """A stored file of a backup."""

    key: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Backup:
    """The description of a backup. Times are in UTC, in the form of ISO 8601."""

    name: str
    version: str
    server_version: str
    system: str
    timeline: int
    incarnation: str
    started: str
    ended: str
    bytes: int
    data: File
    # None: the secret key is not in the backup.
    sealed: File | None
    # The first and the last position of the write-ahead log that the backup needs; '' in old backups.
    start_lsn: str = ""
    end_lsn: str = ""
    segment_bytes: int = 16 * 1024 * 1024

    @property
    def ended_at(self) -> dt.datetime:
        return dt.datetime.fromisoformat(self.ended)

    @property
    def has_sealed_data(self) -> bool:
        """True if the copy of the database is sealed. Older versions sealed the secret key only."""
        return self.data.key.endswith(f"/{SEALED_DATA}")


def described(description: Mapping[str, Any], *, name: str) -> Backup:
    """
    Return the backup that a description shows.

    Raises:
        ValueError, KeyError, TypeError: a value is missing or invalid.
    """
    known = {field.name: description[field.name] for field in fields(Backup) if field.name in description}
    for field, is_valid in _VALID.items():
        if field in known and not is_valid(known[field]):
            raise ValueError(field)
    if known["name"] != name:
        raise ValueError("name")
    known["data"] = _file(known["data"], name=name)
    known["sealed"] = None if known["sealed"] is None else _file(known["sealed"], name=name)
    # The oldest backups have no identity of their server.
    known["system"] = known["system"] or _UNKNOWN_SYSTEM
    return Backup(**known)


def _file(description: Mapping[str, Any], *, name: str) -> File:
    file = File(key=description["key"], size=description["size"], sha256=description["sha256"])
    folder, _, last = file.key.rpartition("/")
    # Refuse a file of another backup, and a path that leads out of the folder of backups.
    if folder != f"{FOLDER}/{name}" or not _is_word(last):
        raise ValueError("key")
    if not _is_size(file.size) or not _matches(_SHA256, file.sha256):
        raise ValueError("size")
    return file


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_word(value: object) -> bool:
    return _matches(_WORD, value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 200 and value.isprintable()


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST_SIZE


def _is_moment(value: object) -> bool:
    if not isinstance(value, str):
        return False
    found = dt.datetime.fromisoformat(value)
    # The first and the last day of the calendar have no time in some zones.
    return found.tzinfo is not None and 2 <= found.year <= 9998


def _is_position(value: object) -> bool:
    return value == "" or _matches(_LSN, value)


_VALID: Final[Mapping[str, Callable[[Any], bool]]] = {
    "version": _is_text,
    "server_version": _is_text,
    "system": lambda value: value == "" or _is_word(value),
    "timeline": lambda value: type(value) is int and 0 < value < 2**32,
    "incarnation": _is_text,
    "started": _is_moment,
    "ended": _is_moment,
    "bytes": _is_size,
    "start_lsn": _is_position,
    "end_lsn": _is_position,
    "segment_bytes": lambda value: type(value) is int and value in _SEGMENT_SIZES,
}
