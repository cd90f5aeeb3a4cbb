"""Readers of archives. Each member is a part."""

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from jobs.extraction.budget import Budget
from jobs.extraction.formats.container import Container, failing_plainly
from jobs.extraction.formats.raw import Raw, RawPart
from jobs.extraction.result import ExtractionFailed, Reason

ZIP: Final = "application/zip"
TAR: Final = "application/x-tar"
GZIP: Final = "application/gzip"
BZIP2: Final = "application/x-bzip2"
XZ: Final = "application/x-xz"
_OPENERS: Final[dict[str, Callable[[Any], IO[bytes]]]] = {GZIP: gzip.open, BZIP2: bz2.open, XZ: lzma.open}  # type: ignore[dict-item]
_SUFFIXES: Final = {GZIP: ".gz", BZIP2: ".bz2", XZ: ".xz"}
_TAR_SUFFIXES: Final = (".tgz", ".tbz2", ".txz")


def read_zip(container: Container) -> Raw:
    """Return the members of a ZIP archive as parts."""
    return Raw(ZIP, parts=_members_of(container))


def _members_of(container: Container) -> Iterator[RawPart]:
    for member in container.members:
        # A damaged archive may have members without a name.
        if not member.filename or member.is_dir():
            continue
        try:
            yield RawPart(member.filename, container.read(member))
        except ExtractionFailed as failure:
            if failure.reason is Reason.BOMB:
                raise
            yield RawPart(member.filename, None, problem=failure.reason)


def read_tar(body: bytes, budget: Budget) -> Raw:
    """Return the regular files of a tar archive as parts. Links and devices are left out."""
    return Raw(TAR, parts=_files_of(body, budget))


def _files_of(body: bytes, budget: Budget) -> Iterator[RawPart]:
    with failing_plainly("tar"):
        try:
            with tarfile.open(fileobj=io.BytesIO(body), mode="r:") as archive:
                yield from _members_of_tar(archive, budget)
        except tarfile.TarError as error:
            raise ExtractionFailed(Reason.DAMAGED, "tar") from error


def _members_of_tar(archive: tarfile.TarFile, budget: Budget) -> Iterator[RawPart]:
    count = 0
    while (member := archive.next()) is not None:
        count += 1
        budget.check_members(count)
        # Links are left out, because `extractfile` would follow a chain of links between members.
        if member.isreg() and (opened := archive.extractfile(member)) is not None:
            yield RawPart(member.name, budget.read_all(opened.read))


def read_compressed(body: bytes, media_type: str, name: str, budget: Budget) -> Raw:
    """
    Return the file inside a compressed file (such as `.gz`) as the only part.

    Raises:
        ExtractionFailed: the file is damaged, or larger than the budget.
    """
    with failing_plainly(media_type), _OPENERS[media_type](io.BytesIO(body)) as opened:
        unpacked = budget.read_all(opened.read)
    suffix = _SUFFIXES[media_type]
    inner = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    if inner.lower().endswith(_TAR_SUFFIXES):
        inner = inner.rpartition(".")[0] + ".tar"
    return Raw(media_type, parts=[RawPart(inner or "content", unpacked)])
