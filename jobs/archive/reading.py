"""Bounded reading of one answer in an archive file of any origin."""

from typing import IO

from jobs.archive import barc, warc
from jobs.archive.heads import MOST_HEAD, Fields, end_of_head, fields_of, fingerprint_of, length_of
from jobs.archive.members import Member
from jobs.archive.records import Archived, BadArchive, Format, TooLarge
from jobs.archive.scanning import ANSWERS, barc_fingerprint, format_at, of_barc


def read_answer(file: IO[bytes], offset: int, *, most: int) -> tuple[Archived, str]:
    """
    Return the answer at an offset, with its fingerprint. The block of the answer may have at most `most` bytes.

    Raises:
        BadArchive: no answer begins there, or it is damaged.
        TooLarge: the answer has more bytes than allowed.
        OSError: the disk failed.
    """
    form = format_at(file)
    if form is None:
        raise BadArchive("this is not an archive file")
    if form[0] is Format.BARC:
        record = barc.read(file, offset, most=most)
        file.seek(offset)
        return of_barc(barc.to_archived(record), record.type), barc_fingerprint(file.read(barc.HEADER_BYTES), record)
    head, fields, block = _whole_record(file, offset, is_packed=form[1], most=most)
    kind = fields.get("warc-type", "")
    if kind not in ANSWERS:
        raise BadArchive(f"no answer begins at offset {offset}")
    if kind == "resource":
        kind = "response"
        said = fields.get("content-type", "").encode()
        block = b"HTTP/1.1 200 OK\r\nContent-Type: " + said + b"\r\n\r\n" + block
    return warc.answer_of(lambda name: fields.get(name.lower()), kind, block, offset, 0), fingerprint_of(head)


def _whole_record(file: IO[bytes], offset: int, *, is_packed: bool, most: int) -> tuple[bytes, Fields, bytes]:
    """Return the header of a WARC record, its fields, and its block."""
    most += MOST_HEAD
    if is_packed:
        data = bytearray()
        for piece in Member(file, offset).pieces():
            data += piece
            if len(data) > most:
                raise TooLarge(f"the record at offset {offset} has more than {most} bytes")
        end = end_of_head(data)
    else:
        file.seek(offset)
        data = bytearray(file.read(MOST_HEAD))
        end = end_of_head(data)
    if end is None:
        raise BadArchive(f"the record at offset {offset} has no header")
    head = bytes(data[:end])
    fields = fields_of(head)
    length = length_of(fields)
    if length > most:
        raise TooLarge(f"the record at offset {offset} has more than {most} bytes")
    if not is_packed:
        file.seek(offset + end)
        data[end:] = file.read(length)
    block = bytes(data[end : end + length])
    if len(block) < length:
        raise BadArchive(f"the record at offset {offset} ends early")
    return head, fields, block
