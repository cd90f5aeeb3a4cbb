"""
Proves that a worker gives documents back when their requests are cancelled, and that suspects are held back in time.
"""

import asyncio
import datetime as dt
from types import SimpleNamespace

import pytest

from jobs.connectors.repository.base import Document
from jobs.loops.worker.served_hosts import ServedBins
from jobs.loops.worker.serving import Serving
from jobs.queue.take import Claimed, PaceTaken, TurnTaken
from jobs.traps.quarantine import Quarantine


class Results(list):
    """The documents that were given back, and the turns that were closed."""

    def __init__(self):
        super().__init__()
        self.closed = []
        self.give_back = self.extend
        self.unread = []

    def close(self, turns, *, is_followed):
        self.closed += [turn.id for turn in turns]

    def add_unread(self, ended, *, within):
        self.unread += [(one.claimed.document.identifier, one.outcome.code) for one in ended]


@pytest.mark.parametrize("steps", [0, 1], ids=["before its first step", "after it"])
async def test_a_document_whose_request_is_cancelled_is_given_back(steps):
    async def process(serving, queue, turn, claimed, _job):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            serving.give_back_started(queue, turn, claimed)

    job = SimpleNamespace(facts=SimpleNamespace(quarantine=None))
    results, settings = Results(), SimpleNamespace(open_documents=10)
    state = SimpleNamespace(bins=ServedBins(), results=results, settings=settings, job_of=lambda _claimed: job)
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


def claim(path, **facts):
    usual = {"version": "", "validators": "", "failures": 0, "failing_for": 0.0}
    document = Document(path, f"http://a.example{path}", 1, 0, **(usual | facts))
    facts = {"job_id": 1, "run_no": 1, "seed_id": 1, "lane_id": 1, "batch_id": 1, "specification_version": 1}
    return Claimed(document, **facts, is_known=bool(document.version))


async def test_new_documents_of_a_suspect_end_without_a_request():
    begun = []

    async def process(_serving, queue, turn, claimed, _job):
        begun.append(claimed.document.hash)
        queue.end(turn)

    facts = SimpleNamespace(quarantine=Quarantine([("a.example", "/calendar/{n}", [])]))
    job = SimpleNamespace(facts=facts, configuration="1")
    results, settings = Results(), SimpleNamespace(open_documents=10, flush_after=dt.timedelta(seconds=1))
    state = SimpleNamespace(bins=ServedBins(), results=results, settings=settings, job_of=lambda _claimed: job)
    state.node = SimpleNamespace(may_begin=lambda: True)
    serving = Serving(state, process=process)
    documents = (
        *(claim("/calendar/1"), claim("/calendar/2", version="1:held"), claim("/calendar/3"), claim("/page")),
        claim("/calendar/4"),
    )
    pace = PaceTaken(1, 0.0, None, 0.0)
    turn = TurnTaken(7, 1, "a.example", follows=None, requests=1, pace=pace, is_known=True, documents=documents)
    queue = serving.add(turn)

    while queue.waiting or serving.tasks:
        serving.dispatch(queue)
        await asyncio.gather(*serving.tasks)

    assert begun == ["/calendar/2", "/page"]
    assert [url for url, _ in results.unread] == [f"http://a.example/calendar/{month}" for month in (1, 3, 4)]
    assert {code for _, code in results.unread} == {"TRAP"}
