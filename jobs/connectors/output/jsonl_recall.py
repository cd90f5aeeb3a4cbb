"""
The texts of documents that were removed from a JSON lines file: their last `add` lines are still in it.

The file is read once, and later from the last position on. The positions of the lines are kept for one file at a time.
"""

import datetime as dt
import json
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from jobs.connectors.metadata import read_stored
from jobs.connectors.output.base import Entry
from jobs.connectors.repository.access import Access
from jobs.connectors.repository.base import Content

# Number of bytes at the beginning of a file that belong to its identity.
_HEAD: Final = 1024
_ADD: Final = b'{"action":"add","url":'
# Names that the lines of every release have.
_NAMES: Final = frozenset({"url", "title", "description", "text", "content_type", "language", "fetched_at", "version"})


class _Lines:
    """The start of the last `add` line of each URL in one file, up to the last position read."""

    def __init__(self, identity: tuple[str, int, int, bytes]) -> None:
        self.identity = identity
        self.read_to = 0
        self._begins: dict[bytes, int] = {}

    def read_on(self, descriptor: int) -> None:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(self.read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if line.startswith(_ADD) and (facts := _facts_in(line)) is not None:
                    self._begins[_key(facts["url"])] = self.read_to
                self.read_to += len(line)

    def read(self, descriptor: int, url: str) -> dict[str, Any] | None:
        begin = self._begins.get(_key(url))
        if begin is None:
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(begin)
            facts = _facts_in(file.readline())
        if facts is None or _key(facts["url"]) != _key(url):
            raise _Replaced
        return facts


class _Replaced(Exception):
    """The lines of the file have changed: it was truncated, and has grown again."""


_last: _Lines | None = None


def recall(path: Path, descriptor: int, urls: Mapping[str, str]) -> list[Entry]:
    """Return the last text of each of these URLs (by hash) that the open file has."""
    global _last  # noqa: PLW0603 (the lines read so far serve the next chunk)
    status = os.fstat(descriptor)
    # The identity includes the beginning of the file: it usually differs if the file was cut and has grown again.
    identity = (str(path), status.st_dev, status.st_ino, os.pread(descriptor, _HEAD, 0))
    if _last is None or _last.identity != identity or status.st_size < _last.read_to:
        _last = _Lines(identity)
    try:
        return _found_in(_last, descriptor, urls)
    except _Replaced:
        _last = _Lines(identity)
    try:
        return _found_in(_last, descriptor, urls)
    except _Replaced:
        # The file was cut again while it was read.
        return []


def _found_in(lines: _Lines, descriptor: int, urls: Mapping[str, str]) -> list[Entry]:
    lines.read_on(descriptor)
    found = ((hash_, url, lines.read(descriptor, url)) for hash_, url in urls.items())
    return [_entry(hash_, url, facts) for hash_, url, facts in found if facts is not None]


def _facts_in(line: bytes) -> dict[str, Any] | None:
    """Return the facts in a line; None if the line is damaged."""
    try:
        facts: dict[str, Any] = json.loads(line)
        return facts if facts.keys() >= _NAMES and isinstance(facts["url"], str) else None
    except (ValueError, AttributeError, RecursionError):
        return None


def _key(url: str) -> bytes:
    return blake2b(url.encode(errors="replace"), digest_size=12).digest()


def _entry(hash_: str, url: str, facts: Mapping[str, Any]) -> Entry:
    content = Content(
        url=url,
        title=facts["title"],
        description=facts["description"],
        text=facts["text"],
        content_type=facts["content_type"],
        language=facts["language"],
        access=Access.from_json(facts.get("access", {})),
        # Lines of earlier releases have no metadata.
        metadata=read_stored(facts.get("metadata")),
    )
    return Entry(hash_, url, content, facts["version"], dt.datetime.fromisoformat(facts["fetched_at"]))
