"""Proves the archive formats: public tools read our WARC files, and BARC files follow their specification."""

import datetime as dt
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator as FastWarcIterator
from fastwarc.warc import WarcRecordType

from jobs.archive import barc, files, warc
from jobs.archive.barc import BarcRecord
from jobs.archive.records import Archived, BadArchive, Format, Original, RecordKind, digest_of

NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
BODY = b"<html><title>One</title>" + b"words and more words " * 400 + b"</html>"


def an_exchange(**changes) -> Archived:
    given = Archived(
        url="http://a.example/one?q=1",
        date=NOW,
        kind=RecordKind.RESPONSE,
        status=200,
        request_head=b"GET /one?q=1 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        response_head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Name: \xc3\xa4\r\n\r\n",
        body=BODY,
        digest=digest_of(BODY),
        address="127.0.0.1",
        facts=[("hopsFromSeed", "2")],
    )
    return replace(given, **changes)


def exchanges_of_every_kind() -> list[Archived]:
    original = Original("http://a.example/one?q=1", NOW)
    return [
        an_exchange(),
        an_exchange(kind=RecordKind.SAME_PAYLOAD, original=original, body=b""),
        an_exchange(kind=RecordKind.NOT_MODIFIED, original=original, body=b"", status=304,
                    response_head=b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        an_exchange(status=404, response_head=b"HTTP/1.1 404 Not Found\r\n\r\n", body=b"", digest=digest_of(b"")),
        an_exchange(truncated="length"),
    ]  # fmt: skip


def written(folder: Path, form: Format, exchanges) -> Path:
    path = folder / files.name_of(form, "x")
    file = files.OpenFile.create(path, form, software="crawlctl", date=NOW)
    places = file.append(exchanges)
    file.close()
    assert file.size == path.stat().st_size
    for place, exchange in zip(places, exchanges, strict=True):
        found = files.read_at(path, place.offset)
        assert (found.url, found.request_head) == (exchange.url, exchange.request_head)
    return path


def without_place(exchange: Archived) -> Archived:
    return replace(exchange, offset=0, length=0, facts=list(exchange.facts))


@pytest.mark.parametrize("form", list(Format))
def test_every_kind_of_exchange_is_read_unchanged(tmp_path, form):
    given = exchanges_of_every_kind()
    read = list(files.read_all(written(tmp_path, form, given)))
    assert [without_place(one) for one in read] == [without_place(one) for one in given]


def test_warcio_finds_no_error_in_a_file(tmp_path):
    path = written(tmp_path, Format.WARC, exchanges_of_every_kind())
    checked = subprocess.run(
        [Path(sys.executable).with_name("warcio"), "check", "-v", path], check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    assert "digest pass" in checked.stdout
    assert "fail" not in checked.stdout


def test_the_readers_of_public_tools_open_a_file(tmp_path):
    path = written(tmp_path, Format.WARC, exchanges_of_every_kind())
    with path.open("rb") as file:
        kinds = [record.record_type for record in FastWarcIterator(file, parse_http=False, verify_digests=True)]
    assert kinds.count(WarcRecordType.response) == 3
    assert kinds.count(WarcRecordType.revisit) == 2
    indexed = subprocess.run(
        [Path(sys.executable).with_name("cdxj-indexer"), path], check=False, capture_output=True, text=True
    )
    assert len(indexed.stdout.splitlines()) == 5, indexed.stderr
    assert digest_of(BODY) in indexed.stdout


def test_a_copy_to_the_other_format_and_back_keeps_the_exchanges(tmp_path):
    given = exchanges_of_every_kind()
    first = written(tmp_path, Format.WARC, given)
    assert files.copy(first, tmp_path / "y.barc", Format.BARC, software="crawlctl", date=NOW) == 5
    assert files.copy(tmp_path / "y.barc", tmp_path / "z.warc.gz", Format.WARC, software="crawlctl", date=NOW) == 5
    read = list(files.read_all(tmp_path / "z.warc.gz"))
    assert [without_place(one) for one in read] == [without_place(one) for one in given]


@pytest.mark.parametrize("form", list(Format))
def test_a_torn_file_ends_after_its_last_complete_record(tmp_path, form):
    path = written(tmp_path, form, exchanges_of_every_kind())
    whole = path.read_bytes()
    ends = {0}
    for cut in [*range(1, len(whole), 37), len(whole)]:
        path.write_bytes(whole[:cut])
        end = files.end_torn_file(path, form)
        assert end <= cut
        assert path.stat().st_size == end
        ends.add(end)
        list(files.read_all(path) if end else ())
    assert len(ends) > 4
    assert max(ends) == len(whole)


def test_a_failed_append_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    file = files.OpenFile.create(tmp_path / "x.warc.gz", Format.WARC, software="crawlctl", date=NOW)
    file.append([an_exchange()])
    before = file.path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(files.os, "fsync", lambda _descriptor: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(OSError, match="no space"):
            file.append([an_exchange()])
    assert file.path.read_bytes() == before
    file.append([an_exchange(url="http://a.example/two")])
    file.close()
    assert [one.url for one in files.read_all(file.path)] == ["http://a.example/one?q=1", "http://a.example/two"]


def test_a_chunked_body_is_stored_without_its_chunk_headers(tmp_path):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    path = written(tmp_path, Format.WARC, [an_exchange(response_head=head, body=b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")])
    assert [one.body for one in files.read_all(path)] == [b"abcde"]


def a_record(**changes) -> BarcRecord:
    fields = {"meta": [(b"url", b"http://a.example/")], "request": [(b"Host", b"a.example")],
              "response": [(b"Content-Type", b"text/html")], "body": b"text", **changes}  # fmt: skip
    return BarcRecord(**fields)


@pytest.mark.parametrize("mode", ["C", "P"])
def test_a_barc_record_is_read_unchanged(tmp_path, mode):
    with (tmp_path / "x.barc").open("w+b", buffering=0) as file:
        places = [barc.write(file, a_record(mode=mode, body=body)) for body in (b"one", b"", b"three" * 1000)]
        read = list(barc.read_records(file))
    assert [record.body for record in read] == [b"one", b"", b"three" * 1000]
    assert [(record.offset, record.length) for record in read] == places
    assert read[0].meta == [(b"url", b"http://a.example/")]
    assert read[0].response == [(b"Content-Type", b"text/html")]


def test_barc_records_are_copied_between_modes(tmp_path):
    with (
        (tmp_path / "x.barc").open("w+b", buffering=0) as plain,
        (tmp_path / "y.barc").open("w+b", buffering=0) as packed,
    ):
        barc.write(plain, a_record(mode="P"))
        for record in barc.read_records(plain):
            barc.write(packed, replace(record, mode="C"))
        (copied,) = barc.read_records(packed)
    assert replace(copied, mode="P", length=0) == replace(record, length=0)


def test_an_empty_barc_record_is_36_bytes_long(tmp_path):
    with (tmp_path / "x.barc").open("w+b", buffering=0) as file:
        assert [barc.write(file, BarcRecord()) for _ in range(3)] == [(0, 36), (36, 36), (72, 36)]
        assert [record.type for record in barc.read_records(file)] == ["H", "H", "H"]


def test_a_replaced_barc_record_has_the_type_r(tmp_path):
    path = tmp_path / "x.barc"
    with path.open("w+b", buffering=0) as file:
        for _ in range(2):
            barc.write(file, a_record())
        barc.mark_replaced(file, 0)
        assert [record.type for record in barc.read_records(file)] == ["R", "H"]
    assert len(list(barc.read_all(path))) == 1


def test_a_barc_header_is_read_with_digits_of_either_case(tmp_path):
    path = tmp_path / "x.barc"
    with path.open("w+b", buffering=0) as file:
        barc.write(file, a_record(mode="P", body=b"z" * 0xABC))
        header = path.read_bytes()[:36]
        assert header.startswith(b"BARC1 00000")
        file.seek(6)
        file.write(header[6:14].upper())
        assert barc.read(file, 0).body == b"z" * 0xABC


def test_a_barc_reader_sees_only_complete_records_while_a_writer_appends(tmp_path):
    path = tmp_path / "x.barc"
    path.touch()
    is_done = threading.Event()

    def write() -> None:
        with path.open("r+b", buffering=0) as file:
            for number in range(300):
                barc.write(file, a_record(body=str(number).encode() * 500, mode="P"))
        is_done.set()

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    with path.open("rb", buffering=0) as file:
        while True:
            was_done = is_done.is_set()
            bodies = [record.body for record in barc.read_records(file)]
            assert bodies == [str(number).encode() * 500 for number in range(len(bodies))]
            counts.append(len(bodies))
            if was_done:
                break
    writer.join()
    assert counts[-1] == 300


def test_an_open_barc_record_ends_the_file_for_readers(tmp_path):
    path = tmp_path / "x.barc"
    with path.open("w+b", buffering=0) as file:
        _, length = barc.write(file, a_record())
        file.write(b"BARC1 00000000 RC 0000 0000 0000\r\n\r\nhalf of it")
        assert [record.length for record in barc.read_records(file)] == [length]
    assert files.end_torn_file(path, Format.BARC) == length


def test_a_damaged_record_raises_an_error_that_names_the_file(tmp_path):
    for form in Format:
        path = written(tmp_path, form, [an_exchange()])
        data = bytearray(path.read_bytes())
        data[-600:-500] = bytes(100)
        path.write_bytes(data)
        with pytest.raises(BadArchive, match="x\\."):
            list(files.read_all(path))
    (tmp_path / "page.html").write_text("<html>")
    with pytest.raises(BadArchive, match="neither"):
        files.read_all(tmp_path / "page.html")
    assert warc.whole_length(tmp_path / "page.html") == 0
