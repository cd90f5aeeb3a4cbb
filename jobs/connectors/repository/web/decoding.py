"""
Incremental decoding of Content-Encoding, so that a few bytes cannot become gigabytes of memory.

aiohttp can do this for one coding. Here two may be nested, every piece is at most 128 KiB, and a cut or damaged stream
is distinguished from a complete one.

A decompressor may have used all of its input and still hold output. Each stage requests that output before it takes
more input. Otherwise large pages would be cut.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import brotli  # type: ignore[import-untyped]  # it has no types
from backports import zstd

ACCEPTED: Final = "gzip, deflate, br, zstd"

# Largest output that is requested in one call (bytes). zlib and zstd respect it, and brotli may exceed it by half.
_PIECE: Final = 64 * 1024
_MOST_CODINGS: Final = 2
# Largest number of gzip members or zstd frames in a body. A flood of empty ones would be an attack on the CPU.
_MOST_MEMBERS: Final = 1000
# RFC 9659: a window of 8 MiB is the largest that an HTTP client has to read.
_ZSTD_OPTIONS: Final[Mapping[int, int]] = {zstd.DecompressionParameter.window_log_max: 23}
# The codings that IANA lists, without "identity". Servers also write charsets and other words here. Browsers ignore
# these words, and so does crawlctl.
_CODINGS: Final = frozenset({
    "aes128gcm", "br", "compress", "dcb", "dcz", "deflate", "exi", "gzip", "pack200-gzip", "x-compress", "x-gzip", "zstd",
})  # fmt: skip


class UnknownCoding(Exception):
    """The body has a coding that the request did not offer, or too many codings."""


class BadCoding(Exception):
    """The body is not a complete, well-formed stream of its coding."""


class _Stage(Protocol):
    def decode(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None: ...


class Decoder:
    """The codings of one body. `decode` yields pieces as they arrive. `finish` ends the stream."""

    def __init__(self, stages: list[_Stage]) -> None:
        self._stages = stages

    def decode(self, data: bytes) -> Iterator[bytes]:
        pieces: Iterable[bytes] = (data,)
        for stage in self._stages:
            pieces = _through(stage, pieces)
        yield from pieces

    def finish(self) -> None:
        """
        Check that the streams are complete.

        Raises:
            BadCoding: a stream has not ended.
        """
        for stage in self._stages:
            stage.finish()


def decoder_for(content_encoding: str) -> Decoder | None:
    """
    Return a decoder of bodies with this Content-Encoding; None if there is nothing to decode.

    Raises:
        UnknownCoding: the body has a coding that was not offered, or too many codings.
    """
    names = [name.strip().lower() for name in content_encoding.split(",")]
    names = [name for name in names if name in _CODINGS]
    if not names:
        return None
    if len(names) > _MOST_CODINGS:
        raise UnknownCoding(f"{len(names)} nested codings, at most {_MOST_CODINGS} are decoded")
    stages: list[_Stage] = []
    for name in reversed(names):
        if name in {"gzip", "x-gzip"}:
            stages.append(_gzip())
        elif name == "deflate":
            stages.append(_Deflate())
        elif name == "br":
            stages.append(_Brotli())
        elif name == "zstd":
            stages.append(_zstd())
        else:
            raise UnknownCoding(name[:40])
    return Decoder(stages)


def _through(stage: _Stage, pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from stage.decode(piece)


class _Reader(Protocol):
    """The methods that the decompressors of zlib and zstd have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


_ReaderT = TypeVar("_ReaderT", bound=_Reader)


def _inflate(inflater: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    piece = b""
    # If a piece is full, the decompressor may hold more output although it has used all input.
    while (data or len(piece) == _PIECE) and not inflater.eof:
        try:
            piece = inflater.decompress(data, _PIECE)
        except zlib.error as error:
            raise BadCoding(str(error)) from None
        data = inflater.unconsumed_tail
        if piece:
            yield piece


def _read_frame(decompressor: zstd.ZstdDecompressor, data: bytes) -> Iterator[bytes]:
    while (data or not decompressor.needs_input) and not decompressor.eof:
        try:
            piece = decompressor.decompress(data, _PIECE)
        except zstd.ZstdError as error:
            raise BadCoding(str(error)) from None
        data = b""
        if piece:
            yield piece


class _Series(Generic[_ReaderT]):
    """A series of gzip members or zstd frames. Bytes after the last one are padding by the server, and are ignored."""

    def __init__(
        self,
        name: str,
        *,
        starts: frozenset[int],
        open_member: Callable[[], _ReaderT],
        read_member: Callable[[_ReaderT, bytes], Iterator[bytes]],
    ) -> None:
        """`starts` holds each first byte that a member may have."""
        self._name = name
        self._starts = starts
        self._open_member = open_member
        self._read_member = read_member
        self._member: _ReaderT | None = None
        self._members = 0
        self._is_padding = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data and not self._is_padding:
            if self._member is None or self._member.eof:
                if self._member is not None and data[0] not in self._starts:
                    self._is_padding = True
                    return
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise BadCoding(f"more than {_MOST_MEMBERS} {self._name} members")
                self._member = self._open_member()
            yield from self._read_member(self._member, data)
            data = self._member.unused_data

    def finish(self) -> None:
        if self._member is not None and not self._member.eof:
            raise BadCoding(f"the {self._name} stream ends early")


def _gzip() -> _Stage:
    return _Series(
        "gzip",
        starts=frozenset({0x1F}),
        open_member=partial(zlib.decompressobj, wbits=31),
        read_member=_inflate,
    )


def _zstd() -> _Stage:
    return _Series(
        "zstd",
        # The first bytes of zstd frames: of frames with data, and of the sixteen kinds of frames that a reader skips.
        starts=frozenset({0x28, *range(0x50, 0x60)}),
        open_member=partial(zstd.ZstdDecompressor, options=_ZSTD_OPTIONS),
        read_member=_read_frame,
    )


class _Deflate:
    """A deflate stream. The standard demands a zlib header, but many servers omit it, so both forms are read."""

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
            raise BadCoding("the deflate stream ends early")


class _Brotli:
    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()
        self._begun = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._begun = self._begun or bool(data)
        while not self._decompressor.is_finished():
            try:
                piece = self._decompressor.process(data, output_buffer_limit=_PIECE)
            except brotli.error as error:
                raise BadCoding(str(error)) from None
            # Only an empty piece shows that the decompressor holds no more output, because `can_accept_more_data` is
            # about its input.
            if not piece:
                return
            yield piece
            data = b""

    def finish(self) -> None:
        if self._begun and not self._decompressor.is_finished():
            raise BadCoding("the brotli stream ends early")
