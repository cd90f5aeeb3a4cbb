"""The copies of an archive file, on the disk of its machine and in stores. Copies in stores are read by ranges."""

import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final, Literal, Protocol

from nodes.stores.opening import open_store
from nodes.stores.port import Store

# Number of bytes that one request reads from a store. A smaller number would be slower: the start of a request takes as
# long as the transfer of some hundred kilobytes.
_AT_ONCE: Final = 512 * 1024


class Copy(Protocol):
    """A file that can be read, such as a Path. `str` returns its name for people."""

    def open(self, mode: Literal["rb"]) -> IO[bytes]:
        """Open the file. It can be read at any offset."""


class StoredCopy:
    """A copy in a store. Reads raise StoreError."""

    def __init__(self, store: Store, key: str, *, size: int) -> None:
        self.store, self.key, self._size = store, key, size

    def open(self, mode: Literal["rb"]) -> IO[bytes]:
        return io.BufferedReader(_Ranges(self.store, self.key, size=self._size), _AT_ONCE)

    def __str__(self) -> str:
        return f"{self.store.address}/{self.key}"


class _Ranges(io.RawIOBase):
    """A file that requests each part from a store when the part is read."""

    def __init__(self, store: Store, key: str, *, size: int) -> None:
        self._store, self._key, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of its base is not importable
        wanted = min(len(buffer), max(0, self._size - self._at))
        data = b"".join(self._store.get(self._key, self._at, wanted)) if wanted else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def copies_of(*, root: str, path: str, size: int, stores: Iterable[str]) -> Iterator[Copy]:
    """
    Yield the copies of a file: first the local file if it exists, then those in stores. A store may lack its copy.
    """
    local = Path(root) / path
    if local.exists():
        yield local
    for address in stores:
        yield StoredCopy(open_store(address), path, size=size)
