"""A store in a directory, such as a mounted disk."""

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from nodes.stores.port import (
    CHUNK,
    KeyMissing,
    KeyTaken,
    Listed,
    Stored,
    StoreRefused,
    StoreUnavailable,
    check_digest,
    check_key,
    digest_of,
)

# Prefix of files that are being written. No key has it.
_UNFINISHED: Final = ".unfinished-"


class DirectoryStore:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = f"dir:{root}"

    def put(self, key: str, path: Path, *, sha256: str, only_if_absent: bool = False) -> None:
        target = self._path(key)
        with self._errors_as_sentences():
            self._check_root()
            if only_if_absent and target.exists():
                raise self._taken(key)
            self._make_folders(target.parent)
            unfinished = target.parent / f"{_UNFINISHED}{secrets.token_hex(8)}"
            try:
                check_digest(self.address, key, expected=sha256, found=_copy(path, unfinished))
                if only_if_absent:
                    # A link fails if the name exists, while a rename would replace the existing file.
                    target.hardlink_to(unfinished)
                else:
                    unfinished.replace(target)
            except FileExistsError:
                raise self._taken(key) from None
            finally:
                unfinished.unlink(missing_ok=True)
            _make_durable(target.parent)

    def head(self, key: str) -> Stored | None:
        target = self._path(key)
        with self._errors_as_sentences():
            self._check_root()
            try:
                return Stored(size=target.stat().st_size, sha256=digest_of(target))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        target = self._path(key)
        with self._errors_as_sentences():
            self._check_root()
            try:
                file = target.open("rb")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise KeyMissing(f"{self.address} does not have {key}. It was deleted, or never stored") from None
        return self._chunks(file, offset=offset, length=length)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        with self._errors_as_sentences():
            self._check_root()
            found = sorted(self._keys(prefix), key=lambda listed: listed.key)
        return (listed for listed in found if listed.key.startswith(prefix))

    def delete(self, key: str) -> None:
        target = self._path(key)
        with self._errors_as_sentences():
            self._check_root()
            try:
                target.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            _make_durable(target.parent)
            folder = target.parent
            while folder != self.root:
                try:
                    folder.rmdir()
                except OSError:
                    return
                folder = folder.parent

    def _path(self, key: str) -> Path:
        return self.root / check_key(self.address, key)

    def _check_root(self) -> None:
        # The directory may be on a disk that is not mounted now, so it is never created here.
        if not self.root.is_dir():
            raise StoreUnavailable(f"{self.address}: the directory does not exist. Create it, or mount its disk")

    def _make_folders(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        _make_durable(folder.parent)

    def _keys(self, prefix: str) -> Iterator[Listed]:
        """
        Return the keys that may start with the prefix. Only the folder of the prefix is read, and the folders below it.
        """
        above, _, beginning = prefix.rpartition("/")
        top = self._path(above) if above else self.root
        for folder, folders, names in os.walk(top):
            if Path(folder) == top:
                folders[:] = [name for name in folders if name.startswith(beginning)]
            for name in names:
                if not name.startswith("."):
                    path = Path(folder) / name
                    # Another process may delete the file meanwhile.
                    with contextlib.suppress(FileNotFoundError):
                        yield Listed(path.relative_to(self.root).as_posix(), path.stat().st_size)

    def _chunks(self, file: BinaryIO, *, offset: int, length: int | None) -> Iterator[bytes]:
        with file, self._errors_as_sentences():
            file.seek(offset)
            left = length
            while chunk := file.read(CHUNK if left is None else min(CHUNK, left)):
                yield chunk
                left = None if left is None else left - len(chunk)

    def _taken(self, key: str) -> KeyTaken:
        return KeyTaken(f"{self.address} already has {key}. Choose another key, or allow it to be replaced")

    @contextlib.contextmanager
    def _errors_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise StoreRefused(
                f"{self.address}: access denied to {error.filename}. Give the user of this process read and write access"
            ) from error
        except OSError as error:
            room = error.errno in {errno.ENOSPC, errno.EDQUOT}
            advice = "Make room" if room else "Check the disk"
            raise StoreUnavailable(f"{self.address}: {error.strerror or error}. {advice}") from error


def _copy(source: Path, target: Path) -> str:
    """Copy the file durably, and return the SHA-256 of the bytes that were written."""
    digest = hashlib.sha256()
    with source.open("rb") as readable, target.open("xb") as writable:
        while chunk := readable.read(CHUNK):
            digest.update(chunk)
            writable.write(chunk)
        writable.flush()
        os.fsync(writable.fileno())
    return digest.hexdigest()


def _make_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
