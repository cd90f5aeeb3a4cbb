"""The folder in which copies of the database are made and checked."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from crawlctl.backups.errors import BackupError
from crawlctl.postgres.locks import FileLock


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """
    Yield an empty folder below this one. No other process uses it. Leftovers of killed processes are deleted first.

    Raises:
        BackupError: another process uses the folder.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        if not lock.take_exclusively():
            raise BackupError(f"another backup or check works in {folder}. Wait for its end, then try again")
        for leftover in folder.iterdir():
            if leftover.is_dir():
                shutil.rmtree(leftover)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            yield Path(place)
    finally:
        lock.close()
