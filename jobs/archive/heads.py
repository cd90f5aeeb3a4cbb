"""Parses headers of WARC records of any origin: their end, their fields, and the length of the block after them."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from jobs.archive.members import BadRecord

VERSION: Final = b"WARC/"
# Longest header of a WARC record (bytes).
MOST_HEAD: Final = 64 * 1024

Fields = Mapping[str, str]


def end_of_head(begin: bytes | bytearray) -> int | None:
    """Return the end of a header, or None if more bytes are needed."""
    if not begin.startswith(VERSION[: len(begin)]):
        raise BadRecord("it does not begin with WARC/")
    end = begin.find(b"\r\n\r\n")
    if (end < 0 and len(begin) > MOST_HEAD) or end > MOST_HEAD:
        raise BadRecord(f"its header has more than {MOST_HEAD} bytes")
    return None if end < 0 else end + 4


def fields_of(head: bytes) -> Fields:
    """
    Return the fields of a header by their names in lower case. If several fields have the same name, the first field
    counts.
    """
    fields: dict[str, str] = {}
    last = ""
    for line in head.decode("utf-8", "replace").split("\r\n")[1:]:
        if line[:1] in {" ", "\t"} and last:
            fields[last] += f" {line.strip()}"
            continue
        name, colon, value = line.partition(":")
        last = name.strip().lower() if colon else ""
        if last and last not in fields:
            fields[last] = value.strip()
    return fields


def length_of(fields: Fields) -> int:
    length = fields.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise BadRecord(f"its length is invalid: {length[:20]!r}")
    return int(length)


def fingerprint_of(data: bytes) -> str:
    """Return a digest that distinguishes a record from others, given the bytes of its header."""
    return blake2b(data, digest_size=8).hexdigest()
