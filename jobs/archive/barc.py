"""
BARC files, the archive format of iudex.

A record has a header of 36 bytes, three blocks of header lines (metadata, request, response), the body and a line
break:

    BARC1 LLLLLLLL TM MMMM QQQQ RRRR CRLF CRLF

L is the length of the record after this header. T is the type: H content, D delete, R replaced or never completed. M is
the mode: C compressed with gzip, P plain. The last three numbers are the lengths of the blocks before compression. All
numbers are hexadecimal. A record is first written with the type R and length 0. Its header is rewritten at the end, so
readers see complete records only.
"""

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from jobs.archive.copies import Copy
from jobs.archive.packing import gzip_member
from jobs.archive.records import (
    Archived,
    BadArchive,
    Original,
    RecordKind,
    TooLarge,
    date_text,
    digest_of,
    moment_of,
    parse_head,
    status_of,
)

HEADER_BYTES: Final = 36
_HEADER: Final = re.compile(
    rb"BARC1 ([0-9A-Fa-f]{8}) ([RHD])([CP]) ([0-9A-Fa-f]{4}) ([0-9A-Fa-f]{4}) ([0-9A-Fa-f]{4})\r\n\r\n"
)
_MOST_BLOCK: Final = 0xFFFF
_GZIP: Final = 31
_GONE: Final = frozenset({404, 410})
# Largest length of a decompressed record (bytes). It is the largest body that a crawl keeps.
_MOST_RECORD: Final = 1 << 30

Lines = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class BarcRecord:
    """One record: its type, its mode, its three blocks of lines, and its body."""

    type: str = "H"
    mode: str = "C"
    meta: Lines = ()
    request: Lines = ()
    response: Lines = ()
    body: bytes = b""
    offset: int = 0
    # Length of the record with its header (bytes).
    length: int = HEADER_BYTES


def write(file: IO[bytes], record: BarcRecord) -> tuple[int, int]:
    """Append a record to an unbuffered file. Return its offset and its length with its header."""
    offset = file.seek(0, os.SEEK_END)
    blocks = [_block(lines) for lines in (record.meta, record.request, record.response)]
    content = b"".join((*blocks, record.body))
    if content and record.mode == "C":
        content = gzip_member(content)
    if content:
        content += b"\r\n"
    lengths = [len(block) for block in blocks]
    _write_whole(file, _header(0, "R", record.mode, [0, 0, 0]) + content)
    file.seek(offset)
    _write_whole(file, _header(len(content), record.type, record.mode, lengths))
    file.seek(0, os.SEEK_END)
    return offset, HEADER_BYTES + len(content)


def mark_replaced(file: IO[bytes], offset: int) -> None:
    """Change the type of the record at an offset to R."""
    file.seek(offset)
    parse_header(file.read(HEADER_BYTES), offset)
    file.seek(offset + 15)
    _write_whole(file, b"R")
    file.seek(0, os.SEEK_END)


def read(file: IO[bytes], offset: int, *, most: int = _MOST_RECORD) -> BarcRecord:
    """
    Return the record at an offset.

    Raises:
        BadArchive: no complete record begins there.
        TooLarge: the record has more than `most` bytes, with its blocks.
    """
    most += 3 * _MOST_BLOCK
    file.seek(offset)
    size, kind, mode, lengths = parse_header(file.read(HEADER_BYTES), offset)
    if size > most:
        raise TooLarge(f"the record at offset {offset} has more than {most} bytes")
    content = file.read(size)
    if len(content) < size or (size and not content.endswith(b"\r\n")):
        raise BadArchive(f"the record at offset {offset} ends early")
    content = content[:-2]
    if content and mode == "C":
        unpacker = zlib.decompressobj(_GZIP)
        try:
            content = unpacker.decompress(content, most)
        except zlib.error as error:
            raise BadArchive(f"the record at offset {offset} is damaged: {error}") from error
        if not unpacker.eof and len(content) >= most:
            raise TooLarge(f"the record at offset {offset} has more than {most} bytes")
        if not unpacker.eof:
            raise BadArchive(f"the record at offset {offset} is damaged")
    if sum(lengths) > len(content):
        raise BadArchive(f"the record at offset {offset} has longer blocks than content")
    blocks, at = [], 0
    for length in lengths:
        blocks.append(lines_of(content[at : at + length]))
        at += length
    meta, request, response = blocks
    return BarcRecord(kind, mode, meta, request, response, content[at:], offset, HEADER_BYTES + size)


def lines_of(block: bytes) -> list[tuple[bytes, bytes]]:
    """Return the lines of a block."""
    return parse_head(b"\n" + block)[1]


def read_records(file: IO[bytes]) -> Iterator[BarcRecord]:
    """
    Yield all complete records, including replaced ones. Stop at the first record that is still being written.

    Raises:
        BadArchive: a record is damaged.
    """
    offset, end = 0, file.seek(0, os.SEEK_END)
    while offset + HEADER_BYTES <= end:
        file.seek(offset)
        size, kind, _, _ = parse_header(file.read(HEADER_BYTES), offset)
        if kind == "R" and size == 0 and offset + HEADER_BYTES < end and not _is_header_at(file, offset + HEADER_BYTES):
            return
        record = read(file, offset)
        yield record
        offset += record.length


def whole_length(path: Path, *, after: int = 0) -> int:
    """Return the end of the last complete record. The search begins at `after`, where a record ends."""
    offset, end = after, path.stat().st_size
    with path.open("rb") as file:
        while offset + HEADER_BYTES <= end:
            file.seek(offset)
            try:
                size, kind, _, _ = parse_header(file.read(HEADER_BYTES), offset)
            except BadArchive:
                break
            if (kind == "R" and size == 0) or offset + HEADER_BYTES + size > end:
                break
            offset += HEADER_BYTES + size
    return offset


def of_archived(given: Archived, *, mode: str = "C") -> BarcRecord:
    """
    Return the record of an exchange. If the answer says that the document no longer exists, the record has the type D.
    """
    line, headers = parse_head(given.response_head)
    request_line, request = parse_head(given.request_head)
    meta = [
        ("url", given.url),
        ("date", date_text(given.date)),
        ("status-line", line.decode("latin-1")),
        ("request-line", request_line.decode("latin-1")),
        ("kind", given.kind.value),
        ("payload-digest", given.digest),
        ("truncated", given.truncated),
        ("ip-address", given.address),
        ("refers-to-url", given.original.url if given.original else ""),
        ("refers-to-date", date_text(given.original.date) if given.original else ""),
        *((f"fact-{name}", value) for name, value in given.facts),
    ]
    return BarcRecord(
        type="D" if given.status in _GONE else "H",
        mode=mode,
        meta=[(name.encode(), _one_line(value)) for name, value in meta if value],
        request=request,
        response=headers,
        body=b"" if given.kind.is_revisit else given.body,
    )


def to_archived(record: BarcRecord) -> Archived:
    """
    Return the exchange of a record. Files of other programs may lack metadata.

    Raises:
        BadArchive: the record has no address.
    """
    meta = {name.decode(errors="replace").lower(): value.decode(errors="replace") for name, value in record.meta}
    if "url" not in meta:
        raise BadArchive(f"the record at offset {record.offset} has no url")
    line = meta.get("status-line", "").encode("latin-1", errors="replace")
    if not line:
        line = f"HTTP/1.1 {meta.get('status', '200')}".encode("latin-1", errors="replace")
    request_line = meta.get("request-line", "").encode("latin-1", errors="replace")
    kind = RecordKind(meta["kind"]) if meta.get("kind") in set(RecordKind) else RecordKind.RESPONSE
    original = None
    if "refers-to-url" in meta:
        original = Original(meta["refers-to-url"], moment_of(meta.get("refers-to-date", "")))
    return Archived(
        url=meta["url"],
        date=moment_of(meta.get("date", "")),
        kind=kind,
        status=status_of(line),
        request_head=_head(request_line, record.request) if request_line else b"",
        response_head=_head(line, record.response),
        body=record.body,
        digest=meta.get("payload-digest") or digest_of(record.body),
        truncated=meta.get("truncated", ""),
        original=original,
        address=meta.get("ip-address", ""),
        facts=[
            (name[5:].decode(errors="replace"), value.decode(errors="replace"))
            for name, value in record.meta
            if name.startswith(b"fact-")
        ],
        offset=record.offset,
        length=record.length,
    )


def read_all(path: Copy) -> Iterator[Archived]:
    """
    Yield the exchanges of a file in the order of their records, without replaced records.

    Raises:
        BadArchive: a record is damaged.
    """
    with path.open("rb") as file:
        try:
            for record in read_records(file):
                if record.type != "R" and record.meta:
                    yield to_archived(record)
        except BadArchive as error:
            raise BadArchive(f"{path}: {error}") from error


def read_at(path: Copy, offset: int) -> Archived:
    """
    Return the exchange at an offset.

    Raises:
        BadArchive: no complete record begins there.
    """
    with path.open("rb") as file:
        try:
            return to_archived(read(file, offset))
        except BadArchive as error:
            raise BadArchive(f"{path}: {error}") from error


def _header(size: int, kind: str, mode: str, lengths: Sequence[int]) -> bytes:
    meta, request, response = lengths
    return f"BARC1 {size:08x} {kind}{mode} {meta:04x} {request:04x} {response:04x}\r\n\r\n".encode()


def parse_header(header: bytes, offset: int) -> tuple[int, str, str, list[int]]:
    """
    Return the length of a record without its header, its type, its mode, and the lengths of its blocks.

    Raises:
        BadArchive: this is not a header.
    """
    found = _HEADER.fullmatch(header)
    if found is None:
        raise BadArchive(f"no record begins at offset {offset}")
    size, kind, mode, *lengths = found.groups()
    return int(size, 16), kind.decode(), mode.decode(), [int(length, 16) for length in lengths]


def _is_header_at(file: IO[bytes], offset: int) -> bool:
    file.seek(offset)
    return _HEADER.fullmatch(file.read(HEADER_BYTES)) is not None


def _block(lines: Lines) -> bytes:
    """Return a block of lines. Lines that would make the block longer than its length field allows are left out."""
    if not lines:
        return b""
    block = b""
    for name, value in lines:
        line = b"%s: %s\r\n" % (_utf8(name), _utf8(value))
        if len(block) + len(line) + 2 <= _MOST_BLOCK:
            block += line
    return block + b"\r\n"


def _utf8(text: bytes) -> bytes:
    """Return the bytes of a header as UTF-8. Bytes that are not UTF-8 are read as Latin-1."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1").encode()
    return text


def _one_line(text: str) -> bytes:
    return " ".join(text.split()).encode(errors="replace")


def _head(line: bytes, headers: Lines) -> bytes:
    return b"\r\n".join([line, *(b": ".join(header) for header in headers), b"", b""])


def _write_whole(file: IO[bytes], data: bytes) -> None:
    """Write all bytes, in several calls if the unbuffered file accepts only a part at a time."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
