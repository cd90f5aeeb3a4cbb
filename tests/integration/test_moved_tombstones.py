"""Removed documents can be restored in the partition to which their host has moved."""

# ruff: noqa: F811 (fixtures of another file)

import pytest
from psycopg.rows import namedtuple_row

from jobs.lifecycle.document import Stage
from jobs.loops.restoring import perform_restoration
from jobs.models import IndexedDocument, Job, OutputConnection, PartitionFact, QueueItem, SearchDocument
from jobs.partitions.placement import slot_of
from jobs.queue.removing import tombstones
from jobs.verbs import restoring
from tests.integration.test_slot_moves import HOST, moving  # noqa: F401 (a fixture)
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_documents
from tests.support.partitions import receive_fact

# A host whose slot stays in partition `a`.
OTHER = next(name for name in (f"h{number}.example" for number in range(99)) if slot_of(name) >= 512)


@pytest.fixture(autouse=True)
def _no_tombstones(connection):
    """Begin without the tombstones of other tests. Their table has no model, so no test empties it."""
    connection.execute("DELETE FROM jobs_tombstone")


def remove_documents(moving, names):
    """Let the job remove documents from its output, and return their tombstones."""
    output = OutputConnection.objects.create(name="texts", connector="search")
    moving.job.outputs.add(output)
    make_documents(moving.crawl.lane, names, stage=Stage.DONE, indexed_before=True, outcome=1, result_code="200")
    removed = []
    for name in names:
        IndexedDocument.objects.create(output=output, hash=hash_of(name), version="1", indexed_at=NOON)
        SearchDocument.objects.create(
            output=output, hash=hash_of(name), url=f"http://{HOST}/{name}", title="", description="", text="words",
            content_type="text/html", language="en", fetched_at=NOON, written_at=NOON,
        )  # fmt: skip
        removed.append(tombstones.Removed(moving.job.pk, 1, output.pk, hash_of(name), leaves_output=True))
    with moving.connection.cursor(row_factory=namedtuple_row) as cursor:
        tombstones.store(cursor, removed, now=NOON)
    for table in (SearchDocument, IndexedDocument, QueueItem):
        table.objects.all().delete()


def tombstones_of(moving):
    """Return the tombstones without their lanes, because a restoration makes new lanes."""
    rows = moving.connection.execute(
        "SELECT to_jsonb(tombstone) - 'lane_id' FROM jobs_tombstone AS tombstone ORDER BY hash"
    )
    return [body for (body,) in rows.fetchall()]


def test_removed_documents_can_be_restored_where_their_host_has_moved(moving, monkeypatch):
    monkeypatch.setattr("jobs.queue.moving.tombstones._IN_A_CHUNK", 2)
    monkeypatch.setattr("jobs.queue.moving.tombstones._AT_ONCE", 2)
    names = ["one", "two", "three"]
    remove_documents(moving, names)
    before = tombstones_of(moving)
    assert len(before) == 3

    moving.sends()
    assert tombstones_of(moving) == []

    moving.becomes_b()
    moving.step()
    assert tombstones_of(moving) == before

    Job.objects.update(move_hold=0)
    done = perform_restoration(restoring.restore(moving.job.pk, run_no=1, made_by="vera", now=NOON))
    assert (done.restored, done.unread, done.refused) == (3, 0, "")
    assert set(SearchDocument.objects.values_list("hash", "text")) == {(hash_of(name), "words") for name in names}
    assert set(QueueItem.objects.values_list("hash", flat=True)) == {hash_of(name) for name in names}


def test_tombstones_that_arrive_again_are_kept_once(moving):
    remove_documents(moving, ["page"])
    before = tombstones_of(moving)
    moving.connection.execute("CREATE TEMPORARY TABLE other AS SELECT * FROM jobs_tombstone")
    moving.connection.execute("UPDATE other SET bin_name = %s, hash = %s", (OTHER, hash_of("other")))
    moving.connection.execute("INSERT INTO jobs_tombstone SELECT * FROM other")
    moving.sends()
    assert [tombstone["bin_name"] for tombstone in tombstones_of(moving)] == [OTHER]
    chunk = PartitionFact.objects.get(target="b", key__startswith="chunk:")
    moving.connection.execute("DELETE FROM jobs_tombstone")

    moving.becomes_b()
    moving.step()
    receive_fact(moving.connection, "a", "b", chunk.key, chunk.body)
    moving.step()

    assert tombstones_of(moving) == before
