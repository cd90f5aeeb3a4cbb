"""Proves that a worker remembers its batches until they end. A batch that it does not remember would be released."""

import pytest

from jobs.loops.worker.batches import ClaimedBatches


@pytest.fixture
def batches():
    """Return the batches of a worker with two documents of batch 1 and one document of batch 2."""
    batches = ClaimedBatches()
    for batch in (1, 2, 1):
        batches.add(batch)
    return batches


def test_a_batch_is_done_with_its_last_document(batches):
    assert [batches.settle(1), batches.settle(1), batches.settle(2)] == [False, True, True]
    assert (batches.documents, batches.done) == (0, [1, 2])


def test_a_finished_batch_is_remembered_until_its_end_is_committed(batches):
    batches.settle(2)
    being_written = batches.done

    assert batches.all == {1, 2}

    batches.note_done(being_written)
    assert (batches.all, batches.done) == ({1}, [])


def test_batches_that_finish_during_a_write_are_reported_by_the_next(batches):
    batches.settle(2)
    being_written = batches.done
    batches.settle(1)
    batches.settle(1)

    batches.note_done(being_written)

    assert batches.done == [1]


def test_a_document_of_an_unknown_batch_changes_nothing(batches):
    batches.settle(2)
    batches.note_done([2])
    assert not batches.settle(2)
    assert (batches.documents, batches.all) == (2, {1})
