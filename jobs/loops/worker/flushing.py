"""Flushing: the results of many documents are written to the database together."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from jobs.connectors.output.base import OutputError
from jobs.loops.worker.serving import Serving
from jobs.loops.worker.state import WorkerState
from jobs.loops.worker.writing import ToWrite, Written
from jobs.metrics import crawl
from jobs.queue.take import Claimed
from jobs.state import disk_waits
from nodes.lifecycle import CLUSTER_SCOPE

logger = logging.getLogger(__name__)


class Flushing:
    """
    Writes results and removals. `after_write` is called after each write of results.

    `flushed` counts the documents written since the start, and `refused` counts the documents whose claim was lost.
    """

    def __init__(self, state: WorkerState, serving: Serving) -> None:
        self._state, self._serving = state, serving
        self.flushed = self.refused = 0
        self.after_write: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Write whenever results are due."""
        results = self._state.results
        while True:
            await results.wanted.wait()
            # A task that requested the write has ended by the next round, and no longer counts as busy.
            await asyncio.sleep(0)
            results.wanted.clear()
            if not results.only_closes:
                await self.write_everything()
            elif not results.flush_is_near:
                await self._write_closed()

    async def _write_closed(self) -> None:
        """Free the bins of turns that have ended, without waiting for more results."""
        given = self._state.results.take_closed(runs_out=self._serving.has_run_out)
        if not given.is_empty:
            await self._state.database.run(partial(self._state.writer.write, given=given))

    async def write_everything(self) -> None:
        """Write outcomes, documents to release, and closed turns, in this order."""
        state = self._state
        given = state.results.take_all(done_batches=state.batches.done, runs_out=self._serving.has_run_out)
        if given.is_empty:
            return
        try:
            written = await state.database.run(partial(state.writer.write, given=given))
        except OutputError as error:
            written = await self._write_by_job(given, error)
        state.batches.note_done(given.done_batches)
        self.flushed += written.flushed
        self.refused += written.refused
        for claimed in (*(one.claimed for one in given.ended), *given.given_back):
            state.settle(claimed)
        self.after_write()

    async def _write_by_job(self, given: ToWrite, error: OutputError) -> Written:
        """
        Write the results of each job separately after an output refused. The job of that output is paused, and its
        documents are released.

        So a full output does not cause repeated fetches of its documents.
        """
        logger.error("an output refused documents: %s", error)
        crawl.OUTPUT_ERRORS.add()
        state = self._state
        flushed = 0
        back: list[Claimed] = []
        for job_id in sorted({one.claimed.job_id for one in given.ended}):
            of_job = [one for one in given.ended if one.claimed.job_id == job_id]
            try:
                written = await state.database.run(partial(state.writer.write, given=ToWrite(of_job)))
                flushed += written.flushed
            except OutputError as refused:
                back += [one.claimed for one in of_job]
                await state.stop_job(job_id, self._reason_of(refused))
        self._serving.give_back_waiting(lambda claimed: claimed.job_id in state.stopped_jobs)
        rest = replace(given, ended=(), refused=back)
        written = await state.database.run(partial(state.writer.write, given=rest))
        return Written(flushed=flushed, refused=written.refused)

    def _reason_of(self, refused: OutputError) -> str:
        """
        Return the reason of a job whose output refused. For a one-shot crawl, it promises no resumption, because the
        workers end.
        """
        me = self._state.identity
        if refused.disk is None or me.scope != CLUSTER_SCOPE:
            return str(refused)
        return disk_waits.reason_of(refused.disk, host=me.host, why=str(refused))

    async def remove(self, claims: Sequence[Claimed]) -> None:
        """Remove documents from the outputs and the queue. If an output refuses, they are tried again later."""
        state = self._state
        by_job: dict[int, list[Claimed]] = {}
        given_back: set[int] = set()
        for claimed in claims:
            by_job.setdefault(claimed.job_id, []).append(claimed)
        for of_job in by_job.values():
            job = state.jobs.find(of_job[0])
            if job is None:
                # This worker dropped its facts about the job meanwhile, in favour of other jobs. The documents are
                # offered again.
                state.results.give_back(of_job)
                given_back.add(of_job[0].job_id)
                continue
            try:
                await state.database.run(partial(state.writer.remove, claims=of_job, jobs={job.facts.id: job.facts}))
            except OutputError as error:
                logger.error("an output refused a removal: %s", error)  # noqa: TRY400 (its sentence says it all)
                crawl.OUTPUT_ERRORS.add()
                await state.database.run(partial(state.writer.postpone, claims=of_job, reason=str(error)))
        for claimed in claims:
            # Documents that were given back are settled later, by the write that returns them to the queue.
            if claimed.job_id not in given_back:
                state.settle(claimed)
        state.results.flush_deadline.now()
