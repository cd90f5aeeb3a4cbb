"""Archive files of one machine: written by one process, read by any."""

import fcntl
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import IO, Final, NamedTuple

from jobs.archive import barc, warc
from jobs.archive.copies import Copy
from jobs.archive.records import Archived, BadArchive, Format

_ENDINGS: Final = {Format.WARC: ".warc.gz", Format.BARC: ".barc"}
_MODULES: Final[dict[Format, ModuleType]] = {Format.WARC: warc, Format.BARC: barc}
_PIECE: Final = 1 << 20
# Number of exchanges that `copy` writes together.
_COPIED_AT_ONCE: Final = 50
# First bytes of a file, by format. A WARC file has two possible beginnings, because it may be uncompressed.
_MAGIC: Final = ((b"BARC1 ", Format.BARC), (b"\x1f\x8b", Format.WARC), (b"WARC/", Format.WARC))


class Place(NamedTuple):
    """The place of a record in its file."""

    offset: int
    length: int


@dataclass(slots=True)
class OpenFile:
    """
    An archive file that this process writes. The process never continues a file of an earlier process.

    Each call of `append` makes its records durable before it returns.
    """

    path: Path
    format: Format
    _file: IO[bytes]
    size: int = 0

    @classmethod
    def create(cls, path: Path, format: Format, *, software: str, date: datetime) -> "OpenFile":  # noqa: A002 (the field)
        """
        Create a file whose name survives a crash of the machine.

        Raises:
            OSError: the file exists already, or the disk refuses.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only this account can read the file, because it may contain pages behind a login.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        created = cls(path, format, os.fdopen(descriptor, "r+b", buffering=0))
        try:
            if format is Format.WARC:
                created._write(warc.encode_info(software=software, date=date))
            os.fsync(descriptor)
            sync_folder(path.parent)
        except OSError:
            created.close()
            with suppress(OSError):
                path.unlink()
            raise
        return created

    def append(self, exchanges: Sequence[Archived]) -> list[Place]:
        """
        Append exchanges and return their places. If the disk refuses, the file is as it was before.

        Raises:
            OSError: the disk refuses.
        """
        before = self.size
        try:
            places = self._append_warc(exchanges) if self.format is Format.WARC else self._append_barc(exchanges)
            os.fsync(self._file.fileno())
        except OSError:
            self.size = before
            self._file.truncate(before)
            raise
        return places

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def _append_warc(self, exchanges: Sequence[Archived]) -> list[Place]:
        places, pieces, at = [], [], self._file.seek(self.size)
        for exchange in exchanges:
            records = warc.encode(exchange)
            places.append(Place(at, len(records[0])))
            pieces += records
            at += sum(map(len, records))
        self._write(b"".join(pieces))
        return places

    def _append_barc(self, exchanges: Sequence[Archived]) -> list[Place]:
        places = []
        for exchange in exchanges:
            offset, length = barc.write(self._file, barc.of_archived(exchange))
            places.append(Place(offset, length))
            self.size = offset + length
        return places

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self.size += len(data)


def name_of(format: Format, stem: str) -> str:  # noqa: A002 (the field's name)
    """Return the file name of an archive file."""
    return f"{stem}{_ENDINGS[format]}"


def format_of(path: Copy) -> Format:
    """
    Return the format of a file, by its first bytes.

    Raises:
        BadArchive: the file is not an archive file.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        begin = file.read(8)
    for magic, found in _MAGIC:
        if begin.startswith(magic):
            return found
    raise BadArchive(f"{path} is neither a WARC nor a BARC file")


def read_all(path: Copy, format: Format | None = None) -> Iterator[Archived]:  # noqa: A002 (the field's name)
    """
    Yield the exchanges of a file. Without a format, the first bytes of the file show it.

    Raises:
        BadArchive: the file is not an archive, or a record is damaged.
        OSError: the file cannot be read.
    """
    read: Callable[[Copy], Iterator[Archived]] = _MODULES[format or format_of(path)].read_all
    return read(path)


def read_at(path: Copy, offset: int, format: Format | None = None) -> Archived:  # noqa: A002 (the field's name)
    """
    Return the exchange at an offset of a file. Without a format, the first bytes of the file show it.

    Raises:
        BadArchive: the file is not an archive, or a record is damaged.
        OSError: the file cannot be read.
    """
    read: Callable[[Copy, int], Archived] = _MODULES[format or format_of(path)].read_at
    return read(path, offset)


def copy(source: Copy, target: Path, format: Format, *, software: str, date: datetime) -> int:  # noqa: A002 (the field)
    """
    Copy the exchanges of a file to a new file of a format. Return their number.

    Raises:
        BadArchive: the file is not an archive, or a record is damaged.
        OSError: a file cannot be read or written.
    """
    exchanges = read_all(source)
    count = 0
    created = OpenFile.create(target, format, software=software, date=date)
    try:
        while some := list(itertools.islice(exchanges, _COPIED_AT_ONCE)):
            created.append(some)
            count += len(some)
    except BaseException:
        created.close()
        target.unlink()
        raise
    created.close()
    return count


def end_torn_file(path: Path, format: Format, *, confirmed: int = 0) -> int:  # noqa: A002 (the field's name)
    """
    Cut a file of a dead process after its last complete record, and return its length.

    Records before the offset `confirmed` are known to be complete.

    Raises:
        OSError: the file is missing, or the disk refuses.
    """
    size = path.stat().st_size
    whole: Callable[..., int] = _MODULES[format].whole_length
    end = whole(path, after=min(confirmed, size))
    if end < size:
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())
    return end


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """
    Lock a file. Yield False if another process has locked it, such as its writer.

    Raises:
        OSError: the file is missing, or cannot be read.
    """
    with path.open("rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def is_mounted(root: Path) -> bool:
    """
    True if the root of archives can be read and is not empty. An empty root is treated as the mount point of an
    unmounted disk. Its files do not count as lost.
    """
    try:
        return next(root.iterdir(), None) is not None
    except OSError:
        return False


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of its files survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
