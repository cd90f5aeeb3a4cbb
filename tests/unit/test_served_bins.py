"""Proves that a worker checks only its active bins, and remembers its idle bins."""

from jobs.loops.worker.served_hosts import ServedBins
from jobs.queue.take import PaceTaken, TurnTaken

HOST = 7


def serve_one_document(bins, bin_id=HOST, *, now=0.0):
    """Give a bin a turn of one document and begin it. Return the function that ends it."""
    queue = bins.serve(bin_id)
    pace = PaceTaken(bin_id, 0.0, None, 0.0)
    queue.add(TurnTaken(bin_id, 1, "a.example", None, 1, pace, is_known=True, documents=("a",)), now=now)
    turn, _ = queue.begin(now=now)

    def end():
        queue.end(turn)
        queue.close_ended()
        bins.retire_if_idle(queue)

    return end


def test_a_worker_with_thousands_of_empty_hosts_scans_only_busy_ones():
    bins = ServedBins()
    for number in range(1000):
        serve_one_document(bins, number)()
    serve_one_document(bins, 1000)

    assert [queue.bin_id for queue in bins.at_work] == [1000]
    assert len(bins) == 1001


def test_the_documents_that_wait_in_all_bins_are_counted():
    bins = ServedBins()
    serve_one_document(bins, 1)
    for bin_id in (2, 3):
        pace = PaceTaken(bin_id, 0.0, None, 0.0)
        bins.serve(bin_id).add(
            TurnTaken(bin_id, 1, "a.example", None, 1, pace, is_known=True, documents=("a", "b")), now=0.0
        )

    assert [bins.has_waiting(least) for least in (1, 4, 5)] == [True, True, False]


def test_a_bin_with_an_open_request_stays_active():
    bins = ServedBins()
    serve_one_document(bins)

    bins.retire_if_idle(bins.serve(HOST))

    assert bins.find(HOST) is not None


def test_a_bin_that_gets_another_turn_continues_at_its_pace():
    bins = ServedBins()
    queue = bins.serve(HOST)
    serve_one_document(bins, now=5.0)()
    resting = bins.find(HOST)

    assert resting is None
    assert bins.serve(HOST) is queue
    assert queue.last_start == 5.0


def test_a_bin_that_was_not_served_for_a_while_is_forgotten():
    bins = ServedBins()
    serve_one_document(bins, 1, now=5.0)()
    serve_one_document(bins, 2, now=15.0)()
    serve_one_document(bins, 3, now=5.0)

    bins.forget(before=10.0)

    assert len(bins) == 2
    assert bins.serve(1).last_start is None
    assert bins.find(3) is not None


def test_the_end_of_a_forgotten_turn_does_not_affect_a_later_turn():
    bins = ServedBins()
    gone = bins.serve(HOST)
    bins.retire_if_idle(gone)
    bins.forget(before=1.0)
    serve_one_document(bins)

    bins.retire_if_idle(gone)

    assert bins.find(HOST) is not None
