"""Proves that no document stays with a worker whose request for it was cancelled, however early that was."""

import asyncio
from types import SimpleNamespace

import pytest

from jobs.loops.worker.served_hosts import ServedBins
from jobs.loops.worker.serving import Serving
from jobs.queue.take import PaceTaken, TurnTaken


class Results(list):
    """The documents that were given back, and the turns that were closed."""

    def __init__(self):
        super().__init__()
        self.closed = []
        self.give_back = self.extend

    def close(self, turns, *, is_followed):
        self.closed += [turn.id for turn in turns]


@pytest.mark.parametrize("steps", [0, 1], ids=["before its first step", "after it"])
async def test_a_document_whose_request_is_cancelled_is_given_back(steps):
    async def process(serving, queue, turn, claimed, _job):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            serving.give_back_started(queue, turn, claimed)

    results, settings = Results(), SimpleNamespace(open_documents=10)
    state = SimpleNamespace(bins=ServedBins(), results=results, settings=settings, job_of=lambda _claimed: "a job")
    state.node = SimpleNamespace(may_begin=lambda: True)
    serving = Serving(state, process=process)
    pace = PaceTaken(1, 0.0, None, 0.0)
    turn = TurnTaken(7, 1, "a.example", follows=None, requests=2, pace=pace, is_known=True, documents=("a", "b"))
    queue = serving.add(turn)
    serving.dispatch(queue)
    for _ in range(steps):
        await asyncio.sleep(0)

    serving.cancel_tasks(queue)
    await asyncio.gather(*serving.tasks, return_exceptions=True)

    assert sorted(results) == ["a", "b"]
    assert results.closed == [7]
    assert queue.is_idle
