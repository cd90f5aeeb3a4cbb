"""The state that the parts of a worker share."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from jobs.loops.database import DatabaseClock, DatabaseThread
from jobs.loops.node import Node
from jobs.loops.worker.backlog import Backlog
from jobs.loops.worker.batches import ClaimedBatches
from jobs.loops.worker.jobs import JobAtWork, JobTable, read_job
from jobs.loops.worker.results import Results
from jobs.loops.worker.sent_requests import SentRequests
from jobs.loops.worker.served_hosts import ServedBins
from jobs.loops.worker.settings import WorkerSettings
from jobs.loops.worker.writing import Writer, stop_job
from jobs.queue.take import Claimed
from nodes.life.identity import NodeIdentity


@dataclass(slots=True, kw_only=True)
class WorkerState:
    """
    One worker's connections, documents and results.

    `stopped_jobs` are jobs that must not start any document. `indexes` is True after this worker took documents of a
    job with outputs, or a heartbeat saw texts that wait to become searchable. `lacks_disk` is True while a disk has too
    little room.
    """

    identity: NodeIdentity
    settings: WorkerSettings
    node: Node
    database: DatabaseThread
    clock: DatabaseClock
    writer: Writer
    results: Results
    sent: SentRequests = field(init=False)
    jobs: JobTable = field(default_factory=JobTable)
    batches: ClaimedBatches = field(default_factory=ClaimedBatches)
    bins: ServedBins = field(default_factory=ServedBins)
    backlog: Backlog = field(default_factory=Backlog)
    # Wakes the part that takes batches.
    may_find_work: asyncio.Event = field(default_factory=asyncio.Event)
    # Wakes the part that makes texts searchable.
    may_find_texts: asyncio.Event = field(default_factory=asyncio.Event)
    # Wakes the part that stores archive files.
    may_find_files: asyncio.Event = field(default_factory=asyncio.Event)
    stopped_jobs: set[int] = field(default_factory=set)
    indexes: bool = False
    lacks_disk: bool = False

    def __post_init__(self) -> None:
        self.sent = self.writer.sent = SentRequests(self.clock, is_on=self.settings.keeps_evidence)
        self.apply(self.settings)

    def apply(self, settings: WorkerSettings) -> None:
        """Apply changed settings."""
        self.settings = settings
        self.writer.keeps_history = settings.keeps_history
        self.sent.switch(is_on=settings.keeps_evidence)

    def job_of(self, claimed: Claimed) -> JobAtWork | None:
        """
        Return the job of a claim; None if this worker does not know the job, or the job must not start any document.
        """
        return None if claimed.job_id in self.stopped_jobs else self.jobs.find(claimed)

    async def read_job(self, job_id: int) -> None:
        """Read the facts about a job that a worker needs, unless the job no longer exists."""
        row = await self.database.run(partial(read_job, job_id=job_id))
        if row is not None:
            self.indexes = self.indexes or bool(row.outputs)
            self.jobs.add(row)

    async def stop_job(self, job_id: int, reason: str) -> None:
        """Pause a job, and start no more of its documents."""
        self.stopped_jobs.add(job_id)
        await self.database.run(lambda _connection: stop_job(job_id, reason=reason))

    def settle(self, claimed: Claimed) -> None:
        """Record that this worker no longer has a document of a batch."""
        if self.batches.settle(claimed.batch_id):
            self.results.flush_deadline.within(self.settings.flush_after.total_seconds())
