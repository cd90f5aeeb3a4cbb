"""
WARC 1.1 files with one gzip member per record.

This module writes records itself, because warcio takes several times as long for each (decision 0074). For reading,
this module uses warcio, so every file that warcio can read can be a source.
"""

import datetime as dt
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import ChunkedDataException, ChunkedDataReader
from warcio.exceptions import ArchiveLoadFailed

from jobs.archive.copies import Copy
from jobs.archive.packing import gzip_member
from jobs.archive.records import (
    Archived,
    BadArchive,
    Original,
    RecordKind,
    date_text,
    digest_of,
    moment_of,
    parse_head,
    status_of,
)

# Value of zlib's `wbits` for a gzip member with the largest window.
_GZIP: Final = 31
_PROFILE: Final = "http://netpreserve.org/warc/1.1/revisit/"
_PROFILES: Final = {
    RecordKind.SAME_PAYLOAD: "identical-payload-digest",
    RecordKind.NOT_MODIFIED: "server-not-modified",
}
_PIECE: Final = 1 << 20
# The hexadecimal digit with the variant of a UUID, by the random digit that it replaces.
_VARIANT: Final = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}

_Fields = Sequence[tuple[str, str]]


def encode_info(*, software: str, date: dt.datetime, facts: _Fields = ()) -> bytes:
    """Return the warcinfo record that begins a file."""
    block = "".join(
        f"{name}: {value}\r\n"
        for name, value in [
            ("software", software),
            ("format", "WARC File Format 1.1"),
            ("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"),
            *facts,
        ]
    ).encode()
    return _record("warcinfo", _id(), date_text(date), block, [("Content-Type", "application/warc-fields")])


def encode(given: Archived) -> list[bytes]:
    """Return the records of an exchange: the response or the revisit, then the request, then the metadata."""
    main, date = _id(), date_text(given.date)
    fields = [
        ("WARC-Target-URI", _uri(given.url)),
        ("Content-Type", "application/http; msgtype=response"),
        ("WARC-Payload-Digest", given.digest),
    ]
    if given.address:
        fields.append(("WARC-IP-Address", given.address))
    if given.truncated:
        fields.append(("WARC-Truncated", given.truncated))
    if given.kind.is_revisit:
        fields.append(("WARC-Profile", _PROFILE + _PROFILES[given.kind]))
        if given.original is not None:
            fields.append(("WARC-Refers-To-Target-URI", _uri(given.original.url)))
            fields.append(("WARC-Refers-To-Date", date_text(given.original.date)))
    # Empty fields are left out: a not-modified answer without an original has no digest, because the server sent no
    # body.
    fields = [(name, value) for name, value in fields if value]
    block = given.response_head + (b"" if given.kind.is_revisit else given.body)
    # Other records have no digest of their block, because gzip already has a checksum for each record.
    fields.append(("WARC-Block-Digest", digest_of(block)))
    kind = "revisit" if given.kind.is_revisit else "response"
    records = [_record(kind, main, date, block, fields)]
    beside = [("WARC-Target-URI", _uri(given.url)), ("WARC-Concurrent-To", main)]
    if given.request_head:
        http = [("Content-Type", "application/http; msgtype=request"), *beside]
        records.append(_record("request", _id(), date, given.request_head, http))
    if given.facts:
        text = "".join(f"{name}: {value}\r\n" for name, value in given.facts).encode()
        fields = [("Content-Type", "application/warc-fields"), *beside]
        records.append(_record("metadata", _id(), date, text, fields))
    return records


def read_all(path: Copy) -> Iterator[Archived]:
    """
    Yield the archived answers of a file in the order of their records. An answer comes with its request if the request
    is the record before or after the answer.

    Raises:
        BadArchive: the file is damaged.
    """
    with path.open("rb") as file:
        waiting: Archived | None = None
        waiting_id = ""
        requests: dict[str, bytes] = {}
        for record, offset, length, block in _records(file, path):
            concurrent = record.rec_headers.get_header("WARC-Concurrent-To") or ""
            if record.rec_type == "request":
                if waiting is not None and concurrent == waiting_id:
                    waiting = replace(waiting, request_head=block)
                else:
                    requests[concurrent] = block
            elif record.rec_type == "metadata" and waiting is not None and concurrent == waiting_id:
                waiting = replace(waiting, facts=_facts(block))
            elif record.rec_type in {"response", "revisit"}:
                if waiting is not None:
                    yield waiting
                waiting, waiting_id = None, record.rec_headers.get_header("WARC-Record-ID") or ""
                if _is_http(record):
                    request = requests.pop(waiting_id, b"")
                    waiting = replace(_archived(record, block, offset, length), request_head=request)
        if waiting is not None:
            yield waiting


def read_at(path: Copy, offset: int) -> Archived:
    """
    Return the archived answer at an offset, with its request if the request follows the answer.

    Raises:
        BadArchive: no record of an answer begins at this offset.
    """
    with path.open("rb") as file:
        file.seek(offset)
        records = _records(file, path)
        record, _, length, block = next(records, (None, 0, 0, b""))
        if record is None or record.rec_type not in {"response", "revisit"} or not _is_http(record):
            raise BadArchive(f"{path}: no response begins at offset {offset}")
        answer = _archived(record, block, offset, length)
        # The answer is complete, so a damaged next record is ignored.
        with suppress(BadArchive):
            following, _, _, request = next(records, (None, 0, 0, b""))
            own = record.rec_headers.get_header("WARC-Record-ID")
            if (
                following is not None
                and following.rec_type == "request"
                and following.rec_headers.get_header("WARC-Concurrent-To") == own
            ):
                return replace(answer, request_head=request)
    return answer


def whole_length(path: Path, *, after: int = 0) -> int:
    """Return the end of the last complete gzip member. The search begins at `after`, where a member ends."""
    end = at = after
    with path.open("rb") as file:
        file.seek(after)
        decoder = zlib.decompressobj(_GZIP)
        rest = b""
        while data := rest or file.read(_PIECE):
            rest = b""
            try:
                decoder.decompress(data)
            except zlib.error:
                return end
            at += len(data) - len(decoder.unused_data)
            if decoder.eof:
                end, rest = at, decoder.unused_data
                decoder = zlib.decompressobj(_GZIP)
    return end


def _records(file: IO[bytes], path: Copy) -> Iterator[tuple[Any, int, int, bytes]]:
    """Yield each record with its offset, its length, and its whole block."""
    start = file.tell()
    records = ArchiveIterator(file, no_record_parse=True)
    try:
        for record in records:
            block = record.raw_stream.read()
            declared = record.rec_headers.get_header("Content-Length") or ""
            if declared.isdigit() and len(block) < int(declared):
                raise BadArchive(f"{path}: the record at offset {records.get_record_offset()} ends early")
            # warcio knows the length only after it has read to the end of the record.
            offset = records.get_record_offset()
            yield record, max(offset, start), records.get_record_length(), block
    except (ArchiveLoadFailed, zlib.error, EOFError, UnicodeError) as error:
        raise BadArchive(f"{path}: {error}") from error


def _is_http(record: Any) -> bool:  # noqa: ANN401 (a record of warcio, which has no types)
    return (record.rec_headers.get_header("WARC-Target-URI") or "").strip("<>").startswith(("http:", "https:"))


def _archived(record: Any, block: bytes, offset: int, length: int) -> Archived:  # noqa: ANN401 (warcio has no types)
    return answer_of(record.rec_headers.get_header, record.rec_type, block, offset, length)


def answer_of(field: Callable[[str], str | None], record_type: str, block: bytes, offset: int, length: int) -> Archived:
    """Return the answer in a record of the type response or revisit. `field` returns a field of its header by name."""
    head, body = _split(block)
    line, headers = parse_head(head)
    kind, original = RecordKind.RESPONSE, None
    if record_type == "revisit":
        is_same = (field("WARC-Profile") or "").endswith("identical-payload-digest")
        kind, body = (RecordKind.SAME_PAYLOAD if is_same else RecordKind.NOT_MODIFIED), b""
        url, date = field("WARC-Refers-To-Target-URI"), field("WARC-Refers-To-Date")
        original = Original(url.strip("<>"), moment_of(date)) if url and date else None
    elif any(name.lower() == b"transfer-encoding" and b"chunked" in value.lower() for name, value in headers):
        # Other crawlers keep the chunks.
        body = _without_chunks(body)
    return Archived(
        url=(field("WARC-Target-URI") or "").strip("<>"),
        date=moment_of(field("WARC-Date") or ""),
        kind=kind,
        status=status_of(line),
        request_head=b"",
        response_head=head,
        body=body,
        digest=field("WARC-Payload-Digest") or ("" if kind.is_revisit else digest_of(body)),
        truncated=field("WARC-Truncated") or "",
        original=original,
        address=field("WARC-IP-Address") or "",
        offset=offset,
        length=length,
    )


def _split(block: bytes) -> tuple[bytes, bytes]:
    """Return the head of an HTTP message and its body."""
    end = block.find(b"\r\n\r\n")
    return (block, b"") if end < 0 else (block[: end + 4], block[end + 4 :])


def _without_chunks(body: bytes) -> bytes:
    try:
        return bytes(ChunkedDataReader(io.BytesIO(body), raise_exceptions=True).read())
    except ChunkedDataException:
        return body


def _facts(block: bytes) -> _Fields:
    lines = block.decode(errors="replace").splitlines()
    return [(name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]


def _record(kind: str, identity: str, date: str, block: bytes, fields: _Fields) -> bytes:
    lines = [
        "WARC/1.1",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: {identity}",
        f"WARC-Date: {date}",
        *[f"{name}: {value}" for name, value in fields],
        f"Content-Length: {len(block)}",
    ]
    text = "\r\n".join(lines).encode()
    return gzip_member(b"".join((text, b"\r\n\r\n", block, b"\r\n\r\n")))


def _id() -> str:
    """Return a random UUID of version 4 as an identity. `uuid.uuid4` takes four times as long."""
    digits = os.urandom(16).hex()
    variant = _VARIANT[digits[16]]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


def _uri(url: str) -> str:
    """
    Return the address for a header line, without line breaks. Canonical addresses have none, but other sources may.
    """
    return "".join(url.split())
