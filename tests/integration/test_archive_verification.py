"""A verification finds each kind of damage to an archive, and its repair schedules exactly the lost documents."""

import socket

import pytest

from jobs.archive import files
from jobs.lifecycle.document import Stage
from jobs.models import ArchiveFault, ArchiveFile, ArchiveRecord, ArchiveVerification, Job, QueueItem
from jobs.verification.archives import checking, verbs
from nodes.errors import Invalid, Refused
from nodes.models import Node
from nodes.stores.port import StoreUnavailable
from tests.integration.test_archive_rows import crawl, flush_results, make_all_due, read_rows, result_of
from tests.integration.test_archive_stores import archive, stages, store, stores
from tests.support.cluster import NOON
from tests.support.partitions import be_partition

__all__ = ["crawl", "stores"]

BOTH_DONE = {"a": Stage.DONE, "b": Stage.DONE}


@pytest.fixture
def copies(crawl, stores):
    """Archive two documents in one file, store it twice, and return the three copies, the local one first."""
    path = archive(crawl, "a", "b")
    store(crawl)
    keep(crawl)
    file = ArchiveFile.objects.get()
    return [path, *(directory / file.path for directory in stores)]


def keep(crawl):
    """Record that the files are on this machine, and that the documents are requested with conditions."""
    ArchiveFile.objects.update(host=socket.gethostname())
    Job.objects.update(archive="warc")
    QueueItem.objects.update(validators="etag", version="1:text")


def verify(*, repairs=False, **given):
    """
    Verify the archive. Return the number of faults of each kind, and the number of faults that no repair has handled.
    """
    done = verbs.verify_archive(repairs=repairs, made_by="a test", **given)
    counts = {kind.value: getattr(done, kind.value) for kind in ArchiveFault.Kind}
    return {kind: number for kind, number in counts.items() if number}, done.faults - done.repaired


def delete(path):
    path.unlink()


def truncate(path, *, by=10):
    path.write_bytes(path.read_bytes()[:-by])


def flip(path, *, at=None):
    """Flip a bit in the middle of the last response, or at a given offset."""
    content = bytearray(path.read_bytes())
    record = ArchiveRecord.objects.order_by("offset").last()
    content[record.offset + record.length // 2 if at is None else at] ^= 1
    path.write_bytes(content)


def results():
    found = ArchiveFault.objects.filter(verification=ArchiveVerification.objects.latest("id"))
    return {(fault.kind, fault.result) for fault in found}


def test_an_undamaged_archive_has_no_faults(copies):
    assert verify() == ({}, 0)
    done = ArchiveVerification.objects.get()
    assert (done.files, done.records, done.skipped, done.ended_at is not None) == (1, 2, 0, True)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(("damage", "kind"), [(delete, "deleted"), (truncate, "truncated"), (flip, "damaged")])
def test_a_damaged_copy_is_rewritten_from_an_undamaged_copy(copies, number, damage, kind):
    content = copies[0].read_bytes()
    damage(copies[number])

    assert verify() == ({kind: 1}, 1)
    assert not copies[number].exists() or copies[number].read_bytes() != content
    assert verify(repairs=True) == ({kind: 1}, 0)

    assert [copy.read_bytes() for copy in copies] == [content] * 3
    assert (stages(), ArchiveFile.objects.get().state) == (BOTH_DONE, "stored")
    assert verify() == ({}, 0)
    assert list(copies[0].parent.glob(".*")) == []


def test_a_record_missing_in_all_copies_reschedules_only_its_document(copies):
    for copy in copies:
        flip(copy)
    assert verify() == ({"damaged": 3, "no_record": 1, "lost": 1}, 4)
    assert stages() == BOTH_DONE

    assert verify(repairs=True) == ({"damaged": 3, "lost": 1}, 0)

    assert stages() == {"a": Stage.DONE, "b": Stage.PENDING}
    lost = QueueItem.objects.get(stage=Stage.PENDING)
    assert (lost.validators, lost.version) == ("", "")
    assert QueueItem.objects.get(stage=Stage.DONE).validators == "etag"
    kept = ArchiveRecord.objects.get(is_lost=False)
    assert files.read_at(copies[0], kept.offset).url.endswith("/a")
    assert verify() == ({}, 0)


def test_a_file_that_is_cut_everywhere_loses_its_last_records(copies):
    last = ArchiveRecord.objects.order_by("offset").last()
    for copy in copies:
        copy.write_bytes(copy.read_bytes()[: last.offset + 5])
    assert verify(repairs=True)[0] == {"truncated": 3, "no_record": 1, "lost": 1}
    assert stages() == {"a": Stage.DONE, "b": Stage.PENDING}
    assert verify() == ({}, 0)


def test_copies_with_different_damage_lose_as_few_records_as_possible(copies):
    flip(copies[0], at=1)
    for copy in copies[1:]:
        flip(copy)
    # The first copy is damaged before its records.
    assert verify(repairs=True)[0] == {"damaged": 3}
    assert stages() == BOTH_DONE
    assert verify() == ({}, 0)


def test_a_file_without_any_copy_is_lost_with_its_documents(copies):
    for copy in copies:
        copy.unlink()
    assert verify(repairs=True) == ({"deleted": 3, "lost": 2}, 0)
    assert ArchiveFile.objects.get().state == "lost"
    assert stages() == {"a": Stage.PENDING, "b": Stage.PENDING}
    assert verify() == ({}, 0)


def test_a_document_with_a_newer_body_is_not_scheduled(crawl, copies):
    make_all_due(crawl)
    flush_results(crawl, [result_of(crawl, crawl.claim()["a"], body=b"newer")])
    crawl.archives.end_all_files(crawl.connection, now=NOON)
    store(crawl)
    keep(crawl)
    for copy in copies:
        copy.unlink()
    QueueItem.objects.filter(stage=Stage.ACTIVE).update(stage=Stage.DONE, batch=None)
    assert verify(repairs=True)[0] == {"deleted": 3, "lost": 1}
    assert stages() == {"a": Stage.DONE, "b": Stage.PENDING}


def test_a_revisit_does_not_count_as_a_body_if_its_original_is_lost(crawl, copies):
    make_all_due(crawl)
    archive(crawl, "a", "b")
    assert list(ArchiveRecord.objects.order_by("id").values_list("kind", flat=True)[2:]) == ["same_payload"] * 2
    keep(crawl)
    for copy in copies:
        copy.unlink()
    assert verify(repairs=True)[0] == {"deleted": 3, "lost": 2}


def test_the_open_file_of_a_destroyed_disk_is_lost(crawl, stores):
    path = archive(crawl, "a", "b")
    keep(crawl)
    ArchiveFile.objects.update(state="open", completed_at=None, length=0)
    path.unlink()
    assert verify(repairs=True) == ({"deleted": 1, "lost": 2}, 0)
    assert ArchiveFile.objects.get().state == "lost"
    assert verify() == ({}, 0)


def test_a_claimed_document_is_left_for_the_next_verification(crawl, copies):
    make_all_due(crawl)
    crawl.claim()
    for copy in copies:
        copy.unlink()
    assert verify(repairs=True) == ({"deleted": 3, "lost": 2}, 2)
    assert ("lost", "claimed") in results()


def test_records_without_rows_are_found_and_accepted_once(copies):
    ArchiveRecord.objects.order_by("offset").last().delete()
    assert verify() == ({"no_row": 1}, 1)
    assert verify(repairs=True) == ({"no_row": 1}, 0)
    assert verify() == ({}, 0)
    assert stages() == BOTH_DONE


def test_a_row_without_a_record_is_marked_and_its_document_scheduled(copies):
    last = ArchiveRecord.objects.order_by("offset").last()
    ArchiveRecord.objects.filter(pk=last.pk).update(offset=last.offset + 3)
    found, left = verify(repairs=True)
    assert (found, left) == ({"no_record": 1, "no_row": 1, "lost": 1}, 0)
    assert stages() == {"a": Stage.DONE, "b": Stage.PENDING}
    assert verify() == ({}, 0)


def test_files_that_may_belong_to_another_partition_stay(copies, stores, tmp_path, settings):
    of_another = [root / "job-9" / "9-unknown.warc.gz" for root in (tmp_path, *stores)]
    for path in of_another:
        path.parent.mkdir()
        path.write_bytes(b"theirs")
    be_partition(settings, "b")

    assert verify(repairs=True) == ({}, 0)
    assert all(path.exists() for path in of_another)


def test_foreign_files_are_moved_aside_and_not_deleted(copies, stores, tmp_path):
    foreign = [root / "job-9" / "9-unknown.warc.gz" for root in (tmp_path, *stores)]
    for path in foreign:
        path.parent.mkdir()
        path.write_bytes(b"foreign")
    (tmp_path / "notes.txt").write_text("of another program")

    assert verify() == ({"foreign": 3}, 3)
    assert verify(repairs=True) == ({"foreign": 3}, 0)

    assert not any(path.exists() for path in foreign)
    for root in (tmp_path, *stores):
        assert (root / "foreign" / "job-9" / "9-unknown.warc.gz").read_bytes() == b"foreign"
    assert (tmp_path / "notes.txt").exists()
    assert verify() == ({}, 0)


def test_unreachable_copies_do_not_count_as_lost(copies, stores):
    copies[0].unlink()
    copies[1].unlink()
    stores[1].rename(stores[1].with_name("elsewhere"))
    assert verify(repairs=True) == ({"deleted": 2}, 2)
    assert (results(), stages()) == ({("deleted", "no whole copy can be reached")}, BOTH_DONE)
    stores[1].with_name("elsewhere").rename(stores[1])
    assert verify(repairs=True) == ({"deleted": 2}, 0)


def test_an_unreadable_copy_does_not_count_as_lost(copies):
    copies[1].unlink()
    copies[2].unlink()
    # The tests may run as root, which may read every file, so a directory takes the place of the file.
    content = copies[0].read_bytes()
    copies[0].unlink()
    copies[0].mkdir()

    assert verify(repairs=True) == ({"deleted": 2}, 2)
    assert (ArchiveFile.objects.get().state, stages()) == ("stored", BOTH_DONE)

    copies[0].rmdir()
    copies[0].write_bytes(content)
    assert verify(repairs=True) == ({"deleted": 2}, 0)


def test_a_store_that_fails_between_two_reads_loses_no_record(copies, monkeypatch):
    def fail(*_arguments, **_facts):
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(checking, "compare", fail)
    flip(copies[0])
    assert verify(repairs=True) == ({"damaged": 1}, 0)
    for copy in copies:
        flip(copy)
    assert verify(repairs=True) == ({}, 0)
    assert not ArchiveRecord.objects.filter(is_lost=True).exists()
    monkeypatch.undo()
    assert verify()[0] == {"damaged": 3, "no_record": 1, "lost": 1}


def test_the_local_copies_of_other_machines_are_skipped(copies):
    ArchiveFile.objects.update(host="elsewhere")
    copies[0].unlink()
    assert verify() == ({}, 0)
    assert ArchiveVerification.objects.get().skipped == 1


def test_copies_on_a_lost_machine_are_marked_as_deleted_or_lost(crawl, copies):
    make_all_due(crawl)
    ArchiveFile.objects.update(host="burnt")
    flush_results(crawl, [result_of(crawl, crawl.claim()["a"], body=b"newer")])
    ArchiveFile.objects.filter(state="open").update(host="burnt")
    QueueItem.objects.update(stage=Stage.DONE, batch=None, validators="etag")

    assert verify(repairs=True, lost_machine="burnt") == ({"deleted": 2, "lost": 1}, 0)

    assert results() == {("deleted", "no longer expected there"), ("deleted", "marked as lost"), ("lost", "read again")}
    assert list(ArchiveFile.objects.order_by("id").values_list("state", flat=True)) == ["stored", "lost"]
    assert stages() == {"a": Stage.PENDING, "b": Stage.DONE}
    assert verify() == ({}, 0)
    with pytest.raises(Refused, match="is not lost: the node"):
        verify(lost_machine=crawl.worker.host)


def test_the_name_of_a_lost_machine_must_be_printable(copies):
    with pytest.raises(Invalid, match="printable characters only"):
        verify(lost_machine="burnt\0")


def test_a_file_without_a_local_copy_is_compared_in_its_stores(copies):
    copies[0].unlink()
    ArchiveFile.objects.update(removed_at=ArchiveFile.objects.get().completed_at)
    flip(copies[1])
    assert verify(repairs=True) == ({"damaged": 1}, 0)
    assert copies[1].read_bytes() == copies[2].read_bytes()
    assert not copies[0].exists()


def test_a_sample_compares_a_share_of_the_files(copies):
    file = ArchiveFile.objects.get()
    ArchiveFile.objects.bulk_create(
        ArchiveFile(
            **{
                name: getattr(file, name) for name in ("job_id", "node_id", "host", "root", "opened_at", "completed_at")
            },
            path=f"job-1/{number}",
            format="warc",
            state="lost",
        )
        for number in range(200)
    )
    done = verbs.verify_archive(sample=10, made_by="a test")
    assert 2 <= done.files <= 50


def test_a_verification_that_ended_early_continues_after_its_last_file(crawl, copies):
    made = verbs.create_for_task(77, sample=None, repairs=False)
    assert verbs.carry_out(made, should_continue=lambda _progress: False).ended_at is None
    assert verbs.carry_out(made, should_continue=lambda _progress: True).files == 1
    assert verbs.carry_out(made, should_continue=lambda _progress: True).files == 1


def test_every_row_of_a_repaired_archive_leads_to_its_record(copies):
    flip(copies[0])
    verify(repairs=True)
    assert len(read_rows()) == 2


def test_files_below_an_empty_mount_point_do_not_count_as_lost(copies, tmp_path):
    """The stores are below the root in these tests, so they move away with it."""
    root = tmp_path / "mount"
    (root / "job-1").mkdir(parents=True)
    ArchiveFile.objects.update(root=str(root))
    assert verify()[0] == {"deleted": 1}

    (root / "job-1").rmdir()
    ArchiveFile.objects.update(stores={}, state="complete")
    assert verify(repairs=True) == ({}, 0)

    file = ArchiveFile.objects.get()
    assert (file.state, ArchiveVerification.objects.latest("id").skipped) == ("complete", 1)
    # An operator who knows that the disk is lost names the lost machine.
    Node.objects.update(host="elsewhere")
    assert verify(repairs=True, lost_machine=socket.gethostname())[0] == {"deleted": 1, "lost": 2}
    assert ArchiveFile.objects.get().state == "lost"
