"""Lists and opens the archive files that a job may read, below the roots of its connection. All calls here block."""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Final

from jobs.connectors.repository.archive.places import Place
from jobs.connectors.repository.archive.specification import compile_pattern_of
from jobs.connectors.repository.filesystem.paths import shown
from jobs.connectors.repository.filesystem.tree import Directory, Tree, TreeError

# Endings of names by which archive files in folders are recognized. A file with another ending is read only if a seed
# or a pattern names it.
_NAMES: Final = (b".warc", b".warc.gz", b".barc")
# Age below which a file's signature is not stored (nanoseconds). A file may be written twice within one tick of the
# clock of its file system, so that both versions have the same signature.
_TICK_NS: Final = 2_000_000_000


class Library:
    """The readable files. `roots` are normal paths. Symbolic links below them are not followed."""

    def __init__(self, roots: Sequence[bytes]) -> None:
        self._tree = Tree(roots, follows_links=False)

    def files_at(self, place: Place) -> Iterator[bytes]:
        """
        Yield the paths of the archive files at a place, in the order of their folders.

        Raises:
            TreeError: the place, or a folder below it, cannot be read.
        """
        if not place.pattern and not self.is_folder(place.path):
            yield place.path
            return
        pattern = compile_pattern_of(place) if place.pattern else None
        prefix = len(place.path.rstrip(b"/"))
        folders = [place.path]
        while folders:
            folder = folders.pop()
            found = self._tree.look(folder, known="", most_bytes=0, is_wanted=_is_never_wanted)
            if not isinstance(found, Directory):
                raise TreeError("CHANGING", "a folder was replaced while it was read")
            folders.extend(entry.path for entry in reversed(found.entries) if entry.is_directory)
            for entry in found.entries:
                if entry.is_directory:
                    continue
                if pattern.search(shown(entry.path[prefix:])) if pattern else entry.path.endswith(_NAMES):
                    yield entry.path

    def is_folder(self, path: bytes) -> bool:
        """
        True if this path is a folder.

        Raises:
            TreeError: the path cannot be read.
        """
        descriptor = self._tree.open_file(path)
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    @contextmanager
    def opened(self, path: bytes) -> Iterator[IO[bytes]]:
        """
        Open a file. Errors of the disk while the file is open become a TreeError, too.

        Raises:
            TreeError: the path cannot be read.
        """
        descriptor = self._tree.open_file(path)
        if descriptor is None:
            raise TreeError("SPECIAL_FILE", "a directory")
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise TreeError("CHANGING", "it is no longer a file")
            try:
                yield file
            except OSError as error:
                raise TreeError("IO_ERROR", os.strerror(error.errno or 0)) from error


def signature_of(file: IO[bytes]) -> tuple[str, bool]:
    """
    Return a text that changes with the file, and True if each later change of the file is certain to change the text.
    """
    found = os.fstat(file.fileno())
    is_settled = time.time_ns() - found.st_mtime_ns > _TICK_NS
    return f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}", is_settled


def _is_never_wanted(_first: bytes) -> bool:
    return False
