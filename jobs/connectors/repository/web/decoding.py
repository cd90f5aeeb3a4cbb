"""
Undoing Content-Encoding piece by piece, so that a few bytes cannot become gigabytes of memory.

aiohttp can do this for one coding; here two may be nested, every piece is at most 64 KiB, and a stream
that is cut or damaged is told from one that is whole.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import brotli  # type: ignore[import-untyped]  # it ships none

ACCEPTED: Final = "gzip, deflate, br"

_PIECE: Final = 64 * 1024
_MOST_CODINGS: Final = 2
# A gzip file may be a series of members; so many of them that say nothing are an attack on the CPU.
_MOST_MEMBERS: Final = 1000
# Written by servers that mean no coding at all.
_NO_CODING: Final = frozenset({"", "identity", "none", "utf-8"})


class UnknownCoding(Exception):
    """The body is in a coding that we did not offer to read, or in too many."""


class BadCoding(Exception):
    """The body is not a whole, well-formed stream of its coding."""


class _Stage(Protocol):
    def decode(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None: ...


class Decoder:
    """The codings of one body. `decode` yields pieces as they come; `finish` says that no more will."""

    def __init__(self, stages: list[_Stage]) -> None:
        self._stages = stages

    def decode(self, data: bytes) -> Iterator[bytes]:
        pieces: Iterable[bytes] = (data,)
        for stage in self._stages:
            pieces = _through(stage, pieces)
        yield from pieces

    def finish(self) -> None:
        """
        Raises:
            BadCoding: the stream is not at its end.
        """
        for stage in self._stages:
            stage.finish()


def decoder_for(content_encoding: str) -> Decoder | None:
    """
    Return what reads a body with this Content-Encoding, None when there is nothing to undo.

    Raises:
        UnknownCoding
    """
    names = [name.strip().lower() for name in content_encoding.split(",")]
    names = [name for name in names if name not in _NO_CODING]
    if not names:
        return None
    if len(names) > _MOST_CODINGS:
        raise UnknownCoding(f"{len(names)} nested codings")
    stages: list[_Stage] = []
    for name in reversed(names):
        if name in {"gzip", "x-gzip"}:
            stages.append(_Gzip())
        elif name == "deflate":
            stages.append(_Deflate())
        elif name == "br":
            stages.append(_Brotli())
        else:
            raise UnknownCoding(name[:40])
    return Decoder(stages)


def _through(stage: _Stage, pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from stage.decode(piece)


def _inflate(inflater: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    piece = b""
    # A full piece means that more may wait inside although all input is used.
    while (data or len(piece) == _PIECE) and not inflater.eof:
        try:
            piece = inflater.decompress(data, _PIECE)
        except zlib.error as error:
            raise BadCoding(str(error)) from None
        data = inflater.unconsumed_tail
        if piece:
            yield piece


class _Gzip:
    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(wbits=31)
        self._members = 0
        self._begun = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflater.eof:
                # Servers pad: what follows the end and is no further member is not ours to judge.
                if data[:1] != b"\x1f":
                    return
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise BadCoding(f"more than {_MOST_MEMBERS} gzip members")
                self._inflater = zlib.decompressobj(wbits=31)
            self._begun = True
            yield from _inflate(self._inflater, data)
            data = self._inflater.unused_data

    def finish(self) -> None:
        if self._begun and not self._inflater.eof:
            raise BadCoding("the gzip stream is cut")


class _Deflate:
    """By the standard a zlib stream; many servers send it without the wrapping."""

    def __init__(self) -> None:
        self._inflater: zlib._Decompress | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        if not data:
            return
        if self._inflater is None:
            self._inflater = zlib.decompressobj(wbits=15 if data[0] & 0x0F == 8 else -15)
        yield from _inflate(self._inflater, data)

    def finish(self) -> None:
        if self._inflater is not None and not self._inflater.eof:
            raise BadCoding("the deflate stream is cut")


class _Brotli:
    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()
        self._begun = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._decompressor.is_finished():
            return
        self._begun = self._begun or bool(data)
        while True:
            try:
                piece = self._decompressor.process(data, output_buffer_limit=_PIECE)
            except brotli.error as error:
                raise BadCoding(str(error)) from None
            if piece:
                yield piece
            if self._decompressor.can_accept_more_data() or self._decompressor.is_finished():
                return
            data = b""

    def finish(self) -> None:
        if self._begun and not self._decompressor.is_finished():
            raise BadCoding("the brotli stream is cut")
