"""Finds files that no row names, below the directory of archives and in the stores of archives."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from jobs.archive.copies import StoredCopy
from jobs.models import ArchiveFault, ArchiveFile, ArchiveVerification
from jobs.verification.archives.checking import MOVED, store_found
from jobs.verification.archives.repairing import move_local_aside, move_stored_aside
from nodes.stores.opening import open_store
from nodes.stores.port import StoreError

# Other programs may use the same directory or bucket, so only directories of jobs are searched.
_OF_A_JOB: Final = re.compile(r"job-[0-9]+/[^.].*")
# Number of paths that one statement looks up.
_AT_ONCE: Final = 1000


class _Listed(NamedTuple):
    path: str
    size: int


def check_foreign(verification: ArchiveVerification, root: Path, *, host: str, stores: tuple[str, ...]) -> None:
    """
    Find foreign files on this machine and in these stores. With a repair, they are moved below `foreign/`.

    Raises:
        AnotherAttempt: another attempt carries out the verification.
    """
    place = f"{host}:{root}"
    for one in _without_row(_local_files(root)):
        result = ""
        if verification.repairs:
            try:
                move_local_aside(root, one.path)
                result = MOVED
            except OSError as error:
                result = f"not moved: {error}"
        _add(verification, one, place=place, result=result)
    for address in stores:
        try:
            for one in _without_row(_stored_files(address)):
                result = _move_stored(address, one, folder=root) if verification.repairs else ""
                _add(verification, one, place=address, result=result)
        except StoreError:
            store_found(verification, [], skipped=1)


def _move_stored(address: str, one: _Listed, *, folder: Path) -> str:
    try:
        copy = StoredCopy(open_store(address), one.path, size=one.size)
        move_stored_aside(copy, address, one.path, folder=folder)
    except (OSError, StoreError) as error:
        return f"not moved: {error}"
    return MOVED


def _add(verification: ArchiveVerification, one: _Listed, *, place: str, result: str) -> None:
    fault = ArchiveFault(kind=ArchiveFault.Kind.FOREIGN, path=one.path, place=place, result=result)
    store_found(verification, [fault])


def _local_files(root: Path) -> Iterator[_Listed]:
    for path in sorted(root.glob("job-*/**/*")):
        if path.is_file():
            yield _Listed(path.relative_to(root).as_posix(), path.stat().st_size)


def _stored_files(address: str) -> Iterator[_Listed]:
    for listed in open_store(address).list("job-"):
        yield _Listed(listed.key, listed.size)


def _without_row(listed: Iterator[_Listed]) -> Iterator[_Listed]:
    """Yield the files that no row names. The row of a new file is inserted before the file is created."""
    some: list[_Listed] = []
    for one in listed:
        if _OF_A_JOB.fullmatch(one.path):
            some.append(one)
        if len(some) == _AT_ONCE:
            yield from _unknown(some)
            some = []
    yield from _unknown(some)


def _unknown(some: list[_Listed]) -> list[_Listed]:
    known = set(ArchiveFile.objects.filter(path__in=[one.path for one in some]).values_list("path", flat=True))
    return [one for one in some if one.path not in known]
