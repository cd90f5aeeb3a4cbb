"""
Proves that complete archive files are copied to two stores, and that only confirmed files are removed locally.
"""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.archive import files
from jobs.attention.archives import failing_stores, jobs_that_wait_for_stores
from jobs.connectors.output.base import OutputError
from jobs.duties.archives import hold_jobs_with_archive
from jobs.lifecycle.document import Stage
from jobs.loops.database import DatabaseClock
from jobs.loops.worker import storing_archives
from jobs.loops.worker.archives import JobArchives, lose_missing_file
from jobs.loops.worker.storing_archives import Storing
from jobs.models import ArchiveFile, FailingStore, Job, QueueItem
from jobs.queries.jobs.page import read_job_page
from jobs.settings.archives import (
    ARCHIVE_FILE_BYTES,
    ARCHIVE_KEEP_LOCAL,
    ARCHIVE_MOST_LOCAL,
    ARCHIVE_ROOT,
    ARCHIVE_STORES,
)
from jobs.verdicts.causes import Cause
from jobs.words.verdicts import sentence
from nodes.membership import members
from nodes.models import Node
from nodes.stores.opening import open_store
from tests.integration.test_archive_rows import crawl, flush_results, make_all_due, result_of, set_settings
from tests.support.cluster import NOON
from tests.support.factories import make_documents
from tests.support.s3 import create_bucket, s3_server
from tests.support.stepping import Main

__all__ = ["crawl"]


@pytest.fixture
def stores(tmp_path, settings, monkeypatch):
    """Return the directories of two stores."""
    directories = [tmp_path / "first", tmp_path / "second"]
    for directory in directories:
        directory.mkdir()
    set_settings(settings, {ARCHIVE_STORES: tuple(f"dir:{directory}" for directory in directories)})
    monkeypatch.setattr(storing_archives, "_FIRST_PAUSE", 0.0)
    return directories


def store(crawl, worker=None):
    """Let a worker store all files that it can, once. Return the worker's object that stores files."""

    async def run(work):
        return work(crawl.connection)

    async def once():
        state = SimpleNamespace(
            identity=worker or crawl.worker, database=SimpleNamespace(run=run), clock=DatabaseClock()
        )
        part = Storing(state)
        await run(part._apply_setting)
        while await part.store_some():
            pass
        await part._remove_local_copies()
        return part

    return asyncio.run(once())


def archive(crawl, *names, **facts):
    """Archive an answer for each of these documents, and complete the file. Return the path of the file."""
    claims = crawl.claim()
    flush_results(crawl, [result_of(crawl, claims[name], body=name.encode() * 50, **facts) for name in names])
    crawl.archives.end_all_files(crawl.connection, now=NOON)
    file = ArchiveFile.objects.latest("id")
    return Path(file.root) / file.path


def stages():
    return {row.identifier.rpartition("/")[2]: Stage(row.stage) for row in QueueItem.objects.all()}


def test_a_complete_file_counts_as_stored_after_two_stores_confirmed_it(crawl, stores):
    path = archive(crawl, "a", "b")

    store(crawl)

    file = ArchiveFile.objects.get()
    assert (file.state, file.sha256) == ("stored", hashlib.sha256(path.read_bytes()).hexdigest())
    assert sorted(file.stores) == [f"dir:{directory}" for directory in stores]
    assert [(directory / file.path).read_bytes() for directory in stores] == [path.read_bytes()] * 2
    assert path.exists()


def test_a_file_is_copied_to_a_bucket_with_its_sha256(crawl, stores, settings, tmp_path, monkeypatch):
    with s3_server(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        create_bucket("archive")
        set_settings(settings, {ARCHIVE_STORES: (f"dir:{stores[0]}", "s3://archive/of/tests")})
        path = archive(crawl, "a")
        store(crawl)
        file = ArchiveFile.objects.get()
        assert file.state == "stored"
        assert open_store("s3://archive/of/tests").head(file.path) == (path.stat().st_size, file.sha256)


def test_an_open_file_is_not_stored(crawl, stores):
    flush_results(crawl, [result_of(crawl, crawl.claim()["a"])])
    store(crawl)
    assert ArchiveFile.objects.get().state == "open"
    assert list(stores[0].iterdir()) == []


def test_an_unavailable_store_is_named_until_it_accepts_files_again(crawl, stores):
    archive(crawl, "a")
    stores[1].rmdir()

    store(crawl)
    file = ArchiveFile.objects.get()
    assert (file.state, list(file.stores)) == ("complete", [f"dir:{stores[0]}"])
    assert "the directory does not exist" in file.problem
    (line,) = failing_stores(NOON)
    assert (line.kind, line.subject) == ("archive_store_fails", f"dir:{stores[1]}")
    since = FailingStore.objects.get().failing_since
    assert line.since == since
    store(crawl)
    assert FailingStore.objects.get().failing_since == since

    stores[1].mkdir()
    store(crawl)
    assert (ArchiveFile.objects.get().state, ArchiveFile.objects.get().problem) == ("stored", "")
    assert failing_stores(NOON) == []


def test_another_file_under_the_same_key_is_neither_replaced_nor_confirmed(crawl, stores):
    archive(crawl, "a")
    foreign = stores[0] / ArchiveFile.objects.get().path
    foreign.parent.mkdir()
    foreign.write_bytes(b"foreign")

    store(crawl)
    file = ArchiveFile.objects.get()
    assert (file.state, list(file.stores)) == ("complete", [f"dir:{stores[1]}"])
    assert "other content" in file.problem
    assert foreign.read_bytes() == b"foreign"


def test_a_file_that_changed_on_its_disk_is_not_stored(crawl, stores):
    path = archive(crawl, "a")
    path.write_bytes(path.read_bytes() + b"more")
    store(crawl)
    file = ArchiveFile.objects.get()
    assert (file.state, file.stores) == ("complete", {})
    assert "and it was completed with" in file.problem


def test_a_worker_takes_over_the_complete_files_of_its_predecessor(crawl, stores):
    archive(crawl, "a")
    store(crawl, worker=replace(crawl.worker, id=crawl.running.manager.id))
    assert ArchiveFile.objects.get().state == "stored"


def test_a_local_copy_is_removed_only_after_two_stores_confirmed_it(crawl, stores, settings):
    set_settings(settings, {ARCHIVE_KEEP_LOCAL: "0"})
    path = archive(crawl, "a")
    stores[1].rmdir()
    store(crawl)
    assert path.exists()
    # A confirmation by one store is not enough, even if only one store is configured.
    set_settings(settings, {ARCHIVE_STORES: (f"dir:{stores[0]}",)})
    store(crawl)
    assert (ArchiveFile.objects.get().state, path.exists()) == ("stored", True)

    stores[1].mkdir()
    set_settings(settings, {ARCHIVE_STORES: tuple(f"dir:{directory}" for directory in stores)})
    make_all_due(crawl)
    other = archive(crawl, "b")
    store(crawl)
    assert (path.exists(), other.exists()) == (True, False)
    assert ArchiveFile.objects.latest("id").removed_at is not None


def test_a_local_copy_is_kept_for_days_or_forever(crawl, stores, settings):
    path = archive(crawl, "a")
    store(crawl)
    set_settings(settings, {ARCHIVE_KEEP_LOCAL: "3"})
    store(crawl)
    assert path.exists()
    file = ArchiveFile.objects.get()
    long_ago = (NOON.replace(year=2020)).isoformat()
    ArchiveFile.objects.update(stores=dict.fromkeys(file.stores, long_ago))
    store(crawl)
    assert not path.exists()


# --- Too many files that are not confirmed -------------------------------------------------------


def test_a_job_waits_while_too_many_files_are_not_stored_yet(crawl, stores, settings, connection):
    main = Main(connection)
    Job.objects.update(archive="warc")
    archive(crawl, "a")
    stores[1].rmdir()
    set_settings(settings, {ARCHIVE_MOST_LOCAL: 100})

    def report():
        part = store(crawl)
        members.beat(connection, node_id=crawl.worker.id, progress={"archive": part.hold})
        main.step(hold_jobs_with_archive)

    report()
    job = Job.objects.get()
    assert "not stored yet" in job.archive_hold
    assert f"dir:{stores[1]} failed" in job.archive_hold
    make_documents(crawl.lane, ["c"])
    assert crawl.claim() == {}
    page = read_job_page(job.pk, now=NOON)
    assert page.verdict.cause == Cause.ARCHIVE
    assert "its archive is full" in sentence(page.verdict, now=NOON)
    (line,) = jobs_that_wait_for_stores(NOON)
    assert (line.kind, line.since) == ("archive_is_full", job.archive_held_since)

    stores[1].mkdir()
    report()
    assert (Job.objects.get().archive_hold, Job.objects.get().archive_held_since) == ("", None)
    assert set(crawl.claim()) == {"c"}


def test_a_job_without_an_archive_does_not_wait_for_stores(crawl, connection):
    main = Main(connection)
    members.beat(connection, node_id=crawl.worker.id, progress={"archive": "full"})
    main.step(hold_jobs_with_archive)
    assert Job.objects.get().archive_hold == ""
    assert set(crawl.claim()) == {"a", "b"}


# --- Lost files ----------------------------------------------------------------------------------


def test_a_lost_open_file_reschedules_exactly_the_documents_without_a_body(crawl, settings):
    # The first file has both documents. The second file has only a newer body of one document.
    set_settings(settings, {ARCHIVE_FILE_BYTES: 1})
    archive(crawl, "a", "b")
    set_settings(settings, {ARCHIVE_FILE_BYTES: 2**30})
    make_all_due(crawl)
    claims = crawl.claim()
    flush_results(
        crawl, [result_of(crawl, claims["a"], body=b"newer"), result_of(crawl, claims["b"], status=304, body=b"")]
    )
    (path,) = crawl.archives.files()
    Node.objects.filter(pk=crawl.worker.id).update(status="failed", stopped_at=NOON)
    Job.objects.update(archive="warc")
    QueueItem.objects.update(validators="etag", version="1:text")

    path.unlink()
    successor = JobArchives(replace(crawl.worker, id=crawl.running.manager.id))
    successor.end_files_of_dead_processes(crawl.connection, now=NOON)

    file = ArchiveFile.objects.latest("id")
    assert (file.state, "no store had it" in file.problem) == ("lost", True)
    assert stages() == {"a": Stage.PENDING, "b": Stage.DONE}
    lost = QueueItem.objects.get(stage=Stage.PENDING)
    assert (lost.validators, lost.version) == ("", "")


def test_a_complete_file_that_no_store_has_is_lost_with_its_disk(crawl, stores):
    path = archive(crawl, "a")
    Job.objects.update(archive="warc")
    path.unlink()
    store(crawl)
    assert ArchiveFile.objects.get().state == "lost"
    assert stages() == {"a": Stage.PENDING, "b": Stage.ACTIVE}


def test_a_missing_file_that_a_store_has_is_not_lost(crawl, stores):
    path = archive(crawl, "a")
    stores[1].rmdir()
    store(crawl)
    path.unlink()
    stores[1].mkdir()
    store(crawl)
    file = ArchiveFile.objects.get()
    assert (file.state, "a store has it" in file.problem) == ("complete", True)


def test_a_disk_that_is_not_mounted_loses_no_file(crawl, stores, tmp_path):
    archive(crawl, "a")
    ArchiveFile.objects.update(root=str(tmp_path / "absent"))
    lose_missing_file(crawl.connection, file_id=ArchiveFile.objects.get().pk, root=tmp_path / "absent")
    assert ArchiveFile.objects.get().state == "complete"


def test_a_body_after_a_loss_is_archived_whole_and_not_as_a_revisit(crawl, stores):
    path = archive(crawl, "a")
    Job.objects.update(archive="warc")
    path.unlink()
    store(crawl)
    make_all_due(crawl)
    again = archive(crawl, "a")
    assert [record.kind.value for record in files.read_all(again)] == ["response"]


def test_an_empty_mount_point_loses_no_files_and_gets_no_new_files(crawl, stores, tmp_path, settings):
    root = tmp_path / "mount"
    root.mkdir()
    archive(crawl, "a")
    ArchiveFile.objects.update(root=str(root))
    lose_missing_file(crawl.connection, file_id=ArchiveFile.objects.get().pk, root=root)
    assert ArchiveFile.objects.get().state == "complete"

    set_settings(settings, {ARCHIVE_ROOT: str(root)})
    crawl.archives = JobArchives(crawl.worker)
    make_all_due(crawl)
    with pytest.raises(OutputError, match="mount its disk"):
        archive(crawl, "b")
    assert (list(root.iterdir()), ArchiveFile.objects.count()) == ([], 1)

    ArchiveFile.objects.update(state="lost")
    make_all_due(crawl)
    assert archive(crawl, "b").is_file()


def test_a_local_copy_that_cannot_be_removed_does_not_prevent_other_removals(crawl, stores, settings):
    path = archive(crawl, "a")
    store(crawl)
    make_all_due(crawl)
    other = archive(crawl, "b")
    path.unlink()
    # A directory takes the place of the copy, because no process can remove a directory as a file.
    path.mkdir()
    set_settings(settings, {ARCHIVE_KEEP_LOCAL: "0"})

    store(crawl)

    assert (path.exists(), other.exists()) == (True, False)
    assert [file.removed_at is None for file in ArchiveFile.objects.order_by("id")] == [True, False]
