"""
The length of a JSON lines file after the last append on this machine, which reveals lost lines.

The file only grows. So it lost lines if it is missing or shorter than remembered. The length is stored in a separate
small file, which is written after the lines are on the disk. So the stored length may be smaller than that of the file,
but never larger.
"""

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg

_MARK: Final[LiteralString] = """
SELECT coalesce(extract(epoch FROM trusted_from)::text, '') FROM jobs_outputconnection WHERE id = %s
"""


@dataclass(frozen=True, slots=True)
class Remembered:
    """
    A JSON lines file after an append.

    `mark` is the output's `trusted_from` at the append. If `trusted_from` has changed since, all documents are written
    again, and this length is no longer valid.
    """

    path: str
    mark: str
    device: int
    inode: int
    length: int


class LengthMemory:
    """
    Stores the length of the file of one output for this machine, and notices lost lines.

    `report(was, is)` is called with two lengths in bytes when lines were lost.
    """

    def __init__(self, state: Path, *, path: Path, output_id: int, report: Callable[[int, int], None]) -> None:
        self._state, self._path, self._output_id, self._report = state, path, output_id, report

    def read_mark(self, cursor: psycopg.Cursor[Any]) -> str:
        """Return the output's present `trusted_from` as text (seconds since 1970); "" if it has none."""
        row = cursor.execute(_MARK, (self._output_id,)).fetchone()
        return str(row[0]) if row is not None else ""

    def compare(self, *, mark: str) -> None:
        """Report a loss of lines since the last append. The same loss is reported only once."""
        # The stored length is read before that of the file. In the other order, growth between the reads would look
        # like a loss.
        remembered = self._read()
        if remembered is None or remembered.mark != mark:
            return
        try:
            length = self._path.lstat().st_size
        except FileNotFoundError:
            length = 0
        except OSError:
            # The next append reports why the file cannot be reached.
            return
        if length < remembered.length:
            self._report(remembered.length, length)
            self.forget()

    def remember(self, status: os.stat_result, *, length: int, mark: str) -> None:
        """Store the identity of the file from its status, and the length that is on the disk."""
        new = Remembered(str(self._path), mark, status.st_dev, status.st_ino, length)
        old = self._read()
        if old is not None and old.length > length and replace(old, length=length) == new:
            # Another process appended after this one, and has already stored its greater length.
            return
        # A failure here must not stop an append: a machine that cannot remember lengths detects no loss.
        with suppress(OSError):
            self._state.parent.mkdir(parents=True, exist_ok=True)
            draft = self._state.with_name(f"{self._state.name}.{os.getpid()}-{threading.get_ident()}")
            draft.write_text(json.dumps(asdict(new)))
            draft.replace(self._state)

    def has_appended(self) -> bool:
        """True if this machine remembers an append to the file."""
        return self._read() is not None

    def forget(self) -> None:
        """Delete the stored length. The next append stores a new one."""
        with suppress(OSError):
            self._state.unlink(missing_ok=True)

    def _read(self) -> Remembered | None:
        """Return the stored facts about this path; None if nothing is stored, or the facts cannot be read."""
        try:
            remembered = Remembered(**json.loads(self._state.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return remembered if remembered.path == str(self._path) else None
