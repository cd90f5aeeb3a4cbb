"""Processing one document: the connector fetches it and reports its outcome."""

import asyncio
import logging
import time
from functools import partial

from jobs.connectors.repository.activity import Activity
from jobs.loops.worker.document_pace import DocumentPace
from jobs.loops.worker.host_queue import BinQueue, OpenTurn
from jobs.loops.worker.jobs import JobAtWork
from jobs.loops.worker.pipelines import Pipelines
from jobs.loops.worker.results import MANY_WAITING, results_wait
from jobs.loops.worker.serving import Serving
from jobs.loops.worker.sharing import SharedByWorkers
from jobs.loops.worker.state import WorkerState
from jobs.loops.worker.writing import Ended
from jobs.queue.pace.addresses import keep_address
from jobs.queue.take import Claimed
from nodes.life.log_facts import set_document

logger = logging.getLogger(__name__)


class Processing:
    """Runs the connector of a document, and passes on its outcome."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._pipelines = Pipelines(state.settings.extraction)

    async def close(self) -> None:
        """End the processes of the pipelines."""
        await self._pipelines.close()

    async def process(
        self, serving: Serving, queue: BinQueue, turn: OpenTurn, claimed: Claimed, job: JobAtWork
    ) -> None:
        """Process a document of a turn. A defect of the connector ends it with the result code PROTOCOL."""
        set_document(job=claimed.job_id, identifier=claimed.document.identifier)
        activity = Activity(
            claimed.document,
            configuration=job.configuration,
            shared=self._shared_in(job),
            access=job.access,
            pipeline=job.pipeline,
        )
        seconds: float | None = None
        pace = DocumentPace(
            queue.paces_of(turn),
            delay=partial(_crawl_delay, claimed, job),
            left=partial(serving.dispatch_others, queue, turn.parents),
            may_begin=self._state.node.may_begin,
            sent=self._state.sent,
        )
        try:
            if turn.wants_address and await self._keep_address(queue.bin_id, claimed, job):
                # The document returns to its lane. The next offer applies the limits of the address.
                pace.end()
                serving.give_back_started(queue, turn, claimed)
                return
            await job.connector.process(claimed.document, activity, pace)
            if job.pipeline is not None and activity.outcome is not None and activity.outcome.item is not None:
                seconds = time.monotonic() - pace.asked_at
                activity.outcome = await self._pipelines.run(activity.outcome, job.pipeline)
        except asyncio.CancelledError:
            # The worker stops, or can no longer trust its membership: another worker reads the document.
            pace.end()
            serving.give_back_started(queue, turn, claimed)
            return
        except Exception:
            logger.exception("defect of the connector while processing %s", claimed.document.identifier)
            activity.outcome = None
            activity.failed(code="PROTOCOL")
        pace.end()
        # The duration leaves out the wait for robots.txt, because only one document of a host waits for it.
        queue.end(turn, after=time.monotonic() - pace.asked_at if seconds is None else seconds)
        assert activity.outcome is not None
        self._pass_on(Ended(claimed, job, activity.outcome, is_trial=turn.is_trial), serving, queue)
        serving.dispatch_others(queue, turn.parents)

    def _pass_on(self, ended: Ended, serving: Serving, queue: BinQueue) -> None:
        state, lane_id = self._state, ended.claimed.lane_id
        if ended.outcome.back_off is not None:
            state.results.note_host_facts()
            serving.give_back_waiting_of(queue, lambda _claimed: True)
        if ended.is_trial or state.writer.is_unknown(lane_id) or ended.job.runtime.has_news:
            state.results.note_host_facts()
        state.results.add(
            ended,
            is_last=not serving.is_busy,
            within=results_wait(state.settings.flush_after, many_wait=state.bins.has_waiting(MANY_WAITING)),
        )

    def _shared_in(self, job: JobAtWork) -> SharedByWorkers:
        return SharedByWorkers(
            database=self._state.database,
            me=self._state.identity,
            job=job.facts.id,
            version=job.facts.specification_version,
            repository=job.facts.repository,
            connection=job.connection,
            stop_job=self._state.stop_job,
        )

    async def _keep_address(self, bin_id: int, claimed: Claimed, job: JobAtWork) -> bool:
        """Store the address of a host before its first request: other hosts at the address share its limits."""
        address = await job.runtime.find_address(claimed.document.identifier)
        if address is not None:
            await self._state.database.run(partial(keep_address, bin_id=bin_id, address=address))
        return address is not None


def _crawl_delay(claimed: Claimed, job: JobAtWork) -> float:
    """Return the crawl-delay of the document's source in seconds; 0 if the source has none, or it is not known yet."""
    return job.connector.interval_of(claimed.document.identifier) or 0.0
