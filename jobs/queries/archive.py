"""The archive of a job: its files with their sizes, the records of a document, and one record with its body."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from django.db.models import Count, QuerySet, Sum

from jobs.archive import files
from jobs.archive.copies import Copy, copies_of
from jobs.archive.records import Archived, BadArchive, parse_head
from jobs.connectors.repository.web import decoding
from jobs.models import ArchiveFile, ArchiveRecord, FileState
from jobs.partitions.merged import Placed, Silent, local_job, merge_lines, read_everywhere
from nodes.errors import Refused, Unknown
from nodes.stores.port import StoreError

_T = TypeVar("_T")

# Numbers of files and of records that a page shows, the newest first.
MOST_SHOWN: Final = 100
# Largest number of bytes of a decoded body that are shown as text.
_MOST_TEXT: Final = 200_000


@dataclass(frozen=True, slots=True)
class JobArchive:
    """The newest files of a job's archive, and the sums over all of them."""

    files: Sequence[ArchiveFile]
    count: int
    length: int
    records: int


@dataclass(frozen=True, slots=True)
class ArchiveEverywhere:
    """The archive of a job in all partitions: the newest files, and sums without the `silent` partitions."""

    files: Sequence[Placed[ArchiveFile]]
    count: int
    length: int
    records: int
    silent: Sequence[Silent]


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """
    A record with its content. `text` is the beginning of the decoded body; `is_cut` is true if the body is longer.
    """

    row: ArchiveRecord
    content: Archived
    request_head: str
    response_head: str
    text: str
    is_cut: bool


def read_archive(job_id: int) -> JobArchive:
    """Return the archive of a job."""
    of_job = ArchiveFile.objects.filter(job_id=job_id)
    sums = of_job.aggregate(count=Count("id"), length=Sum("length"))
    records = ArchiveRecord.objects.filter(job_id=job_id).count()
    return JobArchive(list(of_job.order_by("-id")[:MOST_SHOWN]), sums["count"], sums["length"] or 0, records)


def read_archive_everywhere(job_id: int) -> ArchiveEverywhere:
    """Return the archive of a job in all partitions."""

    def elsewhere(_name: str) -> JobArchive:
        local = local_job(job_id)
        return JobArchive([], 0, 0, 0) if local is None else read_archive(local)

    found = read_everywhere(lambda: read_archive(job_id), elsewhere)
    parts = [found.own, *found.others.values()]
    newest = merge_lines(found, lambda part: part.files, key=lambda file: file.opened_at, is_downwards=True)
    return ArchiveEverywhere(
        newest[:MOST_SHOWN],
        sum(part.count for part in parts),
        sum(part.length for part in parts),
        sum(part.records for part in parts),
        found.silent,
    )


def records_of(job_id: int, document: uuid.UUID) -> QuerySet[ArchiveRecord]:
    """Return the records of a document, the newest first."""
    return ArchiveRecord.objects.filter(job_id=job_id, hash=document).select_related("file").order_by("-id")


def read_record(record_id: int) -> ReadRecord:
    """
    Return a record with its content.

    Raises:
        Unknown: there is no such record.
        Refused: no copy of its file can be read here, or the record is damaged.
    """
    row = ArchiveRecord.objects.select_related("file").filter(pk=record_id).first()
    if row is None:
        raise Unknown("archive record", record_id)
    content = read_copy(row.file, lambda copy: files.read_at(copy, row.offset))
    text, is_cut = _text_of(content)
    return ReadRecord(
        row=row,
        content=content,
        request_head=content.request_head.decode("utf-8", "replace"),
        response_head=content.response_head.decode("utf-8", "replace"),
        text=text,
        is_cut=is_cut,
    )


def read_copy(file: ArchiveFile, read: Callable[[Copy], _T]) -> _T:
    """
    Return the result of `read` for the first copy of a file that can be read: on this machine, then in its stores.

    Raises:
        Refused: no copy can be read here, or each copy is damaged.
    """
    problems = []
    for copy in copies_of(root=file.root, path=file.path, size=file.length, stores=sorted(file.stores)):
        try:
            return read(copy)
        except BadArchive as error:
            problems.append(f"The record is damaged: {error}.")
        except (OSError, StoreError) as error:
            problems.append(f"{copy} cannot be read: {error}.")
    if file.state == FileState.LOST:
        raise Refused(f"The file {file.path} is lost. {file.problem}")
    if not problems:
        raise Refused(
            f"The file {Path(file.root) / file.path} of machine {file.host} cannot be read here, and no store has it. "
            "Open the pages on that machine."
        )
    raise Refused(" ".join(problems))


def file_of_path(path: str) -> ArchiveFile | None:
    """
    Return the archive file with this path, relative to the root of archives, such as
    `job-3/3-20260301T120000Z-1f2e3d4c-0001.warc.gz`.
    """
    return ArchiveFile.objects.filter(path=path).order_by("-id").first()


def _text_of(content: Archived) -> tuple[str, bool]:
    """Return the beginning of a body as text, decoded as far as its Content-Encoding permits."""
    pieces, size = [], 0
    try:
        decoder = decoding.decoder_for(header_of(content, b"content-encoding"))
        for piece in (content.body,) if decoder is None else decoder.decode(content.body):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_TEXT:
                break
    except (decoding.UnknownCoding, decoding.BadCoding):
        if not pieces:
            pieces, size = [content.body], len(content.body)
    body = b"".join(pieces)[:_MOST_TEXT]
    return body.decode("utf-8", "replace").replace("\0", "\ufffd"), size > _MOST_TEXT


def header_of(content: Archived, name: bytes) -> str:
    """Return a header of a response; several values are joined by commas."""
    _, headers = parse_head(content.response_head)
    return ",".join(value.decode("latin-1") for known, value in headers if known.lower() == name)
