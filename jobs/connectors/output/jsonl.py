"""
The JSON lines output: a file that grows by a line for each document that changed.

A line is an object with `action` (add or delete) and the facts of the document. The last line of a URL is the valid
one. The file is a log and not part of a transaction. So it may contain lines of a flush that failed later. The next
line of the same document corrects them.

Several processes append to one file. Each holds an flock on it while it checks the end, writes all lines of a flush, or
removes an incomplete write. So the file consists of complete lines. Only a killed process or machine can leave one
incomplete line at the end, and the next append cuts it off.
"""

import errno
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from django.utils.translation import gettext_lazy as _

from jobs.connectors.output import jsonl_recall
from jobs.connectors.output.base import PASSING_ERRORS, Entry, OutputError
from jobs.connectors.output.buckets import BUCKETS
from jobs.connectors.output.jsonl_length import LengthMemory
from jobs.connectors.output.jsonl_listing import LinesListing
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema

# Beginning of every line. It distinguishes an incomplete line of this output from other text.
_OPENING: Final = b'{"action":'

# Longest wait for the file lock (seconds). An append takes milliseconds, so a process that holds the lock for longer is
# frozen. A longer wait would keep the documents of this flush locked until the database ends the transaction.
_LOCK_SECONDS: Final = 3.0
_LOCK_PAUSE: Final = 0.005

_TAIL_BLOCK: Final = 64 * 1024

# A link in place of the file is not followed: a user who may write to the directory, but not to the target, could make
# us write there. Directories in the path may be links. O_NONBLOCK prevents that a named pipe blocks the open before its
# type is checked.
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

# Longest path (characters). The name of the connection is made from the path, and may have 400 characters.
_LONGEST_PATH: Final = 390

# Characters that are legal in JSON texts, but end a line for some readers.
_LINE_ENDS: Final = ("\u0085", "\u2028", "\u2029")


JSON_LINES: Final = Schema(
    (
        Field(
            name="path",
            kind=FieldKind.TEXT,
            label=_("File"),
            help=_(
                "Absolute path, such as /srv/data/pages.jsonl, on each machine with a worker. A missing file is created."
            ),
            is_required=True,
        ),
    )
)


@dataclass(frozen=True, slots=True)
class JsonLinesConfiguration:
    """`path` is absolute, because worker processes need not share a working directory."""

    path: str

    def __post_init__(self) -> None:
        if not self.path:
            raise BadSpecification("path", "is missing; write the path of the file")
        if not self.path.isprintable():
            raise BadSpecification("path", "must not contain control characters or bytes that are not UTF-8")
        if len(self.path) > _LONGEST_PATH:
            raise BadSpecification("path", f"must not be longer than {_LONGEST_PATH} characters")
        if self.path.endswith("/") or Path(self.path).name == "..":
            raise BadSpecification("path", "must name a file, not a directory")
        if not self.path.startswith("/"):
            raise BadSpecification("path", "must be absolute: write it from / on")


class JsonLinesOutput:
    holds: Final = True
    is_transactional: Final = False
    # Any listing reads the whole file, so it covers all buckets.
    buckets_at_once: Final = BUCKETS

    def __init__(self, *, id: int, configuration: JsonLinesConfiguration) -> None:  # noqa: A002 (the column's name)
        self.id = id
        self._path = Path(configuration.path)
        self._why_not_written: Callable[[str], str] = _anywhere
        self._memory: LengthMemory | None = None
        # Numbers of the device and the inode of the file whose folder this process has synced.
        self._synced: tuple[int, int] | None = None

    def confine(self, why_not_written: Callable[[str], str]) -> None:
        """
        Set a check that runs each time before the file is opened. If the check returns a sentence, the write is
        refused.
        """
        self._why_not_written = why_not_written

    def remember_in(self, memory: LengthMemory) -> None:
        """Remember the length of the file after each append, and report lines that were lost since."""
        self._memory = memory

    @property
    def path(self) -> Path:
        return self._path

    def check(self) -> None:
        with self._explained():
            try:
                descriptor = self._open()
            except FileNotFoundError:
                self._check_directory()
                return
            try:
                self._whole_length(descriptor)
            finally:
                os.close(descriptor)

    def add_or_replace(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        self._append(cursor, [_line("add", entry) for entry in entries])

    def remove(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        self._append(cursor, [_line("delete", entry) for entry in entries])

    def recall(self, urls: Mapping[str, str]) -> Sequence[Entry]:
        with self._explained():
            try:
                descriptor = self._open()
            except FileNotFoundError:
                # No text can be recalled here: the file is on another machine, or was moved away.
                return []
            try:
                return jsonl_recall.recall(self._path, descriptor, urls)
            finally:
                os.close(descriptor)

    def open_listing(self, cursor: psycopg.Cursor[Any], buckets: Collection[int]) -> LinesListing:
        with self._explained():
            try:
                return LinesListing(self._path, self._open(), buckets)
            except FileNotFoundError:
                if self._memory is not None and self._memory.has_appended():
                    # The whole file was lost.
                    return LinesListing(self._path, None, buckets)
        raise OutputError(
            f"There is no file {self._path} on this machine ({socket.gethostname()}). "
            "Verify the output on the machine whose workers write it."
        )

    def notice_loss(self, cursor: psycopg.Cursor[Any]) -> None:
        # A path outside of the roots is not read here. The next append reports it.
        if self._memory is not None and not self._why_not_written(str(self._path)):
            self._memory.compare(mark=self._memory.read_mark(cursor))

    def job_complete(self) -> None:
        return

    def _append(self, cursor: psycopg.Cursor[Any], lines: list[bytes]) -> None:
        """Append the lines, all or none, and flush them to disk."""
        if not lines:
            return
        with self._explained():
            # The file is opened for each flush, so that a file that was moved away is no longer written.
            descriptor = self._open(os.O_CREAT)
            try:
                self._lock(descriptor)
                mark = self._query_mark(cursor)
                length = self._whole_length(descriptor)
                if self._memory is not None:
                    self._memory.compare(mark=mark)
                # Cut off the incomplete line of a killed process. In most cases there is none.
                os.ftruncate(descriptor, length)
                appended = b"".join(lines)
                _write_all_or_nothing(descriptor, appended, length=length)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                # Sync before the commit: a crash that keeps the record in the database must keep the lines in the file.
                os.fdatasync(descriptor)
                self._sync_directory(os.fstat(descriptor))
                if self._memory is not None:
                    self._memory.remember(os.fstat(descriptor), length=length + len(appended), mark=mark)
            finally:
                os.close(descriptor)

    def _query_mark(self, cursor: psycopg.Cursor[Any]) -> str:
        """
        Return the mark of the output (`LengthMemory.read_mark`); "" if no lengths are remembered. The query also proves
        that the database has not ended this transaction.

        If this process was frozen, it may have been marked failed, and another worker may have its documents. Then this
        process must not append its lines. The session of a failed node is ended before its documents are released, so
        the query fails. As long as the session lives, its locks keep all other processes from these documents.
        """
        if self._memory is not None:
            return self._memory.read_mark(cursor)
        cursor.execute("SELECT 1")
        return ""

    def _open(self, creating: int = 0) -> int:
        if why := self._why_not_written(str(self._path)):
            raise OutputError(why)
        descriptor = os.open(self._path, _FLAGS | creating, 0o666)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OutputError(f"{self._path} is not a regular file: JSON lines cannot be written to it.")

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OutputError(
                        f"{self._path} has been locked by another process for {_LOCK_SECONDS:g} s: it may be frozen."
                    ) from None
                time.sleep(_LOCK_PAUSE)
            else:
                return

    def _whole_length(self, descriptor: int) -> int:
        """
        Return the length of the file up to the end of its last complete line.

        Raises:
            OutputError: this program did not write the text after the last complete line, so it must not cut it off.
        """
        size = os.fstat(descriptor).st_size
        whole = _end_of_last_line(descriptor, size)
        tail = os.pread(descriptor, min(size - whole, len(_OPENING)), whole)
        # NUL bytes at the end may be cut off, too. A crash of the machine leaves them if the new length was already on
        # the disk, and the content was not.
        if _OPENING.startswith(tail) or not tail.strip(b"\0"):
            return whole
        raise OutputError(
            f"{self._path} ends in the middle of a line that crawlctl did not write. The file was not changed."
        )

    def _sync_directory(self, facts: os.stat_result) -> None:
        """
        Sync the folder of the file to disk, once for each file: otherwise a crash of the machine may lose a new file.

        A file that exists already may be new, too: the process that created it may have been killed before its sync.
        """
        file = (facts.st_dev, facts.st_ino)
        if file == self._synced:
            return
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._synced = file

    def _check_directory(self) -> None:
        directory = self._path.parent
        if not directory.is_dir():
            raise OutputError(f"{self._path} cannot be written: there is no directory {directory}.")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise OutputError(f"{self._path} cannot be written: nothing can be created in {directory}.")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Translate an error of the system into a sentence about the file."""
        try:
            yield
        except OSError as error:
            why = _REASONS.get(error.errno or 0, (error.strerror or str(error)).lower())
            disk = self._path.parent if error.errno in PASSING_ERRORS else None
            raise OutputError(f"{self._path} cannot be written: {why}.", disk=disk) from error


_REASONS: Final = {
    errno.ELOOP: "it is a symbolic link; name the file itself",
    errno.EISDIR: "it is a directory",
    errno.ENOENT: "its directory does not exist",
    errno.ENXIO: "it is not a regular file",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it would grow beyond the largest file that this process may write",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
}


def _anywhere(_path: str) -> str:
    return ""


def _write_all_or_nothing(descriptor: int, lines: bytes, *, length: int) -> None:
    """
    Append in one write. Continue a short write until all is written or it fails.

    The caller holds the lock, so no process has appended since the file was `length` bytes long.
    """
    left = memoryview(lines)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.ftruncate(descriptor, length)
        raise


def _end_of_last_line(descriptor: int, size: int) -> int:
    """Return the position after the last newline. The search runs backwards, because an incomplete line may be long."""
    end = size
    while end > 0:
        start = max(0, end - _TAIL_BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _line(action: str, entry: Entry) -> bytes:
    content = entry.content
    facts: dict[str, Any] = {
        "action": action,
        "url": entry.url,
        "title": content.title if content else "",
        "description": content.description if content else "",
        "text": content.text if content else "",
        "content_type": content.content_type if content else "",
        "language": content.language if content else "",
        "metadata": content.metadata if content else {},
        "fetched_at": entry.fetched_at.isoformat(),
        "version": entry.version,
    }
    if content and not content.access.is_open:
        facts["access"] = content.access.as_json()
    line = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    for character in _LINE_ENDS:
        line = line.replace(character, f"\\u{ord(character):04x}")
    # UTF-8 cannot encode a lone surrogate, and a page with one must not fail a flush.
    return line.encode(errors="replace") + b"\n"
