"""
Upkeep: tasks that keep the documents, jobs and settings of a worker equal to those in the database, and tasks for slow
work during the crawl.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import psycopg

from jobs.loops.worker import disks, work_conditions
from jobs.loops.worker.clearing import clear_outputs
from jobs.loops.worker.limits import Limits
from jobs.loops.worker.notifying import notify_outputs
from jobs.loops.worker.reporting import report_sent_requests
from jobs.loops.worker.serving import Serving
from jobs.loops.worker.settings import WorkerSettings
from jobs.loops.worker.state import WorkerState
from jobs.queue import release
from jobs.queue.sql.runnable import RUNNABLE

# Seconds between two checks of archive files.
_ARCHIVE_POLL: Final = 5.0
# Time between two checks of the disks for which jobs wait (seconds).
_DISK_POLL: Final = 5.0


class Upkeep:
    """
    Work that does not depend on single documents, each piece a method that runs until it is cancelled.

    `moved_jobs` are jobs whose state changed. `control_changed` wakes the piece that follows such changes, and
    `may_have_news` the piece that notifies outputs. `outputs_wait`, `archives_wait` and `disks_wait` are set when a
    heartbeat saw outputs, archive files or disks with work for this worker. `may_hold_batches` is True if the heartbeat
    saw batches of this worker.
    """

    def __init__(self, state: WorkerState, *, serving: Serving, limits: Limits) -> None:
        self._state, self._serving, self._limits = state, serving, limits
        self.moved_jobs: set[int] = set()
        self.control_changed = asyncio.Event()
        self.may_have_news = asyncio.Event()
        self.outputs_wait = asyncio.Event()
        self.archives_wait = asyncio.Event()
        self.disks_wait = asyncio.Event()
        self.may_hold_batches = True

    def note_answers(self, true: frozenset[str]) -> None:
        """
        Wake the parts of the worker for which the heartbeat found work. `true` has the names of the true conditions.
        """
        self.may_hold_batches = work_conditions.SENT in true
        events = {
            work_conditions.OUTPUTS: self.outputs_wait,
            work_conditions.NOTIFICATIONS: self.may_have_news,
            work_conditions.ARCHIVES: self.archives_wait,
            work_conditions.DISKS: self.disks_wait,
            work_conditions.STORES: self._state.may_find_files,
        }
        if work_conditions.TEXTS in true:
            # This worker may not have written these texts: a worker ended before it indexed them, or another partition
            # sent them.
            self._state.indexes = True
        if not self._state.batches.documents:
            # A busy worker checks for batches and texts by itself.
            events |= {
                work_conditions.BATCHES: self._state.may_find_work,
                work_conditions.TEXTS: self._state.may_find_texts,
            }
        for name in true & events.keys():
            events[name].set()

    def note_control(self, payload: str) -> None:
        """Wake the parts of the worker that follow jobs and limits, after a notification with this payload."""
        if payload.isdigit():
            self.moved_jobs.add(int(payload))
        self.control_changed.set()
        self.may_have_news.set()

    # --- Comparison with the database ------------------------------------------------------------

    async def compare(self) -> None:
        """Compare batches with the database every two heartbeats, and forget bins that were not served for a while."""
        while True:
            await asyncio.sleep(2 * self._state.settings.heartbeat.total_seconds())
            if self.may_hold_batches or self._state.batches.all:
                await self.compare_batches()
            self._serving.forget_idle_bins()
            await report_sent_requests(self._state)

    async def compare_batches(self) -> None:
        """
        Make this worker's batches agree with those in the database.

        If only the database has a batch, the statement that took it ran, but its answer was lost. None of its documents
        has started, so the batch is returned. If only the worker has a batch, another process has taken its claims, so
        no further document of it may start.
        """
        state = self._state
        here = state.batches.all
        there = await state.database.run(lambda connection: release.batches_of(connection, worker=state.identity.id))
        # During the query, batches may have come or ended, so the batches from before and after it are compared.
        here |= state.batches.all
        if unknown := there - here:
            await state.database.run(
                lambda connection: release.give_back_batches(
                    connection, worker=state.identity.id, batches=unknown, now=state.clock.now(connection)
                )
            )
        if gone := here - there:
            for queue in state.bins.at_work:
                for claimed in queue.drop_waiting(lambda claimed: claimed.batch_id in gone):
                    state.settle(claimed)
                self._serving.close_turns(queue)

    async def follow_settings(self) -> None:
        """Apply stored settings after a heartbeat has seen them."""
        state = self._state
        while True:
            await asyncio.sleep(state.settings.heartbeat.total_seconds() / 4)
            if state.node.has_new_settings:
                effective = await state.database.run(state.node.take_up_settings)
                state.apply(WorkerSettings.of(effective, scope=state.identity.scope))

    async def follow_control(self) -> None:
        """
        Release documents of stopped jobs, and apply edited limits, after each notification and each heartbeat
        interval.
        """
        state = self._state
        while True:
            try:
                async with asyncio.timeout(state.settings.heartbeat.total_seconds()):
                    await self.control_changed.wait()
            except TimeoutError:
                pass
            self.control_changed.clear()
            await self._read_moved_jobs()
            mine = {claimed.job_id for queue in state.bins.at_work for _, claimed in queue.waiting}
            mine |= state.stopped_jobs
            if mine:
                state.stopped_jobs = await state.database.run(partial(_stopped_jobs, jobs=frozenset(mine)))
            if state.stopped_jobs:
                self._serving.give_back_waiting(lambda claimed: claimed.job_id in state.stopped_jobs)
            await self._limits.refresh()

    async def _read_moved_jobs(self) -> None:
        """Read jobs again whose state changed: their seeds and their outputs may have changed too."""
        moved = [job_id for job_id in self.moved_jobs if self._state.jobs.knows(job_id)]
        self.moved_jobs.clear()
        if moved and self._state.lacks_disk:
            # A worker without room writes nothing, so it would never notice that an output has another disk now.
            self._state.writer.disk.forget_files()
        for job_id in moved:
            await self._state.read_job(job_id)

    # --- During the crawl ------------------------------------------------------------------------

    async def end_archive_files(self) -> None:
        """End old archive files, and archive files of dead processes."""
        state = self._state
        while True:
            if self.archives_wait.is_set() or state.writer.archives.has_old_files:
                self.archives_wait.clear()
                await state.database.run(_end_archive_files_of(state))
            await asyncio.sleep(_ARCHIVE_POLL)

    async def end_all_archive_files(self) -> None:
        """End the archive files of this worker, because the worker ends."""
        state = self._state
        await state.database.run(
            lambda connection: state.writer.archives.end_all_files(connection, now=state.clock.now(connection))
        )

    async def resume_jobs_of_disks(self) -> None:
        """Resume jobs that wait for a disk of this machine."""
        state, me = self._state, self._state.identity
        while True:
            await self.disks_wait.wait()
            self.disks_wait.clear()
            limit = state.settings.free_disk
            await state.database.run(partial(disks.resume_jobs, scope=me.scope, host=me.host, limit=limit))
            await asyncio.sleep(_DISK_POLL)

    async def notify(self) -> None:
        """Notify outputs of the end of runs."""
        state = self._state
        await notify_outputs(
            state.database,
            worker=state.identity.id,
            scope=state.identity.scope,
            woken=self.may_have_news,
            may_begin=state.node.may_begin,
            keeps_history=lambda: state.settings.keeps_history,
        )

    async def clear(self) -> None:
        """Clear outputs and restore removed documents."""
        state = self._state
        await clear_outputs(
            state.database,
            woken=self.outputs_wait,
            may_begin=state.node.may_begin,
            keeps_history=lambda: state.settings.keeps_history,
        )


def _end_archive_files_of(state: WorkerState) -> Callable[[psycopg.Connection[Any]], None]:
    def end(connection: psycopg.Connection[Any]) -> None:
        archives, now = state.writer.archives, state.clock.now(connection)
        archives.end_old_files(connection, now=now)
        archives.end_files_of_dead_processes(connection, now=now)

    return end


def _stopped_jobs(connection: psycopg.Connection[Any], *, jobs: frozenset[int]) -> set[int]:
    """Return the jobs among these that must not start any document, including jobs that no longer exist."""
    rows = connection.execute(
        f"""
        SELECT id FROM jobs_job AS job
         WHERE id = ANY(%s) AND phase IN ('active', 'shutting_down', 'deleting') AND {RUNNABLE}
        """,  # noqa: S608 (a constant)
        (list(jobs),),
    )
    return set(jobs) - {row[0] for row in rows}
