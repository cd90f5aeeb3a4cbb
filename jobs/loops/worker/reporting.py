"""The reports of a worker about the requests that it sent, for the evidence of politeness."""

from functools import partial

from jobs.loops.worker.state import WorkerState
from jobs.queue import evidence


async def report_sent_requests(state: WorkerState, *, is_last: bool = False) -> None:
    """
    Write the requests of complete minutes, or of all minutes if `is_last`.

    An idle worker writes once a minute the moment until which its record is complete.
    """
    if state.sent.is_on and not state.clock.is_known:
        await state.database.run(state.clock.now)
    if reported := state.sent.take(is_last=is_last):
        await state.database.run(partial(evidence.report, worker=state.identity.id, reported=reported))
        state.sent.confirm(reported)
