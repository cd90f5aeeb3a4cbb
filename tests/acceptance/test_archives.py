"""
Proves that a crawl with an archive has a record of each document, and that kills of workers leave no torn records.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs.archive import files
from jobs.archive.files import sha256_of
from jobs.archive.records import Format, RecordKind, digest_of
from jobs.lifecycle.document import Stage
from jobs.models import ArchiveFile, ArchiveRecord, FailingStore, Job, QueueItem
from tests.support.processes import held_by, wait_for

OPEN_FILES_OF_FAILED_WORKERS = """
    SELECT FROM jobs_archivefile AS file JOIN nodes_node AS node ON node.id = file.node_id
     WHERE file.state = 'open' AND node.status NOT IN ('starting', 'running', 'draining')
"""


@pytest.fixture
def root(tmp_path):
    return tmp_path / "archive"


@pytest.fixture
def stores(tmp_path):
    """Return the directories of two stores."""
    directories = [tmp_path / "first", tmp_path / "second"]
    for directory in directories:
        directory.mkdir()
    return directories


def assert_rows_agree_with_files():
    """Check that each row refers to a complete record of its document with its digest. Return the records by kind."""
    kinds = {}
    names = {row.hash: row.identifier for row in QueueItem.objects.all()}
    for row in ArchiveRecord.objects.select_related("file"):
        path = Path(row.file.root) / row.file.path
        assert row.offset + row.length <= path.stat().st_size
        record = files.read_at(path, row.offset)
        assert (record.kind, record.digest, record.status) == (row.kind, row.digest, row.status)
        assert record.url == names.get(row.hash, record.url)
        if record.kind is RecordKind.RESPONSE:
            assert digest_of(record.body) == row.digest
        kinds[row.kind] = kinds.get(row.kind, 0) + 1
    return kinds


@pytest.mark.parametrize("form", list(Format))
def test_every_indexed_document_has_a_record_that_agrees(machine, serve, root, stores, form):
    site = serve(pages=80, hosts=2, traps=3)
    output = machine.directory / "pages.jsonl"
    given = {"CRAWLCTL_ARCHIVE_ROOT": str(root), "CRAWLCTL_ARCHIVE_STORES": f"dir:{stores[0]} dir:{stores[1]}"}
    crawl = machine.crawl(site.start_url, "--scope", "any", "--job", "site", "--archive", form, output=output, **given)
    assert (crawl.code, held_by(output)) == (0, site.documents), crawl.err

    first = assert_rows_agree_with_files()
    indexed = QueueItem.objects.filter(indexed_before=True)
    assert not indexed.exclude(hash__in=ArchiveRecord.objects.filter(kind="response", status=200).values("hash"))
    assert set(ArchiveFile.objects.values_list("state", flat=True)) == {"stored"}
    for file in ArchiveFile.objects.all():
        assert [(store / file.path).stat().st_size for store in stores] == [file.length] * 2
    assert first.keys() == {"response"}
    extracted = machine.start("archive", "extract", site.start_url)
    assert extracted.wait() == 0, extracted.err
    assert "<title>" in extracted.out

    crawl = machine.crawl("--job", "site", output=output, **given)
    assert crawl.code == 0
    again = assert_rows_agree_with_files()
    assert again["not_modified"] == 80
    for file in ArchiveFile.objects.all():
        path = Path(file.root) / file.path
        assert file.length == path.stat().st_size
        if form is Format.WARC:
            checked = subprocess.run([Path(sys.executable).with_name("warcio"), "check", path], check=False)
            assert checked.returncode == 0


def test_a_killed_worker_leaves_whole_records_and_its_successor_ends_its_file(cluster, serve, root):
    site = serve(pages=300, hosts=3, traps=2, latency_ms=10)
    given = {"CRAWLCTL_ARCHIVE_ROOT": str(root)}
    _, *workers = cluster.start("runmanager", "runworker", "runworker", **given)
    job = cluster.make_job(site)
    Job.objects.filter(pk=job.pk).update(archive="warc")
    cluster.start_job(job)
    for most in (30, 90, 150):
        wait_for(lambda most=most: ArchiveRecord.objects.count() > most, saying=f"{most} records")
        workers.pop(0).kill()
        workers += cluster.start("runworker", **given)

    assert cluster.wait_for_end(job) == "finished"
    assert held_by(cluster.output) == site.documents
    assert_rows_agree_with_files()
    wait_for(
        lambda: not cluster.database.rows(OPEN_FILES_OF_FAILED_WORKERS),
        within=30,
        saying="the archive files of the killed worker are closed",
    )
    ended = ArchiveFile.objects.filter(state="complete")
    assert ended.exists()
    for file in ended:
        path = Path(file.root) / file.path
        assert file.length == path.stat().st_size
        assert len(list(files.read_all(path))) >= file.records.count()


def test_jobs_wait_for_a_store_and_continue_by_themselves(cluster, serve, root, stores):
    site = serve(pages=300, hosts=3, traps=2, latency_ms=5)
    stores[1].rmdir()
    given = {
        "CRAWLCTL_ARCHIVE_ROOT": str(root),
        "CRAWLCTL_ARCHIVE_STORES": f"dir:{stores[0]} dir:{stores[1]}",
        "CRAWLCTL_ARCHIVE_FILE_BYTES": "10000",
        "CRAWLCTL_ARCHIVE_MOST_LOCAL": "30000",
        "CRAWLCTL_ARCHIVE_KEEP_LOCAL": "0",
        "CRAWLCTL_CLAIMED": "50",
    }
    _, worker = cluster.start("runmanager", "runworker", **given)
    job = cluster.make_job(site)
    Job.objects.filter(pk=job.pk).update(archive="warc")
    cluster.start_job(job)
    wait_for(lambda: Job.objects.get(pk=job.pk).archive_hold, saying="the job waits for its archive")
    assert "second failed" in Job.objects.get(pk=job.pk).archive_hold
    assert FailingStore.objects.get().store == f"dir:{stores[1]}"
    # The files of the killed worker are left to its successor.
    worker.kill()
    cluster.start("runworker", **given)
    stores[1].mkdir()

    assert cluster.wait_for_end(job) == "finished"
    assert held_by(cluster.output) == site.documents
    waiting = ArchiveFile.objects.filter(state="complete")
    wait_for(lambda: not waiting.exists(), within=30, saying="all complete files are stored")
    of_stores = ArchiveFile.objects.filter(state="stored")
    assert of_stores.count() > 3
    for file in of_stores:
        assert len({sha256_of(store / file.path) for store in stores} | {file.sha256}) == 1
    wait_for(lambda: of_stores.filter(removed_at__isnull=False).exists(), saying="a local copy is removed")
    assert not FailingStore.objects.exists()


def test_the_next_run_rereads_exactly_the_documents_of_a_destroyed_disk(cluster, serve, root):
    site = serve(pages=120, hosts=4, traps=0)
    given = {"CRAWLCTL_ARCHIVE_ROOT": str(root)}
    _, *workers = cluster.start("runmanager", "runworker", "runworker", **given)
    job = cluster.make_job(site)
    Job.objects.filter(pk=job.pk).update(archive="warc")
    cluster.run(job)
    of_worker = {worker: cluster.node_of(worker).id for worker in workers}
    lost = ArchiveFile.objects.get(node_id=of_worker[workers[0]], state="open")
    documents = set(lost.records.filter(kind="response").values_list("hash", flat=True))
    assert 0 < len(documents) < 120

    workers[0].kill()
    (root / lost.path).unlink()
    due = QueueItem.objects.filter(hash__in=documents, stage=Stage.PENDING)
    wait_for(lambda: due.count() == len(documents), within=30, saying="the documents of the file are due")
    cluster.run(job)

    assert ArchiveFile.objects.get(pk=lost.pk).state == "lost"
    again = ArchiveRecord.objects.filter(run_no=2, kind="response")
    assert set(again.values_list("hash", flat=True)) == documents
    assert held_by(cluster.output) == site.documents
