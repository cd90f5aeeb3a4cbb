"""
Finds the end of a response's body, and repairs a head that a strict parser refuses. Both work as in curl and browsers.

Servers send two equal lengths, a length together with chunks, a bare line feed after the size of a chunk, or bytes
after the end. Every browser accepts this. This module does no I/O and does not use aiohttp.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

# Largest sizes (bytes) of one line between chunks, and of all trailers together.
_MOST_LINE: Final = 16 * 1024
_MOST_TRAILERS: Final = 64 * 1024

_CHUNK_SIZE: Final = re.compile(rb"[ \t]*([0-9a-f]{1,15})[ \t]*(?:;.*)?", re.IGNORECASE | re.DOTALL)
_STATUS_LINE: Final = re.compile(rb"HTTP/[0-9]+(?:\.[0-9]+)?[ \t]+([0-9]{3})(.*)", re.IGNORECASE | re.DOTALL)
_FIELD_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LENGTH: Final = re.compile(rb"\+?([0-9]+)")


class BadFraming(Exception):
    """The end of a body cannot be found."""


class BodyByLength:
    """Finds the end of a body whose length is in the head of the response."""

    __slots__ = ("_left", "is_whole")

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_whole = not length

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of the data that belongs to the body, and the rest."""
        left = self._left = self._left - len(data)
        if left > 0:
            return data, b""
        self.is_whole = True
        return (data, b"") if left == 0 else (data[:left], data[left:])

    def may_end_here(self) -> bool:
        """True if the body is complete when the connection ends now."""
        return self.is_whole


class BodyToTheEnd:
    """Finds the end of a body that ends when its connection ends."""

    is_whole: Final = False

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""

    def may_end_here(self) -> bool:
        return True


class BodyInChunks:
    """
    Finds the end of a body in chunks. Lines between chunks may end with a bare line feed. Extensions and trailers are
    ignored.
    """

    def __init__(self) -> None:
        self.is_whole = False
        # Number of bytes that the current chunk still lacks, and the beginning of a line that has not arrived
        # completely.
        self._left = 0
        self._line = b""
        self._read_line = self._read_size
        self._trailers = 0

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """
        Return the content in the data, without sizes and line ends, and the bytes after the end of the body.

        Raises:
            BadFraming: the end of the body cannot be found.
        """
        pieces: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.is_whole:
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                pieces.append(piece)
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line += data[at:]
                at = size
            else:
                line = self._line + data[at:end]
                self._line = b""
                at = end + 1
                self._read_line(line.removesuffix(b"\r"))
            if len(self._line) > _MOST_LINE:
                raise BadFraming("a line between chunks is too long")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), data[at:]

    def may_end_here(self) -> bool:
        """
        True once the last chunk has come: content is then complete. Some servers omit the empty line that should
        follow.
        """
        return self._read_line == self._read_trailer

    def _read_size(self, line: bytes) -> None:
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise BadFraming("a chunk has no size")
        self._left = int(size[1], 16)
        self._read_line = self._read_end_of_chunk if self._left else self._read_trailer

    def _read_end_of_chunk(self, line: bytes) -> None:
        if line:
            raise BadFraming("a chunk is longer than its size")
        self._read_line = self._read_size

    def _read_trailer(self, line: bytes) -> None:
        self.is_whole = not line
        self._trailers += len(line)
        if self._trailers > _MOST_TRAILERS:
            raise BadFraming("the trailers are too long")


Body = BodyByLength | BodyInChunks | BodyToTheEnd


def repaired_head(head: bytes) -> bytes:
    """
    Return a head that has the same meaning and that a strict parser accepts. If the meaning is not certain, return the
    head unchanged.

    Lines that are not header fields are dropped. Equal lengths become one. If the body has chunks, a length is dropped.
    """
    first, *lines = (line.removesuffix(b"\r") for line in head.strip(b"\r\n").split(b"\n"))
    status = _STATUS_LINE.fullmatch(first)
    if status is None:
        return head
    fields = [one for one in _fields_of(lines) if one.name not in {b"content-length", b"transfer-encoding"}]
    framing = _framing_of(list(_fields_of(lines)))
    if framing is None:
        return head
    repaired = [b"HTTP/1.1 %b %b" % (status[1], status[2].replace(b"\r", b" ").strip())]
    repaired += [b"%b: %b" % (one.written, one.value) for one in (*fields, *framing)]
    return b"\r\n".join(repaired) + b"\r\n\r\n"


@dataclass(slots=True)
class _Field:
    written: bytes
    value: bytes
    name: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.written.lower()


def _fields_of(lines: list[bytes]) -> Iterator[_Field]:
    """Yield the header fields, without their line breaks."""
    last: _Field | None = None
    for line in lines:
        if line[:1] in {b" ", b"\t"}:
            if last is not None:
                last.value += b" " + _one_line(line)
            continue
        if last is not None:
            yield last
        name, colon, value = line.partition(b":")
        name = name.rstrip(b" \t")
        last = _Field(name, _one_line(value)) if colon and _FIELD_NAME.fullmatch(name) else None
    if last is not None:
        yield last


def _one_line(value: bytes) -> bytes:
    return value.replace(b"\r", b" ").strip(b" \t")


def _framing_of(fields: list[_Field]) -> list[_Field] | None:
    """
    Return a list with the field that frames the body, empty without such a field; None if the fields contradict each
    other.
    """
    codings = [coding.lower() for coding in _values_of(fields, b"transfer-encoding") if coding.lower() != b"identity"]
    if codings:
        return [_Field(b"Transfer-Encoding", b", ".join(dict.fromkeys(codings)))]
    lengths: set[int] = set()
    for value in _values_of(fields, b"content-length"):
        length = _LENGTH.fullmatch(value)
        if length is None:
            return None
        lengths.add(int(length[1]))
    if len(lengths) > 1:
        return None
    return [_Field(b"Content-Length", b"%d" % length) for length in lengths]


def _values_of(fields: list[_Field], name: bytes) -> list[bytes]:
    """Return the values of a list field, from all of its lines."""
    values = [value.strip(b" \t") for one in fields if one.name == name for value in one.value.split(b",")]
    return [value for value in values if value]
