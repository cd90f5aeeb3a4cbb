"""Proves that scans find undamaged answers in archive files of any tool, and that hostile files cost limited work."""

import datetime as dt
import gzip
import io
import os
import zlib

import pytest

from jobs.archive import barc, files, scanning, warc
from jobs.archive.reading import read_answer
from jobs.archive.records import Archived, BadArchive, Format, RecordKind, TooLarge, digest_of
from jobs.archive.scanning import NotByRecord, scan

NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
MOST = 20 * 1024 * 1024


def an_exchange(name, body=b"<p>words</p>"):
    return Archived(
        url=f"http://a.example/{name}", date=NOW, kind=RecordKind.RESPONSE, status=200,
        request_head=b"GET / HTTP/1.1\r\n\r\n", response_head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        body=body, digest=digest_of(body),
    )  # fmt: skip


def packed(*names, **facts):
    return [b"".join(warc.encode(an_exchange(name, **facts))) for name in names]


def plain(*names, **facts):
    return [gzip.decompress(record) for record in packed(*names, **facts)]


def in_barc(tmp_path, *names):
    path = tmp_path / "x.barc"
    file = files.OpenFile.create(path, Format.BARC, software="x", date=NOW)
    places = file.append([an_exchange(name) for name in names])
    file.close()
    data = path.read_bytes()
    path.unlink()
    return [data[place.offset : place.offset + place.length] for place in places]


def records_in(form, tmp_path, *names):
    return {"gz": packed, "plain": plain, "barc": lambda *n: in_barc(tmp_path, *n)}[form](*names)


def scanned(data, start=0):
    return scan(io.BytesIO(data), start)


def names_of(part):
    return [found.url.rpartition("/")[2] for found in part.found]


FORMS = ("gz", "plain", "barc")


@pytest.mark.parametrize("form", FORMS)
def test_each_answer_is_found_and_can_be_read_at_its_offset(tmp_path, form):
    data = b"".join(records_in(form, tmp_path, "a", "b", "c"))
    part = scanned(data)

    assert (names_of(part), part.bad, part.is_torn, part.end) == (["a", "b", "c"], 0, False, len(data))
    for found in part.found:
        archived, fingerprint = read_answer(io.BytesIO(data), found.offset, most=MOST)
        assert (archived.url, archived.body, fingerprint) == (found.url, b"<p>words</p>", found.fingerprint)
        assert (archived.date, found.date, found.status) == (NOW, NOW, 200)


@pytest.mark.parametrize("form", FORMS)
def test_a_scan_in_parts_finds_each_answer_once(tmp_path, monkeypatch, form):
    monkeypatch.setattr(scanning, "PART_BYTES", 1)
    data = b"".join(records_in(form, tmp_path, "a", "b", "c"))
    found, start = [], 0
    while start < len(data):
        part = scanned(data, start)
        found += names_of(part)
        start = part.end

    assert found == ["a", "b", "c"]


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_record_is_skipped_and_counted(tmp_path, form):
    first, second, third = records_in(form, tmp_path, "a", "b", "c")
    part = scanned(first + b"garbage" + second[9:] + third)

    assert names_of(part) == ["a", "c"]
    assert part.bad >= 1


@pytest.mark.parametrize("form", FORMS)
def test_a_torn_last_record_ends_a_scan_before_it(tmp_path, form):
    first, second = records_in(form, tmp_path, "a", "b")
    part = scanned(first + second[: len(second) // 4])

    assert (names_of(part), part.is_torn, part.end) == (["a"], True, part.end)
    assert part.end < len(first + second)
    assert names_of(scanned(first + second, part.end)) == ["b"]


def test_a_body_that_looks_like_a_record_is_not_read_as_a_record(tmp_path):
    (inner,) = plain("inner")
    data = b"".join(plain("a", "b", body=b"\r\n\r\n" + inner))

    assert names_of(scanned(data)) == ["a", "b"]


def a_record(kind, url, block, *fields):
    """Return a WARC 1.0 record of another tool in a gzip member."""
    lines = ["WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: <{url}>", *fields, f"content-length: {len(block)}"]
    return gzip.compress("\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n")


def test_records_of_other_tools_are_read():
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwords\r\n0\r\n\r\n"
    data = io.BytesIO(
        a_record("warcinfo", "x", b"software: other")
        + a_record("response", "http://a.example/chunks", chunks, "WARC-Date: 2020-01-02T03:04:05.678901Z")
        + a_record("resource", "https://a.example/file", b"plain words", "Content-Type: text/plain")
        + a_record("response", "dns:a.example", b"1", "Content-Type: text/dns")
        + a_record("conversion", "http://a.example/chunks", b"words")
    )
    part = scan(data, 0)

    assert (names_of(part), part.records, part.bad) == (["chunks", "file"], 5, 0)
    assert part.found[0].date == dt.datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    read = [read_answer(data, found.offset, most=MOST)[0] for found in part.found]
    assert [one.body for one in read] == [b"words", b"plain words"]
    assert b"Content-Type: text/plain" in read[1].response_head


def test_a_file_that_is_compressed_as_a_whole_is_refused():
    with pytest.raises(NotByRecord):
        scanned(gzip.compress(b"".join(plain("a", "b"))))


def test_files_that_are_no_archives_are_not_scanned():
    assert [scanned(data) for data in (b"", b"words", b"BARC1 ", os.urandom(200))] == [None] * 4


def test_a_decompression_bomb_is_skipped_without_inflating_all_of_it():
    bomb = zlib.compressobj(wbits=31)
    zeros = bytes(1 << 20)
    data = bomb.compress(b"WARC/1.1\r\nContent-Length: 99999999999\r\n\r\n")
    data += b"".join(bomb.compress(zeros) for _ in range(200)) + bomb.flush()
    (first, last) = packed("a", "b")
    part = scanned(first + data + last)

    assert (names_of(part), part.bad) == (["a", "b"], 1)


def test_headers_without_an_end_are_refused_at_a_limit():
    huge = b"WARC/1.1\r\n" + b"X: " + b"x" * 100_000 + b"\r\n\r\n"
    first, last = plain("a", "b")
    assert (names_of(scanned(first + huge + last)), scanned(first + huge + last).bad) == (["a", "b"], 1)
    first, last = packed("a", "b")
    part = scanned(first + gzip.compress(huge) + last)
    assert (names_of(part), part.bad) == (["a", "b"], 1)


@pytest.mark.parametrize("length", [b"-1", b"", b"1e9", b"12", "²".encode(), b"9" * 30])
def test_a_wrong_length_loses_only_its_own_record(length):
    first, second, last = plain("a", "b", "c")
    at = second.index(b"Content-Length: ")
    second = second[:at] + b"Content-Length: " + length + second[second.index(b"\r\n", at) :]
    part = scanned(first + second + last)

    assert names_of(part) == ["a", "c"]
    assert part.bad == 1


def test_a_scan_gives_up_a_file_after_some_damaged_records():
    (first,) = plain("a")
    part = scanned(first + b"WARC/1.1\r\n" * 300_000)

    assert (names_of(part), part.bad, part.is_torn) == (["a"], 1001, True)


def test_a_length_beyond_the_end_ends_the_scan():
    first, second = plain("a", "b")
    second = second.replace(b"Content-Length: ", b"Content-Length: 9")
    part = scanned(first + second * 3)

    assert (names_of(part), part.is_torn) == (["a"], True)


def test_a_reader_refuses_records_above_its_limit_of_bytes(tmp_path):
    body = bytes(300_000)
    path = tmp_path / "x.barc"
    file = files.OpenFile.create(path, Format.BARC, software="x", date=NOW)
    file.append([an_exchange("a", body=body)])
    file.close()
    for data in (packed("a", body=body)[0], plain("a", body=body)[0], path.read_bytes()):
        with pytest.raises(TooLarge):
            read_answer(io.BytesIO(data), 0, most=1000)


def test_a_record_that_is_no_answer_is_not_read():
    info = warc.encode_info(software="x", date=NOW)
    with pytest.raises(BadArchive):
        read_answer(io.BytesIO(info), 0, most=MOST)


def test_replaced_barc_records_are_left_out(tmp_path):
    first, second = in_barc(tmp_path, "a", "b")
    file = io.BytesIO(first + second)
    barc.mark_replaced(file, 0)

    assert names_of(scan(file, 0)) == ["b"]
