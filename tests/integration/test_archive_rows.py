"""
Proves that each row of an archive refers to a record in its file, even if a process dies between both writes.
"""

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.archive import files
from jobs.archive.records import RawExchange, RecordKind
from jobs.connectors.output.base import OutputError
from jobs.lifecycle.document import Stage
from jobs.loops.worker.archives import JobArchives
from jobs.models import ArchiveFile, ArchiveRecord, QueueItem
from jobs.queue.flushing.flush import flush
from jobs.queue.sql.order import FIRST_FRESH
from jobs.settings.archives import ARCHIVE_FILE_AGE, ARCHIVE_FILE_BYTES, ARCHIVE_ROOT
from nodes.models import Node
from tests.integration.test_queue_flush import OneWorker
from tests.support.cluster import NOON
from tests.support.factories import facts_of, make_documents, make_result


@pytest.fixture
def crawl(connection, tmp_path, settings):
    set_settings(settings, {ARCHIVE_ROOT: str(tmp_path)})
    crawl = OneWorker(connection)
    make_documents(crawl.lane, ["a", "b"])
    crawl.archives = JobArchives(crawl.worker)
    yield crawl
    for written in crawl.archives._open.values():
        written.file.close()


def set_settings(settings, values):
    by_path = {setting.path: value for setting, value in values.items()}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **by_path}


def result_of(crawl, claimed, *, body=b"words", status=200, **facts):
    url = claimed.document.identifier
    line, head = f"HTTP/1.1 {status} OK".encode(), b"GET / HTTP/1.1\r\n\r\n"
    exchange = RawExchange(url, time.monotonic(), head, status, line, [(b"Server", b"x")], body, **facts)
    return make_result(claimed, facts_of(crawl.job, archive="warc"), exchange=exchange)


def flush_results(crawl, results):
    crawl.archives.append(crawl.connection, results, now=NOON)
    return flush(crawl.connection, worker=crawl.worker.id, results=results, archives=crawl.archives, now=NOON)


def make_all_due(crawl):
    QueueItem.objects.update(stage=Stage.PENDING, batch=None, seq=FIRST_FRESH + 1)


def read_rows():
    rows = ArchiveRecord.objects.select_related("file").order_by("id")
    return [files.read_at(Path(row.file.root) / row.file.path, row.offset) for row in rows]


def test_a_flush_stores_the_offset_of_each_exchange(crawl):
    claims = crawl.claim()
    flush_results(crawl, [result_of(crawl, claims[name], body=name.encode()) for name in "ab"])

    assert [(one.url, one.body) for one in read_rows()] == [("http://a.example/a", b"a"), ("http://a.example/b", b"b")]
    file = ArchiveFile.objects.get()
    assert (file.state, file.job_id, file.node_id) == ("open", crawl.job.pk, crawl.worker.id)


def test_a_repeated_write_appends_an_exchange_once(crawl):
    results = [result_of(crawl, claimed) for claimed in crawl.claim().values()]
    crawl.archives.append(crawl.connection, results, now=NOON)
    flush_results(crawl, results)
    flush_results(crawl, results)
    assert ArchiveRecord.objects.count() == 2
    assert len(list(files.read_all(*crawl.archives.files()))) == 2


def test_an_exchange_of_a_lost_claim_gets_no_row(crawl):
    claims = crawl.claim()
    lost = replace(claims["a"], batch_id=claims["a"].batch_id + 1)
    flushed = flush_results(crawl, [result_of(crawl, lost), result_of(crawl, claims["b"])])
    assert (flushed.written, flushed.refused) == (1, 1)
    assert [one.url for one in read_rows()] == ["http://a.example/b"]


def test_the_same_body_and_a_304_become_revisits_of_the_last_body(crawl):
    for body, status in [(b"one", 200), (b"one", 200), (b"", 304), (b"two", 200), (b"two", 200)]:
        claimed = crawl.claim()["a"]
        flush_results(crawl, [result_of(crawl, claimed, body=body, status=status)])
        make_all_due(crawl)
    kinds = ["response", "same_payload", "not_modified", "response", "same_payload"]
    assert [record.kind for record in ArchiveRecord.objects.order_by("id")] == kinds
    revisit = read_rows()[2]
    assert revisit.original.url == "http://a.example/a"
    assert revisit.digest == read_rows()[0].digest


def test_a_truncated_body_is_no_revisit(crawl):
    for _ in range(2):
        flush_results(crawl, [result_of(crawl, crawl.claim()["a"], truncated="length")])
        make_all_due(crawl)
    assert {record.kind for record in read_rows()} == {RecordKind.RESPONSE}


def test_an_archive_file_is_completed_at_its_maximum_size_or_age(crawl, settings):
    claims = crawl.claim()
    set_settings(settings, {ARCHIVE_FILE_BYTES: 100})
    flush_results(crawl, [result_of(crawl, claims["a"])])
    assert [file.state for file in ArchiveFile.objects.all()] == ["complete"]
    set_settings(settings, {ARCHIVE_FILE_BYTES: 2**30})
    flush_results(crawl, [result_of(crawl, claims["b"])])
    crawl.archives.end_old_files(crawl.connection, now=NOON)
    assert ArchiveFile.objects.filter(state="open").count() == 1
    set_settings(settings, {ARCHIVE_FILE_AGE: timedelta()})
    crawl.archives.end_old_files(crawl.connection, now=NOON)
    assert [file.state for file in ArchiveFile.objects.all()] == ["complete", "complete"]
    for file in ArchiveFile.objects.all():
        assert file.length == (Path(file.root) / file.path).stat().st_size


def test_the_file_of_a_dead_process_ends_after_its_last_complete_record(crawl):
    flush_results(crawl, [result_of(crawl, crawl.claim()["a"])])
    (path,) = crawl.archives.files()
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\x1f\x8b\x08half of a record")
    other = JobArchives(replace(crawl.worker, id=crawl.running.manager.id))

    other.end_files_of_dead_processes(crawl.connection, now=NOON)
    assert ArchiveFile.objects.get().state == "open"
    Node.objects.filter(pk=crawl.worker.id).update(status="failed", stopped_at=NOON)
    other.end_files_of_dead_processes(crawl.connection, now=NOON)
    # The process of the file lives, and holds the lock.
    assert ArchiveFile.objects.get().state == "open"
    crawl.archives._open[crawl.job.pk].file.close()
    other.end_files_of_dead_processes(crawl.connection, now=NOON)
    file = ArchiveFile.objects.get()
    assert (file.state, file.length, path.stat().st_size) == ("complete", whole, whole)


def test_an_unwritable_directory_is_handled_like_a_refusing_output(crawl, tmp_path):
    (tmp_path / f"job-{crawl.job.pk}").write_text("a file in the way")
    with pytest.raises(OutputError, match=r"The archive below .* cannot be written"):
        crawl.archives.append(crawl.connection, [result_of(crawl, crawl.claim()["a"])], now=NOON)
