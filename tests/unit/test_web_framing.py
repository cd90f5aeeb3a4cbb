"""Proves that faulty heads are repaired as browsers do, and that the end of each body is found."""

import pytest

from jobs.connectors.repository.web.framing import BadFraming, BodyByLength, BodyInChunks, BodyToTheEnd, repaired_head
from tests.support.tables import each_row

STATUS = b"HTTP/1.1 200 OK\r\n"


def read(body, data, piece_size):
    """Return the content, and the bytes after the end of the body."""
    content, rest = b"", b""
    for start in range(0, len(data), piece_size):
        if body.is_whole:
            rest += data[start : start + piece_size]
        else:
            part, after = body.take(data[start : start + piece_size])
            content, rest = content + part, rest + after
    return content, rest


PIECES = pytest.mark.parametrize("piece_size", [1, 2, 3, 7, 1000])


@PIECES
@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", id="as the standard says"),
        pytest.param(b"5\nhello\n6\n world\n0\n\n", id="bare line feeds"),
        pytest.param(b"5\nhello\r\n6\r\n world\n0\r\n\n", id="mixed line ends"),
        pytest.param(b"0005  \r\nhello\r\n 6\r\n world\r\n000\r\n\r\n", id="zeros and blanks around sizes"),
        pytest.param(b'5;name="a;b"\r\nhello\r\n6 ; x\r\n world\r\n0;last\r\n\r\n', id="extensions"),
        pytest.param(b"B\r\nhello world\r\n0\r\nX-A: b\r\nX-B: c\r\n\r\n", id="trailers"),
        pytest.param(b"1\r\nh\r\na\r\nello world\r\n0\r\n\r\n", id="a lower-case size"),
    ],
)
def test_chunks_are_read_as_browsers_read_them(chunks, piece_size):
    body = BodyInChunks()

    assert read(body, chunks + b"HTTP/1.1 200 OK", piece_size) == (b"hello world", b"HTTP/1.1 200 OK")
    assert body.is_whole


@PIECES
@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\n", b"\r\n", b"-5\r\nhello", b"0x5\r\nhello", b"5_0\r\n", b"5 5\r\nhello", b"1" * 16 + b"\r\n",
        b"5\r\nhello, and more\r\n", b"5;" + b"x" * 20_000, b"0\r\n" + b"X-A: b\r\n" * 20_000,
    ],
)  # fmt: skip
def test_chunks_without_a_certain_end_are_refused(chunks, piece_size):
    with pytest.raises(BadFraming):
        read(BodyInChunks(), chunks, piece_size)


@each_row(
    ("chunks", "may_end"),
    [(b"5\r\nhel", False), (b"5\r\nhello\r\n", False), (b"5\r\nhello\r\n0\r\n", True), (b"", False)],
)
def test_chunks_may_end_with_the_connection_after_the_last_one(chunks, may_end):
    body = BodyInChunks()
    read(body, chunks, 1000)

    assert body.may_end_here() is may_end


@PIECES
def test_a_body_with_a_length_ends_after_that_length(piece_size):
    body = BodyByLength(5)

    assert read(body, b"hello, and more", piece_size) == (b"hello", b", and more")
    assert (body.is_whole, body.may_end_here()) == (True, True)


def test_a_body_that_is_shorter_than_its_length_may_not_end():
    body = BodyByLength(6)
    read(body, b"hello", 1000)

    assert (body.is_whole, body.may_end_here()) == (False, False)


def test_a_body_without_length_ends_with_its_connection():
    body = BodyToTheEnd()

    assert read(body, b"hello", 2) == (b"hello", b"")
    assert (body.is_whole, body.may_end_here()) == (False, True)


@each_row(
    ("head", "repaired"),
    [
        (b"Content-Length: 5\r\ncontent-length: 5\r\n", b"Content-Length: 5\r\n"),
        (b"Content-Length: 5, 5,5\r\n", b"Content-Length: 5\r\n"),
        (b"Content-Length: +05\r\n", b"Content-Length: 5\r\n"),
        (b"Content-Length:\r\nX-A: b\r\n", b"X-A: b\r\n"),
        (b"Content-Length: 3\r\nTransfer-Encoding: Chunked\r\n", b"Transfer-Encoding: chunked\r\n"),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\nContent-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"),
        (b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n", b"Content-Length: 5\r\n"),
        (b"X Y: z\r\nnonsense\r\n: a\r\nX-A : b\r\n", b"X-A: b\r\n"),
        (b"nonsense\r\n folded\r\nX-A: b\r\n\tc\r\n", b"X-A: b c\r\n"),
        (b"X-A: b\rc\r\n", b"X-A: b c\r\n"),
        (b"X-A: b\nX-B: c\n", b"X-A: b\r\nX-B: c\r\n"),
    ],
)  # fmt: skip
def test_a_faulty_head_is_repaired_as_browsers_do(head, repaired):
    assert repaired_head(STATUS + head + b"\r\n") == STATUS + repaired + b"\r\n"


@each_row("status", [b"http/1.1 200 OK", b"HTTP/2 200 OK", b"HTTP/1.1  200OK", b"HTTP/1.1\t200 OK "])
def test_a_faulty_status_line_is_repaired_as_browsers_do(status):
    assert repaired_head(status + b"\r\nX-A: b\r\n\r\n") == STATUS + b"X-A: b\r\n\r\n"


@each_row(
    "head",
    [
        STATUS + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        STATUS + b"Content-Length: 1, 2\r\n\r\n",
        STATUS + b"Content-Length: -1\r\n\r\n",
        STATUS + b"Content-Length: 1e3\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_a_head_without_a_certain_meaning_stays_as_it_is(head):
    assert repaired_head(head) == head
