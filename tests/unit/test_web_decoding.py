"""Proves that bodies of every size, in pieces of every size, survive each content coding unchanged."""

import functools
import gzip
import random
import zlib

import brotli
import pytest
from backports import zstd

from jobs.connectors.repository.web.decoding import BadCoding, decoder_for
from tests.support.tables import each_row

KIB = 1024
LARGEST_PIECE = 128 * KIB


def raw_deflate(body):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(body) + compressor.flush()


def halves(compress):
    """Return a compressor that makes two members or frames instead of one."""
    return lambda body: compress(body[: len(body) // 2]) + compress(body[len(body) // 2 :])


def skippable_frame(content):
    return b"\x50\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


CODINGS = {
    "gzip": ("gzip", gzip.compress),
    "gzip of two members": ("gzip", halves(gzip.compress)),
    "deflate": ("deflate", zlib.compress),
    "deflate without its wrapping": ("deflate", raw_deflate),
    "br": ("br", functools.partial(brotli.compress, quality=5)),
    "zstd": ("zstd", zstd.compress),
    "zstd of two frames": ("zstd", halves(zstd.compress)),
    "zstd with a frame to skip": ("zstd", lambda body: skippable_frame(b"note") + zstd.compress(body)),
    "br in gzip": ("br, gzip", lambda body: gzip.compress(brotli.compress(body, quality=5))),
    "gzip in zstd": ("gzip, zstd", lambda body: zstd.compress(gzip.compress(body))),
}


@functools.cache
def page_of(size):
    """Return a page of words and numbers that shrinks to about a quarter, like real pages."""
    chance = random.Random(size)
    words = [f"<p>{chance.getrandbits(40):x}" if chance.random() < 0.2 else "wort und satz" for _ in range(size // 12)]
    return " ".join(words).encode().ljust(size)[:size]


def read(encoding, coded, piece_size):
    decoder = decoder_for(encoding)
    pieces = [
        piece
        for start in range(0, len(coded), piece_size)
        for piece in decoder.decode(coded[start : start + piece_size])
    ]
    decoder.finish()
    assert max(map(len, pieces)) <= LARGEST_PIECE
    return b"".join(pieces)


@each_row("piece_size", [1000, 16 * KIB, 64 * KIB, 8 * KIB * KIB])
@each_row("size", [64 * KIB, 64 * KIB + 1, 402_000, 5 * KIB * KIB])
@each_row("coding", CODINGS)
def test_a_body_is_read_whole(coding, size, piece_size):
    encoding, compress = CODINGS[coding]
    body = page_of(size)

    assert read(encoding, compress(body), piece_size) == body


@each_row("coding", CODINGS)
def test_a_body_that_comes_byte_by_byte_is_read_whole(coding):
    encoding, compress = CODINGS[coding]
    body = page_of(64 * KIB + 1)

    assert read(encoding, compress(body), 1) == body


@each_row("coding", CODINGS)
def test_a_body_of_one_repeated_byte_comes_in_bounded_pieces(coding):
    encoding, compress = CODINGS[coding]
    body = b"\0" * 5_000_000

    assert read(encoding, compress(body), 64 * KIB) == body


@each_row("cut", [1, 5, 1000])
@each_row("coding", CODINGS)
def test_a_cut_body_is_never_whole(coding, cut):
    encoding, compress = CODINGS[coding]

    with pytest.raises(BadCoding):
        read(encoding, compress(page_of(402_000))[:-cut], 64 * KIB)


@each_row("coding", ["gzip", "zstd"])
@each_row("piece_size", [1, 64 * KIB])
def test_padding_after_the_last_member_is_ignored(coding, piece_size):
    encoding, compress = CODINGS[coding]

    # The padding has bytes that could begin a member.
    assert read(encoding, compress(b"hello") + b"\0\0\x1f\x28\n", piece_size) == b"hello"


@each_row("coding", ["gzip", "zstd"])
def test_a_flood_of_empty_members_is_refused(coding):
    encoding, compress = CODINGS[coding]

    with pytest.raises(BadCoding, match="more than 1000"):
        list(decoder_for(encoding).decode(compress(b"") * 1001))


def test_a_zstd_frame_with_a_huge_window_is_refused():
    window = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    compressor = zstd.ZstdCompressor(options=window)
    coded = compressor.compress(page_of(402_000)) + compressor.flush()

    with pytest.raises(BadCoding, match="too much memory"):
        list(decoder_for("zstd").decode(coded))
