"""File locks. The kernel releases a lock when its holder ends, even after a crash or a kill."""

import fcntl
import os
from pathlib import Path


class FileLock:
    """
    One opening of a lock file.

    The lock belongs to the opening, not to the process: a forked child that keeps its parent's opening keeps its
    parent's lock. So each process opens the file itself, and no opening survives an exec.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take_shared(self) -> bool:
        """Take the lock shared with other readers. Return False if a process holds it exclusively."""
        return self._take(fcntl.LOCK_SH)

    def take_exclusively(self) -> bool:
        """
        Take the lock exclusively. Return False if another process holds it. A lock that was held shared is then lost.
        """
        return self._take(fcntl.LOCK_EX)

    def is_of_this_path(self) -> bool:
        """True if the path still leads to the open file. False if that file was deleted or replaced."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        os.close(self._descriptor)

    def _take(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def is_held_exclusively(path: Path) -> bool:
    """True if some process holds the lock of that file exclusively now."""
    lock = FileLock(path)
    try:
        return not lock.take_shared()
    finally:
        lock.close()
