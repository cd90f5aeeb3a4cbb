"""The life of a worker: it joins, works until it is stopped, drains and leaves."""

import asyncio
import logging
from typing import Final

import psycopg

from jobs.loops.database import DatabaseClock, DatabaseThread
from jobs.loops.disk import FreeDisk
from jobs.loops.node import Node
from jobs.loops.worker import work_conditions
from jobs.loops.worker.flushing import Flushing
from jobs.loops.worker.indexing import Indexing
from jobs.loops.worker.limits import Limits
from jobs.loops.worker.processing import Processing
from jobs.loops.worker.reporting import report_sent_requests
from jobs.loops.worker.results import Results
from jobs.loops.worker.serving import Serving
from jobs.loops.worker.settings import WorkerFailed, WorkerSettings
from jobs.loops.worker.state import WorkerState
from jobs.loops.worker.storing_archives import Storing
from jobs.loops.worker.taking import Taking
from jobs.loops.worker.upkeep import Upkeep
from jobs.loops.worker.writing import Writer
from jobs.metrics import crawl
from jobs.settings.archives import ARCHIVE_STORES
from jobs.state import channels
from nodes.coordination.port import Coordination
from nodes.database.connections import Dsn
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import FenceRefused
from nodes.settings.effective import Effective

logger = logging.getLogger(__name__)

# Time between two checks of all bins, in case a bin was forgotten (seconds).
_DISPATCHED_AGAIN: Final = 5.0


class Worker:
    """
    One worker node. Create it inside the event loop that it uses. It creates the parts of the worker and connects them.

    `run` returns after `stop` was set, all documents are done or released, and the worker has left the cluster.
    """

    def __init__(
        self,
        *,
        dsn: Dsn,
        identity: NodeIdentity,
        settings: Effective,
        stop: asyncio.Event,
        store: Coordination | None = None,
    ) -> None:
        """`store` is the connection to the coordination store; None if the database coordinates the nodes."""
        self._loop = asyncio.get_running_loop()
        self._me = identity
        self._stop = stop
        self._node = Node(
            dsn=dsn,
            identity=identity,
            settings=settings,
            store=store,
            channels=(channels.take_of(identity.id), channels.CONTROL),
            on_notification=self._on_notification,
            asks=work_conditions.of_worker(has_stores=bool(settings[ARCHIVE_STORES])),
            answered=lambda true: self._loop.call_soon_threadsafe(self._upkeep.note_answers, true),
            is_stopping=stop.is_set,
        )
        self._heartbeats = self._node.heartbeats
        self._database = DatabaseThread(self._node.work_connection(), activity=self._heartbeats.watch_another_thread())
        self._disk = FreeDisk()
        clock = DatabaseClock()
        self._state = state = WorkerState(
            identity=identity,
            settings=WorkerSettings.of(settings, scope=identity.scope),
            node=self._node,
            database=self._database,
            clock=clock,
            writer=Writer(identity, clock, disk=self._disk),
            results=Results(self._loop),
        )
        self._processing = Processing(state)
        self._serving = Serving(state, process=self._processing.process)
        limits = Limits(state, self._serving)
        self._flushing = Flushing(state, self._serving)
        self._taking = Taking(state, serving=self._serving, limits=limits, flushing=self._flushing)
        self._upkeep, self._indexing = Upkeep(state, serving=self._serving, limits=limits), Indexing(state)
        self._storing = Storing(state)

    async def run(self, *, force_stop: asyncio.Event) -> None:
        """
        Work until `stop` is set; then release unstarted documents, and finish the others unless `force_stop` is set.

        Raises:
            WorkerFailed: the node was marked failed, or the database was unavailable for too long.
        """
        loops: list[asyncio.Task[None]] = []
        stopping = self._loop.create_task(self._stop.wait())
        try:
            await self._database.run(self._node.join)
            self._node.start()
            taking = self._loop.create_task(self._taking.run(), name="take")
            loops = [taking, *self._start_other_loops()]
            done, _ = await asyncio.wait([*loops, stopping], return_when=asyncio.FIRST_COMPLETED)
            for finished in done - {stopping}:
                finished.result()
            taking.cancel()
            await self._drain(force_stop=force_stop)
        except (FenceRefused, WorkerFailed, psycopg.OperationalError) as error:
            await self._die(error)
            raise WorkerFailed(str(error)) from error
        finally:
            tasks = [*loops, stopping, *self._serving.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._state.jobs.close()
            await self._processing.close()
            self._node.stop()
            self._database.close()

    def _start_other_loops(self) -> list[asyncio.Task[None]]:
        """Start the tasks that run until the end, also while the worker drains."""
        coroutines = {
            "flush": self._flushing.run(),
            "watch": self._watch(),
            "compare": self._upkeep.compare(),
            "settings": self._upkeep.follow_settings(),
            "control": self._upkeep.follow_control(),
            "index": self._indexing.run(),
            "clear": self._upkeep.clear(),
            "archive": self._upkeep.end_archive_files(),
            "store": self._storing.run(),
        }
        if self._me.scope == CLUSTER_SCOPE:
            coroutines["disks"] = self._upkeep.resume_jobs_of_disks()
        if self._state.settings.notifies:
            coroutines["notify"] = self._upkeep.notify()
        return [self._loop.create_task(coroutine, name=name) for name, coroutine in coroutines.items()]

    def _on_notification(self, channel: str, payload: str) -> None:
        """Pass on a notification, in the heartbeat's thread. Two empty texts mean that earlier ones may be lost."""
        if channel in {channels.take_of(self._me.id), ""}:
            self._loop.call_soon_threadsafe(self._state.may_find_work.set)
        if channel in {channels.CONTROL, ""}:
            self._loop.call_soon_threadsafe(self._upkeep.note_control, payload)

    async def _watch(self) -> None:
        """
        Report to the heartbeat thread that the loop runs, and react to the state of the node.

        This task never waits for the database, because open requests have to end even if the database does not answer.
        """
        dispatched_at = float("-inf")
        while True:
            self._report()
            if self._heartbeats.failed.is_set():
                # The database refuses this last write, and counts the refusal.
                await self._flushing.write_everything()
                raise WorkerFailed(self._heartbeats.why)
            if self._heartbeats.has_given_up:
                raise WorkerFailed("the database stayed down")
            if self._heartbeats.drains.is_set():
                self._stop.set()
            if self._heartbeats.trust.must_close:
                self._serving.cancel_tasks()
            elif self._heartbeats.trust.may_begin and (
                self._serving.was_held or self._loop.time() - dispatched_at > _DISPATCHED_AGAIN
            ):
                # Seldom: each bin also starts its documents itself, and frequent checks of all bins cost much time.
                dispatched_at = self._loop.time()
                self._serving.dispatch_all()
            await asyncio.sleep(self._state.settings.heartbeat.total_seconds() / 4)

    def _report(self) -> None:
        """Report the worker's load to the heartbeat thread and the metrics."""
        state, in_flight = self._state, len(self._serving.tasks)
        claimed, capacity = state.batches.documents, state.settings.capacity
        self._heartbeats.progress(
            claimed=claimed,
            capacity=capacity,
            in_flight=in_flight,
            flushed=self._flushing.flushed,
            refused=self._flushing.refused,
            bins=len(state.bins),
            open=state.bins.open_documents,
            disk=self._check_disks(),
            archive=self._storing.hold,
        )
        crawl.CLAIMED.set(claimed)
        crawl.CAPACITY.set(capacity)
        crawl.IN_FLIGHT.set(in_flight)
        crawl.HOSTS.set(len(state.bins))

    def _check_disks(self) -> str:
        """Return a sentence about a disk with too little room, or ''. If there is one, release unstarted documents."""
        state = self._state
        shortage = self._disk.shortage(limit=state.settings.free_disk)
        if shortage and not state.lacks_disk:
            logger.warning("this worker takes no work: %s", shortage)
            self._serving.give_back_waiting(lambda _claimed: True)
        elif state.lacks_disk and not shortage:
            logger.info("this worker takes work again: its disks have room")
        state.lacks_disk = bool(shortage)
        return shortage

    async def _drain(self, *, force_stop: asyncio.Event) -> None:
        """Release unstarted documents, and wait for the documents in progress until the drain timeout."""
        tasks = self._serving.tasks
        self._serving.give_back_waiting(lambda _claimed: True)
        await self._database.run(self._node.begin_draining)
        await self._flushing.write_everything()
        # The cancelled take may have claimed batches. A comparison with the database finds and returns them.
        await self._upkeep.compare_batches()
        forced = self._loop.create_task(force_stop.wait())
        deadline = self._loop.time() + self._state.settings.drain_timeout.total_seconds()
        while tasks and not forced.done() and self._loop.time() < deadline:
            left = max(0.0, deadline - self._loop.time())
            await asyncio.wait([*tasks, forced], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        forced.cancel()
        self._serving.cancel_tasks()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._flushing.write_everything()
        await self._upkeep.end_all_archive_files()
        await report_sent_requests(self._state, is_last=True)
        if self._me.scope != CLUSTER_SCOPE:
            await self._indexing.index_remaining(deadline)
            await self._storing.store_remaining(deadline)
        await self._database.run(self._node.leave)

    async def _die(self, error: Exception) -> None:
        """Cancel open requests, and count the refused write if there was one."""
        logger.error("worker %s ends: %s", self._me.id, error)
        self._serving.cancel_tasks()
        if self._heartbeats.failed.is_set() or isinstance(error, FenceRefused):
            await self._database.run(self._node.count_refused)
