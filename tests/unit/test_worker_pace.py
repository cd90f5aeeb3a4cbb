"""Proves a worker's pace between requests, on an event loop that is sometimes late."""

import asyncio
import datetime as dt
import time

import pytest
import uvloop

from jobs.loops.worker.document_pace import DocumentPace
from jobs.loops.worker.host_queue import BinQueue, PacedBin
from jobs.loops.worker.results import results_wait
from jobs.queue.take import PaceTaken, TurnTaken
from tests.support.tables import each_row

GAP, BUSY = 0.4, 0.1
ADDRESS = "http://a.example/"


def queue_with(*, gap, documents=()):
    queue = BinQueue(PacedBin(1))
    pace = PaceTaken(1, gap, None, 0.0)
    queue.add(TurnTaken(1, 1, "a.example", None, 4, pace, is_known=True, documents=tuple(documents)), now=0.0)
    return queue


def pace_of(queue, *, left=lambda: None, may_begin=lambda: True):
    return DocumentPace((queue.paced,), delay=lambda: 0.0, left=left, may_begin=may_begin)


def be_busy():
    """Block the event loop. The clock of the loop does not advance meanwhile."""
    time.sleep(BUSY)


def test_the_gap_counts_from_the_late_start_of_a_request_on_a_busy_loop():
    queue = queue_with(gap=GAP)

    async def request():
        be_busy()
        await pace_of(queue).before_request()

    uvloop.run(request())

    assert queue.next_start > time.monotonic() + GAP - BUSY / 2


def test_no_request_is_sent_after_a_freeze_that_may_have_failed_the_worker():
    queue = queue_with(gap=GAP)

    with pytest.raises(asyncio.CancelledError):
        uvloop.run(pace_of(queue, may_begin=lambda: False).before_request())

    assert queue.next_start < time.monotonic()


def test_the_gap_counts_from_the_moment_at_which_a_request_was_sent():
    queue = queue_with(gap=GAP)
    pace = pace_of(queue)

    async def request():
        await pace.before_request()
        pace.request_leaves(ADDRESS)
        await asyncio.sleep(BUSY)
        pace.request_sent()
        be_busy()
        await asyncio.sleep(0)

    uvloop.run(request())

    assert queue.next_start > time.monotonic() + GAP - BUSY / 2


def test_a_request_reported_as_sent_twice_counts_once():
    queue = queue_with(gap=GAP)
    heard = []
    pace = pace_of(queue, left=lambda: heard.append(queue.paced.leaving))

    async def request():
        pace.request_leaves(ADDRESS)
        pace.request_sent()
        pace.request_sent()
        await asyncio.sleep(0)

    uvloop.run(request())

    assert heard == [0]


def test_the_time_of_an_answer_counts_from_the_last_request():
    pace = pace_of(queue_with(gap=0.0))

    async def request():
        await pace.before_request()
        be_busy()
        await pace.before_request()

    began_at = time.monotonic()
    uvloop.run(request())

    assert pace.asked_at >= began_at + BUSY


def test_requests_without_a_gap_are_not_reported_as_sent():
    queue = queue_with(gap=0.0)
    heard = []
    pace = pace_of(queue, left=lambda: heard.append(queue.paced.leaving))

    async def request():
        pace.request_leaves(ADDRESS)
        pace.request_sent()
        await asyncio.sleep(0)

    uvloop.run(request())

    assert (heard, queue.paced.leaving) == ([], 0)


def test_the_second_of_two_documents_started_together_waits():
    queue = queue_with(gap=GAP)
    left_at = []

    async def request():
        pace = pace_of(queue)
        await pace.before_request()
        pace.request_leaves(ADDRESS)
        # The first request must open a connection, which takes longer than the gap.
        await asyncio.sleep(0.1 if left_at else 1.5 * GAP)
        left_at.append(time.monotonic())
        pace.request_sent()
        await asyncio.sleep(0)

    async def both():
        await asyncio.gather(request(), request())

    uvloop.run(both())

    assert left_at[1] - left_at[0] >= GAP


@each_row(("gap", "may_begin"), [(GAP, False), (0.0, True)])
def test_in_a_bin_with_a_gap_no_document_starts_while_a_request_is_sent(gap, may_begin):
    queue = queue_with(gap=gap, documents=["one", "two"])

    pace_of(queue).request_leaves(ADDRESS)

    assert queue.may_begin == may_begin


def test_a_flush_waits_longer_for_results_if_many_are_expected():
    set_for_it = dt.timedelta(seconds=0.2)

    assert results_wait(set_for_it, many_wait=False) == 0.2
    assert results_wait(set_for_it, many_wait=True) == 0.4
