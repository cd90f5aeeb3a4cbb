"""
Repairs of archives: copies of a file are written again from a whole copy, and foreign files are moved below `foreign/`.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jobs.archive import files
from jobs.archive.copies import Copy
from nodes.stores.opening import open_store
from nodes.stores.port import CHUNK, StoreError

# Directory below a root, and prefix in a store, of files that no row knew.
FOREIGN: Final = "foreign"
# Prefix of files that are being written. No archive file has it.
_UNFINISHED: Final = ".unfinished-"


def write_local(copy: Copy, target: Path, *, sha256: str) -> None:
    """
    Write a copy to a file of this machine, durably. An earlier file is replaced once the content is whole.

    Raises:
        OSError, StoreError: the copy cannot be read, or the file not written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _local(copy, target.parent, sha256=sha256) as unfinished:
        unfinished.replace(target)
    files.sync_folder(target.parent)


def write_stored(copy: Copy, address: str, key: str, *, sha256: str, folder: Path) -> None:
    """
    Write a copy to a store, in place of other content. The content of a copy in another store is first written to a
    temporary file in `folder`.

    Raises:
        OSError, StoreError: the copy cannot be read, or the store refuses.
    """
    store = open_store(address)
    if isinstance(copy, Path):
        store.put(key, copy, sha256=sha256)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        with _local(copy, folder, sha256=sha256) as path:
            store.put(key, path, sha256=sha256)
    found = store.head(key)
    if found is None or found.sha256 != sha256:
        raise StoreError(f"{address} did not confirm {key}")


def move_local_aside(root: Path, path: str) -> None:
    """Move a foreign file of this machine below `foreign/`."""
    target = root / FOREIGN / path
    target.parent.mkdir(parents=True, exist_ok=True)
    (root / path).rename(target)


def move_stored_aside(copy: Copy, address: str, key: str, *, folder: Path) -> None:
    """
    Move a foreign file of a store below `foreign/`.

    Raises:
        OSError, StoreError: the file cannot be read, or the store refuses.
    """
    store = open_store(address)
    folder.mkdir(parents=True, exist_ok=True)
    with _local(copy, folder, sha256="") as path:
        store.put(f"{FOREIGN}/{key}", path, sha256=files.sha256_of(path))
    store.delete(key)


@contextmanager
def _local(copy: Copy, folder: Path, *, sha256: str) -> Iterator[Path]:
    """Yield the content of a copy as a file in a folder, which is removed afterwards unless it was moved."""
    path = folder / f"{_UNFINISHED}{secrets.token_hex(8)}"
    try:
        with copy.open("rb") as readable, path.open("xb") as writable:
            path.chmod(0o600)
            while chunk := readable.read(CHUNK):
                writable.write(chunk)
            writable.flush()
            os.fsync(writable.fileno())
        if sha256 and files.sha256_of(path) != sha256:
            raise OSError(f"{copy} changed while it was read")
        yield path
    finally:
        path.unlink(missing_ok=True)
