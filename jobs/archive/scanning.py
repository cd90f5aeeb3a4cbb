"""
Finds the answers in a part of an archive file of any origin, and their places, with bounded work.

A part begins where the part before it ended, because only the lengths of records tell where a record begins: the body
of a page may contain text that looks like a record. A damaged record is skipped: the scan goes on at the next bytes
that begin a record. The scan ends at a record that is incomplete because the file ends.

A part ends at a limit of its bytes, of its records, or of its inflated bytes. A record that inflates far more than
usual counts as damaged.
"""

import datetime as dt
import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Final

from jobs.archive import barc
from jobs.archive.heads import MOST_HEAD, VERSION, Fields, end_of_head, fields_of, fingerprint_of, length_of
from jobs.archive.members import BadRecord, Member, TornRecord
from jobs.archive.records import Archived, BadArchive, Format, RecordKind, moment_of, status_of

# Size of a part (bytes). A part ends after the record in which this size is reached.
PART_BYTES: Final = 4 * 1024 * 1024
_PART_RECORDS: Final = 20_000
_PART_INFLATED: Final = 1 << 30
# Largest number of damaged records in a part. After more, the rest of the file is skipped.
_MOST_BAD: Final = 1000
# Number of bytes of a block that are searched for its status line.
_STATUS_LINE: Final = 1024
# Number of bytes after a block that are read to check whether another record begins there.
_BEHIND: Final = 16
# Limits of the search for the next record after a damaged one: bytes that are searched, and candidates that are tried.
_SEARCHED: Final = 64 * 1024 * 1024
_CANDIDATES: Final = 10_000
_PIECE: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b\x08"
_BARC: Final = re.compile(rb"BARC1 [0-9A-Fa-f]{8} [RHD][CP] [0-9A-Fa-f]{4} [0-9A-Fa-f]{4} [0-9A-Fa-f]{4}\r\n\r\n")
# Types of WARC records that are answers.
ANSWERS: Final = frozenset({"response", "revisit", "resource"})


class NotByRecord(BadArchive):
    """The file is one gzip member, so no record in it can be read alone."""


@dataclass(frozen=True, slots=True)
class Found:
    """
    An answer in a file. `fingerprint` distinguishes its record from others at the same offset.

    Other tools store a not-modified answer as an ordinary record. Its kind is NOT_MODIFIED here, too.
    """

    url: str
    date: dt.datetime
    kind: RecordKind
    status: int
    is_truncated: bool
    fingerprint: str
    # Digest of the payload that the record names, or "".
    digest: str = ""
    offset: int = 0


@dataclass(slots=True)
class Part:
    """
    The result of a scan. `end` is the offset of the next record.

    A torn part ends with an incomplete record, or after too many damaged records. The rest of the file is not read.
    """

    found: list[Found] = field(default_factory=list)
    records: int = 0
    bad: int = 0
    end: int = 0
    is_torn: bool = False


@dataclass(slots=True)
class _Record:
    """The result of the scan of one record: its end, the answer in it (or None), and the number of inflated bytes."""

    end: int
    answer: Found | None = None
    is_bad: bool = False
    inflated: int = 0


def format_at(file: IO[bytes]) -> tuple[Format, bool] | None:
    """
    Return the format of a file, and True if its records are compressed one by one; None if the file is not an archive.
    """
    file.seek(0)
    begin = file.read(barc.HEADER_BYTES)
    if begin.startswith(VERSION):
        return Format.WARC, False
    if begin.startswith(_GZIP):
        return Format.WARC, True
    return (Format.BARC, False) if _BARC.match(begin) else None


def scan(file: IO[bytes], start: int) -> Part | None:
    """
    Return the answers of the part that begins at an offset; None if the file is not an archive.

    Raises:
        NotByRecord: all records of the file are in one gzip member.
        OSError: the disk failed.
    """
    form = format_at(file)
    if form is None:
        return None
    one, marks = _SCANNERS[form]
    size = file.seek(0, os.SEEK_END)
    part, at, inflated = Part(end=start), start, 0
    while at < size and at - start < PART_BYTES and part.records < _PART_RECORDS and inflated < _PART_INFLATED:
        try:
            record = one(file, at, size)
        except TornRecord:
            part.is_torn = True
            break
        except BadRecord:
            part.bad += 1
            at = _next_begin(file, at + 1, marks, size)
            if part.bad > _MOST_BAD:
                part.is_torn = True
                break
            continue
        part.records += 1
        part.bad += record.is_bad
        inflated += record.inflated
        if record.answer is not None:
            part.found.append(replace(record.answer, offset=at))
        at = record.end
    part.end = at
    return part


def _scan_packed(file: IO[bytes], at: int, _size: int) -> _Record:
    """Scan a WARC record in a gzip member."""
    member = Member(file, at)
    begin, behind = bytearray(), bytearray()
    fields: Fields | None = None
    is_bad, block_at, block_end, total = False, 0, 0, 0
    for piece in member.pieces():
        if len(begin) < MOST_HEAD + _STATUS_LINE:
            begin += piece[: MOST_HEAD + _STATUS_LINE - len(begin)]
        if fields is None and not is_bad:
            try:
                if (end := end_of_head(begin)) is not None:
                    block_at, fields = end, fields_of(bytes(begin[:end]))
                    block_end = block_at + length_of(fields)
            except BadRecord:
                # A bad header does not end the loop, because the rest of the member belongs to this record and must be
                # skipped.
                is_bad = True
        if fields is not None and total + len(piece) > block_end and len(behind) < _BEHIND:
            behind += piece[max(block_end - total, 0) :][: _BEHIND - len(behind)]
        total += len(piece)
    if behind.lstrip(b"\r\n").startswith(VERSION):
        raise NotByRecord("all records are in one gzip member")
    if fields is None or total < block_end:
        return _Record(member.end, is_bad=True, inflated=total)
    try:
        answer = _answer_of(fields, bytes(begin[:block_at]), bytes(begin[block_at:block_end][:_STATUS_LINE]))
    except BadRecord:
        return _Record(member.end, is_bad=True, inflated=total)
    return _Record(member.end, answer, inflated=total)


def _scan_plain(file: IO[bytes], at: int, size: int) -> _Record:
    """Scan a WARC record that is not compressed."""
    file.seek(at)
    begin = file.read(MOST_HEAD + _STATUS_LINE)
    blank = len(begin) - len(begin.lstrip(b"\r\n"))
    if blank == len(begin) and at + blank == size:
        return _Record(size)
    begin = begin[blank:]
    end = end_of_head(begin)
    if end is None:
        raise TornRecord("the header ends early")
    fields = fields_of(begin[:end])
    block_end = at + blank + end + length_of(fields)
    if block_end > size:
        raise TornRecord("the record ends early")
    file.seek(block_end)
    behind = file.read(_BEHIND)
    rest = behind.lstrip(b"\r\n")
    if rest and not rest.startswith(VERSION[: len(rest)]):
        raise BadRecord("its length is wrong")
    behind_end = block_end + len(behind) - len(rest)
    block = begin[end : end + min(_STATUS_LINE, length_of(fields))]
    return _Record(behind_end, _answer_of(fields, begin[:end], block))


def _scan_barc(file: IO[bytes], at: int, size: int) -> _Record:
    file.seek(at)
    header = file.read(barc.HEADER_BYTES)
    if _BARC.match(header) is None:
        raise TornRecord("the header ends early") if len(header) < barc.HEADER_BYTES else BadRecord("no header")
    length, kind, mode, blocks = barc.parse_header(header, at)
    end = at + barc.HEADER_BYTES + length
    if end > size:
        raise TornRecord("the record ends early")
    if kind == "R":
        if length == 0 and end < size:
            following = file.read(barc.HEADER_BYTES)
            if _BARC.match(following) is None:
                raise TornRecord("the record was never completed")
        return _Record(end)
    if length == 0:
        return _Record(end)
    meta = file.read(min(length, blocks[0] if mode == "P" else _PIECE))
    if mode == "C":
        try:
            meta = zlib.decompressobj(wbits=31).decompress(meta, max(blocks[0], 1))
        except zlib.error:
            return _Record(end, is_bad=True)
    try:
        record = barc.BarcRecord(kind, mode, barc.lines_of(meta[: blocks[0]]))
        read = of_barc(barc.to_archived(record), kind)
        if not _is_of_the_web(read.url):
            return _Record(end)
        digest = dict(record.meta).get(b"payload-digest", b"").decode(errors="replace")
        fingerprint = barc_fingerprint(header, record)
        found = Found(read.url, read.date, read.kind, read.status, bool(read.truncated), fingerprint, digest)
        return _Record(end, _checked(found))
    except BadArchive:
        return _Record(end, is_bad=True)


# By format: the function that scans one record, and the bytes with which a record begins.
_SCANNERS: Final[Mapping[tuple[Format, bool], tuple[Callable[[IO[bytes], int, int], _Record], bytes]]] = {
    (Format.WARC, True): (_scan_packed, _GZIP),
    (Format.WARC, False): (_scan_plain, VERSION),
    (Format.BARC, False): (_scan_barc, b"BARC1 "),
}


def _next_begin(file: IO[bytes], at: int, mark: bytes, size: int) -> int:
    """Return the offset of the next record, or the offset at which the scan of this part gives up."""
    stop, candidates = min(at + _SEARCHED, size), 0
    while at < stop:
        file.seek(at)
        piece = file.read(min(_PIECE, stop - at))
        found = piece.find(mark)
        if found < 0:
            at = at + len(piece) - len(mark) + 1 if at + len(piece) < stop else stop
            continue
        at += found
        candidates += 1
        if candidates > _CANDIDATES:
            return stop
        if _begins_record(file, at, mark):
            return at
        at += 1
    return stop


def _begins_record(file: IO[bytes], at: int, mark: bytes) -> bool:
    file.seek(at)
    if mark == _GZIP:
        return _begins_member(file.read(_STATUS_LINE))
    if mark == VERSION:
        return re.match(rb"WARC/1\.[01]\r\n", file.read(16)) is not None
    return _BARC.match(file.read(barc.HEADER_BYTES)) is not None


def _begins_member(begin: bytes) -> bool:
    try:
        return zlib.decompressobj(wbits=31).decompress(begin, len(VERSION)) == VERSION
    except zlib.error:
        return False


def _answer_of(fields: Fields, head: bytes, block: bytes) -> Found | None:
    """
    Return the answer in a record, from its fields and the beginning of its block; None if the record has no answer.
    """
    kind, url = fields.get("warc-type", ""), fields.get("warc-target-uri", "").strip("<>")
    if kind not in ANSWERS or not _is_of_the_web(url):
        return None
    line = block.partition(b"\n")[0]
    said, status = RecordKind.RESPONSE, status_of(line) if line.startswith(b"HTTP/") else 0
    if kind == "resource":
        status = 200
    elif kind == "revisit":
        is_same = fields.get("warc-profile", "").endswith("identical-payload-digest")
        said = RecordKind.SAME_PAYLOAD if is_same else RecordKind.NOT_MODIFIED
        status = status or (200 if is_same else 304)
    elif not line.startswith(b"HTTP/"):
        return None
    date = moment_of(fields.get("warc-date", ""))
    is_truncated, digest = "warc-truncated" in fields, fields.get("warc-payload-digest", "")
    return _checked(Found(url, date, said, status, is_truncated, fingerprint_of(head), digest))


def _is_of_the_web(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))


def _checked(found: Found) -> Found:
    """
    Return the answer with its date in UTC. A 304 gets the kind of a revisit.

    Raises:
        BadRecord: the date of the record cannot be expressed in UTC.
    """
    try:
        date = found.date.astimezone(dt.UTC)
    except OverflowError:
        raise BadRecord(f"its date is out of range: {found.date}") from None
    kind = RecordKind.NOT_MODIFIED if found.status == 304 and not found.kind.is_revisit else found.kind
    return replace(found, date=date, kind=kind)


def of_barc(archived: Archived, kind: str) -> Archived:
    """
    Return the exchange in a BARC record. A record of type D without a status, from another program, gets the status
    404.
    """
    return replace(archived, status=404) if kind == "D" and archived.status == 200 else archived


def barc_fingerprint(header: bytes, record: barc.BarcRecord) -> str:
    """Return a digest that distinguishes a BARC record from others."""
    return fingerprint_of(header + b"\n".join(b": ".join(line) for line in record.meta))
