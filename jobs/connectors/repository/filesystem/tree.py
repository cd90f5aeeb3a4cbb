"""
Reads one path of a tree: its kind, the entries of a directory, the content of a file.

Only paths below the roots are ever opened, even if the tree changes meanwhile. A path is opened from the root down, one
directory at a time, and no step follows a symbolic link. If links are to be followed, the real path is found first. The
real path must be below a root, too, and is then opened in the same way. Pipes, sockets and devices are never opened.
All calls here block, and are meant for a thread.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from jobs.connectors.repository.access import OPEN, Access, Level
from jobs.connectors.repository.filesystem.paths import is_within
from jobs.connectors.repository.filesystem.permissions import Permissions

# Age below which a file's signature is not stored (nanoseconds). A file may be written twice within the same tick of
# its clock (2 s on FAT), so a newer signature does not yet distinguish it from its next version.
_TICK_NS: Final = 2_000_000_000
_CHUNK: Final = 1024 * 1024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TreeError(Exception):
    """The path could not be read. `code` is the document's result code."""

    def __init__(self, code: str, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(f"{code}: {detail}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a directory. `path` is normal. A followed link has the path of its target."""

    path: bytes
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Directory:
    """The sorted files and directories in a directory; links only if they are followed."""

    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, and the normal path of its target if the target may be read."""

    target: bytes | None


@dataclass(frozen=True, slots=True)
class File:
    """
    A regular file. `signature` distinguishes versions of the file without a read of its content; '' if this is
    uncertain. If access is read, the signature includes the `access`.

    `body` is None if the signature was known already. Otherwise it is the whole content, or the beginning if the rest
    is not wanted. `modified_at` is in seconds since 1970. `owner` is the number of a user.
    """

    signature: str
    body: bytes | None
    modified_at: float
    is_whole: bool = True
    access: Access = OPEN
    owner: int = -1


Found = Directory | Link | File


class Tree:
    """
    The readable directories. `roots` are normal paths. The path of a root may contain links.

    With `permissions`, files have the access that this object reads.
    """

    def __init__(self, roots: Sequence[bytes], *, follows_links: bool, permissions: Permissions | None = None) -> None:
        self._roots = sorted(roots, key=len, reverse=True)
        self._follows_links = follows_links
        self._permissions = permissions

    def look(self, path: bytes, *, known: str, most_bytes: int, is_wanted: Callable[[bytes], bool]) -> Found:
        """
        Read a normal path. A file whose signature is `known` is not read.

        Raises:
            TreeError: OUT_OF_ROOT, NO_ROOT, NOT_FOUND, FORBIDDEN, SYMLINK, SPECIAL_FILE, TOO_LARGE, CHANGING,
                IO_ERROR.
        """
        root = self.root_of(path)
        if root is None:
            raise TreeError("OUT_OF_ROOT", "it is outside of all roots of the connection")
        try:
            return self._look(path, root, known=known, most_bytes=most_bytes, is_wanted=is_wanted)
        except OSError as error:
            raise _error_of(error, root) from error

    def open_file(self, path: bytes) -> int | None:
        """
        Return a descriptor of the regular file at a normal path, which the caller closes; None for a directory.

        Raises:
            TreeError: as `look` does.
        """
        root = self.root_of(path)
        if root is None:
            raise TreeError("OUT_OF_ROOT", "it is outside of all roots of the connection")
        try:
            if path == root:
                with _opened_root(root):
                    return None
            with _directory_above(path, root) as (above, name):
                mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    return None
                if stat.S_ISLNK(mode):
                    raise TreeError("SYMLINK", "a symbolic link")
                if not stat.S_ISREG(mode):
                    raise TreeError("SPECIAL_FILE", "a pipe, a socket or a device")
                return os.open(name, _OPEN, dir_fd=above)
        except OSError as error:
            raise _error_of(error, root) from error

    def root_of(self, path: bytes) -> bytes | None:
        """Return the innermost root above a normal path, or None."""
        return next((root for root in self._roots if is_within(path, root)), None)

    def _look(
        self, path: bytes, root: bytes, *, known: str, most_bytes: int, is_wanted: Callable[[bytes], bool]
    ) -> Found:
        if path == root:
            with _opened_root(root) as at:
                return self._list(path, at)
        folders: list[Level] = []
        with _directory_above(path, root, self._note_in(folders)) as (above, name):
            mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                return Link(self._target_of(path))
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise TreeError("SPECIAL_FILE", "a pipe, a socket or a device")
            with _opened(name, flags=_OPEN, at=above) as opened:
                if stat.S_ISDIR(mode):
                    return self._list(path, opened)
                return _read(
                    opened,
                    known=known,
                    most_bytes=most_bytes,
                    is_wanted=is_wanted,
                    access_of=partial(self._permissions.of_file, folders=folders) if self._permissions else None,
                )

    def _note_in(self, folders: list[Level]) -> Callable[[int], None] | None:
        """
        Return a function that adds the level of an open folder to the list; None if the permissions of folders are not
        read.
        """
        permissions = self._permissions
        if permissions is None or not permissions.with_folders:
            return None
        return lambda opened: folders.append(permissions.of_folder(opened))

    def _list(self, path: bytes, at: int) -> Directory:
        entries: list[Entry] = []
        prefix = path if path.endswith(b"/") else path + b"/"
        with os.scandir(at) as found:
            for entry in found:
                child = prefix + os.fsencode(entry.name)
                if entry.is_symlink():
                    target = self._target_of(child)
                    if target is not None:
                        entries.append(Entry(target, os.path.isdir(target)))  # noqa: PTH112 (a Path is text)
                elif entry.is_dir(follow_symlinks=False):
                    entries.append(Entry(child, is_directory=True))
                elif entry.is_file(follow_symlinks=False):
                    entries.append(Entry(child, is_directory=False))
        entries.sort(key=lambda entry: entry.path)
        return Directory(entries)

    def _target_of(self, link: bytes) -> bytes | None:
        """
        Return the target of a link, as a path below a root; None if it may not be followed, or has no target.

        The path of a root may contain links. So real paths are compared, and the result begins with the configured path
        of the root.
        """
        if not self._follows_links:
            return None
        try:
            real = os.path.realpath(link, strict=True)
        except OSError:
            return None
        for root in self._roots:
            real_root = os.path.realpath(root)
            if is_within(real, real_root):
                below = real[len(real_root) :].lstrip(b"/")
                return (root.rstrip(b"/") + b"/" + below).rstrip(b"/") or b"/"
        return None


@contextmanager
def _directory_above(
    path: bytes, root: bytes, note: Callable[[int], None] | None = None
) -> Iterator[tuple[int, bytes]]:
    """
    Open the directory that contains a path, and yield it with the last name of the path. No link below the root is
    followed.

    `note` is called with each directory on the way, from the root on.
    """
    *above, name = path[len(root) :].strip(b"/").split(b"/")
    with _opened_root(root) as root_at:
        at = os.dup(root_at)
        try:
            if note is not None:
                note(at)
            for step in above:
                below = os.open(step, _DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = below
                if note is not None:
                    note(at)
            yield at, name
        finally:
            os.close(at)


@contextmanager
def _opened_root(root: bytes) -> Iterator[int]:
    """Open a root. If the root is missing, its disk is probably not mounted, so its files do not count as removed."""
    try:
        at = os.open(root, _DIRECTORY)
    except OSError as error:
        raise TreeError("NO_ROOT", os.strerror(error.errno or 0)) from error
    try:
        yield at
    finally:
        os.close(at)


@contextmanager
def _opened(name: bytes, *, flags: int, at: int | None = None) -> Iterator[int]:
    opened = os.open(name, flags, dir_fd=at)
    try:
        yield opened
    finally:
        os.close(opened)


def _read(
    opened: int,
    *,
    known: str,
    most_bytes: int,
    is_wanted: Callable[[bytes], bool],
    access_of: Callable[[int, os.stat_result], Access] | None,
) -> File:
    before = os.fstat(opened)
    if not stat.S_ISREG(before.st_mode):
        raise TreeError("CHANGING", "it is no longer a file")
    signature = f"{before.st_mtime_ns:x}-{before.st_size:x}-{before.st_ino:x}"
    access = OPEN
    if access_of is not None:
        # A change of permissions does not change the modification time, so the signature includes the access.
        access = access_of(opened, before)
        signature += f"-{access.digest}"
    if signature == known:
        return File(signature, None, before.st_mtime, access=access)
    if before.st_size > most_bytes:
        raise TreeError("TOO_LARGE", f"{before.st_size} bytes")
    first = os.read(opened, _CHUNK)
    is_whole = is_wanted(first)
    chunks, size = [first], len(first)
    # The loop ends at the size that the file had before the read, because a file that grows faster than it is read must
    # not block this thread.
    while is_whole and size <= before.st_size and (chunk := os.read(opened, _CHUNK)):
        chunks.append(chunk)
        size += len(chunk)
    after = os.fstat(opened)
    if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, before.st_size) or (
        is_whole and size != before.st_size
    ):
        raise TreeError("CHANGING", "it changed while it was read")
    is_settled = time.time_ns() - before.st_mtime_ns > _TICK_NS
    return File(signature if is_settled else "", b"".join(chunks), before.st_mtime, is_whole, access, before.st_uid)


def _error_of(error: OSError, root: bytes) -> TreeError:
    """
    Return the error of a path below a root.

    If the root is empty, its disk is probably not mounted, so its files do not count as removed.
    """
    code = _code_of(error)
    if code == "NOT_FOUND" and _is_empty(root):
        return TreeError("NO_ROOT", "the root is empty: perhaps its disk is not mounted")
    return TreeError(code, os.strerror(error.errno or 0))


def _is_empty(root: bytes) -> bool:
    try:
        with os.scandir(root) as entries:
            return next(entries, None) is None
    except OSError:
        # The directory was readable a moment ago, so the first error counts.
        return False


def _code_of(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return "NOT_FOUND"
        case errno.ELOOP:
            return "SYMLINK"
        case errno.EACCES | errno.EPERM:
            return "FORBIDDEN"
        case errno.ENXIO:
            return "SPECIAL_FILE"
        case _:
            return "IO_ERROR"
