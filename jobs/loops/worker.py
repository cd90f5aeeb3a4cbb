"""
The worker: takes batches, fetches, and flushes what came of them.

One event loop does the crawling; one thread talks to the database; one beats. A document's way through
here: `_take` puts its turn into a bin's queue, `_dispatch` begins it when the bin's pace allows,
`_process` lets the connector say its ending, `_flush` writes that.
"""

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import psycopg

from jobs import channels
from jobs.connectors.output.base import OutputError
from jobs.connectors.repository.base import Activity
from jobs.duties.index import index_waiting_texts
from jobs.loops.backlog import MORE_TEXTS_AT_ONCE, Backlog
from jobs.loops.batches import BatchesInHand
from jobs.loops.bin_queue import BinQueue, OpenTurn, PacedBin
from jobs.loops.clearing import clear_outputs
from jobs.loops.database import DatabaseClock, DatabaseThread, Ear, WorkConnection
from jobs.loops.disk import FreeDisk
from jobs.loops.due import Due
from jobs.loops.open_files import documents_within_open_files
from jobs.loops.served_bins import ServedBins
from jobs.loops.sharing import SharedByWorkers
from jobs.loops.telling import tell_outputs
from jobs.loops.worker_jobs import JobAtWork, JobTable, read_job
from jobs.loops.writing import Ended, ToWrite, Writer, Written, stop_job
from jobs.metrics import crawl
from jobs.models import Batch
from jobs.queue import close, release, take
from jobs.queue.addresses import keep_address
from jobs.queue.limits import InForce, read_limits
from jobs.queue.runnable import RUNNABLE
from jobs.queue.take import Claimed, Taken, TurnTaken
from jobs.settings import running, table
from jobs.throttling.bins import LONGEST_PLAN
from nodes import membership
from nodes.connections import Dsn
from nodes.coordination.port import Coordination
from nodes.coordination.seat import KeptSeat, Seat
from nodes.fences import FenceRefused, count_refused
from nodes.heartbeat import Heart, exit_at_once
from nodes.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.log_facts import set_document
from nodes.settings import versions
from nodes.settings.effective import Effective

logger = logging.getLogger(__name__)

# A flush is begun by so many results, or when the oldest has waited long enough.
_RESULTS_A_FLUSH: Final = 150
# So many times as long as is set the first result waits where so many documents are in hand: of several workers on a
# machine each has little to write, and a flush of few costs nearly as much as one of many.
_PATIENCE: Final = 2
_PLENTY: Final = 64
# What a worker asks for when nobody tells it that something is there.
_POLL: Final = 0.5
# Turns that are followed here already are closed with the next flush, or after so long.
_CLOSING_WAITS: Final = 0.15
# Later by so much at the most, where a flush comes then.
_CLOSED_WITH_A_FLUSH: Final = 0.06
# A bin that nobody is served in is freed so soon.
_FREEING_WAITS: Final = 0.1
# Documents that are taken only when there is room for about as many; so many where the last take was a while ago.
_WORTH_TAKING: Final = 128
_LITTLE: Final = 32
# Of what it may claim at most one part of so many is kept for the successors of turns with a pace.
_SHARE_RESERVED: Final = 4
# Bins in which something is begun before the loop comes to others again: one that has a pace waits for its moment.
_BEGUN_AT_ONCE: Final = 8
# A request that waits looks so often whether its limits are what they were.
_LONGEST_SLEEP: Final = 1.0
# How long a worker that was told to stop waits for a database that is away.
_LAST_HOPE: Final = 3.0
# Seconds for which a host without a turn is remembered: of many hosts with a document each, it is a moment's work to drop them.
_BIN_KEPT: Final = 20.0
_INDEX_POLL: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """
    The settings of a worker that an operator may change. `capacity` counts documents that are claimed and not yet
    flushed; `open_documents` counts those that are fetched at the same time.

    `pools` say how many documents it takes at once of each kind of removal, `tells` whether it tells outputs, and
    `keeps_strictly` whether it leaves the bins of others to them however busy they are.
    """

    capacity: int
    open_documents: int
    pools: Mapping[str, int]
    tells: bool
    keeps_strictly: bool
    flush_after: dt.timedelta
    drain_timeout: dt.timedelta
    heartbeat: dt.timedelta
    give_up: dt.timedelta
    keeps_history: bool
    free_disk: int = 0

    @classmethod
    def of(cls, effective: Effective, *, scope: str) -> Self:
        """The workers of a one-shot have nobody to leave a kind to."""
        is_shared = scope == CLUSTER_SCOPE
        pools: dict[str, int] = {
            Batch.Kind.PROCESS: effective[table.PROCESSED_AT_ONCE],
            Batch.Kind.EXPIRE: effective[table.EXPIRED_AT_ONCE],
            Batch.Kind.CLEAN: effective[table.CLEANED_AT_ONCE],
            Batch.Kind.DELETE: effective[table.DELETED_AT_ONCE],
        }
        return cls(
            capacity=effective[table.CLAIMED],
            open_documents=documents_within_open_files(effective[table.OPEN_DOCUMENTS]),
            pools=pools if is_shared else {},
            tells=effective[table.TELLS_OUTPUTS] or not is_shared,
            keeps_strictly=effective[table.KEEPS_BINS_STRICTLY],
            flush_after=effective[table.FLUSH_AFTER],
            drain_timeout=effective[table.DRAIN_TIMEOUT],
            heartbeat=effective[table.HEARTBEAT_INTERVAL],
            give_up=effective[table.NODE_GIVE_UP],
            keeps_history=effective[table.KEEP_HISTORY] > 0,
            free_disk=effective[table.FREE_DISK],
        )


class WorkerFailed(Exception):
    """This worker was marked failed, lost its database for good, or found no store of coordination: its process has to exit."""


class _Pace:
    """
    The pace of one document: it had its turn when it began, and further requests wait for theirs.

    Two requests leave in the distance that their bin and its parents ask for, however late the loop comes to let
    them: it may be busy, or have to make a connection first. So a request that is let go keeps the others back until
    it has left. `delay` tells what the source asks for by now: its robots.txt may have come with the first request.
    `left` is called when a request has left.

    Between the moment when a document is begun and that of its request the process may have been frozen: whether it
    `may_begin` one is asked again when it is let go, and when it goes. What may not, ends as what is cancelled.
    """

    def __init__(
        self,
        paces: tuple[PacedBin, ...],
        *,
        delay: Callable[[], float],
        left: Callable[[], None],
        may_begin: Callable[[], bool],
    ) -> None:
        self._paces = paces
        self._delay = delay
        self._left = left
        self._may_begin = may_begin
        self._is_first = True
        self._is_leaving = False
        self._paid = [paced.cadence.price for paced in paces]

    async def before_request(self) -> None:
        if not self._is_first:
            self._paces[0].heed_source(self._delay())
        # Others of the bin may start meanwhile and move the moment, and so may an edit of its limits.
        while (wait := self._wait()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(wait, _LONGEST_SLEEP))
        self.request_goes()
        # Not by the loop's time, which stands still while the loop is busy.
        now = time.monotonic()
        if not self._is_first:
            self._paid = [paced.cadence.price for paced in self._paces]
        for paced in self._paces:
            paced.count_request(now=now, has_turn=self._is_first)
        self._is_first = False

    def _wait(self) -> float:
        now = time.monotonic()
        return max(paced.wait(now=now, has_turn=self._is_first) for paced in self._paces)

    def request_leaves(self) -> None:
        self._is_leaving = True
        for paced in self._paces:
            paced.leaving += 1

    def request_goes(self) -> None:
        if not self._may_begin():
            raise asyncio.CancelledError

    def request_sent(self) -> None:
        if self._is_leaving:
            self._is_leaving = False
            # The loop writes to its sockets at the end of a round: by the next one it has certainly left.
            asyncio.get_running_loop().call_soon(self._has_left)

    def _has_left(self) -> None:
        now = time.monotonic()
        for paced in self._paces:
            paced.count_left(now=now)
        # Without a gap nobody was held back.
        if any(paced.cadence.gap for paced in self._paces):
            self._left()

    def bytes_read(self, count: int) -> None:
        now = time.monotonic()
        for paced, paid in zip(self._paces, self._paid, strict=True):
            paced.count_bytes(count, paid=paid, now=now)


class Worker:
    """One worker node. `run` lasts until `stop` is set, its documents are back in the queue and it has left."""

    def __init__(
        self, *, dsn: Dsn, identity: NodeIdentity, settings: WorkerSettings, store: Coordination | None = None
    ) -> None:
        """`store` is the node's way to the store of coordination, if there is one beside the database; it has been reached."""
        self._me = identity
        self._settings = settings
        self._heart = Heart(
            dsn=dsn,
            node_id=identity.id,
            interval=settings.heartbeat,
            timeout=identity.timeout,
            give_up=settings.give_up,
            abandon=exit_at_once,
        )
        self._seat = Seat() if store is None else self._seat_in(store)
        self._database = DatabaseThread(
            WorkConnection(
                dsn,
                node_id=identity.id,
                timeout=identity.timeout,
                longest_pause=settings.heartbeat,
                gives_up=self._gives_up,
            ),
            effort=self._heart.mind_another_thread(),
        )
        self._ear = Ear(
            dsn,
            node_id=identity.id,
            timeout=identity.timeout,
            channels=(channels.TAKE, channels.CONTROL),
            heard=self._heard,
        )
        self._clock = DatabaseClock()
        self._jobs = JobTable()
        self._moved_jobs: set[int] = set()
        self._disk = FreeDisk()
        self._writer = Writer(identity, self._clock, keeps_history=settings.keeps_history, disk=self._disk)
        self._bins = ServedBins()
        self._ended: list[Ended] = []
        self._given_back: list[Claimed] = []
        self._closed: list[close.ClosedTurn] = []
        self._batches = BatchesInHand()
        self._parents: dict[int, PacedBin] = {}
        # Of bins by id: documents that each awaits, so that its pace does not stand still.
        self._awaited: dict[int, int] = {}
        self._tasks: dict[asyncio.Task[None], BinQueue] = {}
        # Bins that wait only for the limit of documents that are fetched at the same time.
        self._crowded: dict[int, BinQueue] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._flushed = self._refused = 0
        self._stopped_jobs: set[int] = set()
        # A host said something of itself that must be stored before its turn is closed.
        self._hosts_spoke = False
        self._found_nothing = False
        self._took_at = float("-inf")
        self._indexes = False
        self._lacks_disk = False
        self._backlog = Backlog()

    # --- Its life --------------------------------------------------------------------------------

    async def run(self, *, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        """
        Work until `stop`; then give back what has not begun and wait for what has, unless `hurry`.

        Raises:
            WorkerFailed: the node was marked failed, or the database stayed away.
        """
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._something_to_take = asyncio.Event()
        self._something_to_write = asyncio.Event()
        self._flush_due = Due(self._loop, self._something_to_write)
        self._close_due = Due(self._loop, self._something_to_write)
        self._control_changed = asyncio.Event()
        self._something_to_tell = asyncio.Event()
        loops: list[asyncio.Task[None]] = []
        stopping = self._loop.create_task(stop.wait())
        try:
            await self._database.run(self._register)
            self._heart.start()
            self._seat.start()
            self._ear.start()
            loops += [
                self._loop.create_task(coroutine, name=name)
                for name, coroutine in (
                    ("take", self._taking()),
                    ("flush", self._flushing()),
                    ("watch", self._watching()),
                    ("compare", self._comparing()),
                    ("adjust", self._adjusting()),
                    ("control", self._obeying()),
                    ("index", self._indexing()),
                    ("tell", self._telling()),
                    ("clear", self._clearing()),
                )
            ]
            done, _ = await asyncio.wait([*loops, stopping], return_when=asyncio.FIRST_COMPLETED)
            for finished in done - {stopping}:
                finished.result()
            await self._drain(loops, hurry=hurry)
        except (FenceRefused, WorkerFailed, psycopg.OperationalError) as error:
            await self._die(error)
            raise WorkerFailed(str(error)) from error
        finally:
            for task in [*loops, stopping, *self._tasks]:
                task.cancel()
            await asyncio.gather(*loops, stopping, *self._tasks, return_exceptions=True)
            await self._jobs.close()
            self._seat.stop()
            self._ear.stop()
            self._heart.stop()
            self._database.close()

    def _seat_in(self, store: Coordination) -> Seat:
        return KeptSeat(store, timeout=self._me.timeout, stands=False, is_fit=lambda: self._heart.trust.may_begin)

    def _gives_up(self, failing_for: float) -> bool:
        """In the database's thread: whether to stop hoping for a database that is away. One who was told to stop
        leaves what he holds to the main."""
        if self._heart.has_given_up:
            return True
        return self._stop.is_set() and failing_for > _LAST_HOPE and not self._heart.trust.may_begin

    def _register(self, connection: psycopg.Connection[Any]) -> None:
        membership.join(connection, identity=self._me)
        versions.report(connection, node_id=self._me.id, settings=running.current().report())

    def _take_up_settings(self, connection: psycopg.Connection[Any]) -> WorkerSettings:
        """In the database's thread: go on with what somebody stored."""
        taken = running.take_up_newest(connection)
        versions.report(connection, node_id=self._me.id, settings=taken.report())
        return WorkerSettings.of(taken, scope=self._me.scope)

    async def _drain(self, loops: list[asyncio.Task[None]], *, hurry: asyncio.Event) -> None:
        """Take nothing more, give back what has not begun, and wait for the rest as long as is allowed."""
        loops[0].cancel()
        self._give_back_waiting(lambda _claimed: True)
        await self._database.run(
            lambda connection: membership.begin_draining(connection, node_id=self._me.id, reason="asked to stop")
        )
        await self._write_everything()
        # The take that was broken off may have got something all the same.
        await self._compare_batches()
        hurried = self._loop.create_task(hurry.wait())
        deadline = self._loop.time() + self._settings.drain_timeout.total_seconds()
        while self._tasks and not hurried.done() and self._loop.time() < deadline:
            left = max(0.0, deadline - self._loop.time())
            await asyncio.wait([*self._tasks, hurried], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._write_everything()
        if self._me.scope != CLUSTER_SCOPE:
            await self._index_what_is_left(deadline)
        await self._database.run(
            lambda connection: membership.stop(connection, node_id=self._me.id, reason="asked to stop")
        )

    async def _die(self, error: Exception) -> None:
        """Leave the requests that are open; say that a write was refused, if one was."""
        logger.error("worker %s ends: %s", self._me.id, error)
        for task in self._tasks:
            task.cancel()
        if self._heart.failed.is_set() or isinstance(error, FenceRefused):
            await self._database.run(lambda connection: count_refused(connection, self._me.id))

    async def _watching(self) -> None:
        """
        Tell the heart that the loop goes round, and see what became of the node.

        Nothing here waits for the database: when it does not answer, open requests have to end all the same.
        """
        while True:
            self._heart.progress(
                claimed=self._claimed,
                capacity=self._settings.capacity,
                in_flight=len(self._tasks),
                flushed=self._flushed,
                refused=self._refused,
                bins=len(self._bins),
                open=self._bins.open_documents,
                disk=self._look_at_disks(),
            )
            crawl.CLAIMED.set(self._claimed)
            crawl.CAPACITY.set(self._settings.capacity)
            crawl.IN_FLIGHT.set(len(self._tasks))
            crawl.HOSTS.set(len(self._bins))
            if self._heart.failed.is_set():
                # One more write, so that it is seen to be refused, and counted.
                await self._write_everything()
                raise WorkerFailed(self._heart.why)
            if self._heart.has_given_up:
                raise WorkerFailed("the database stayed away")
            if self._heart.drains.is_set():
                self._stop.set()
            if self._heart.trust.must_close:
                for task in list(self._tasks):
                    task.cancel()
            elif self._heart.trust.may_begin:
                for queue in self._bins.at_work:
                    self._dispatch(queue)
            await asyncio.sleep(self._settings.heartbeat.total_seconds() / 4)

    def _look_at_disks(self) -> str:
        """Return which disk lacks room. Documents that have not begun then go back, for other workers."""
        shortage = self._disk.shortage(floor=self._settings.free_disk)
        if shortage and not self._lacks_disk:
            logger.warning("takes no work: %s", shortage)
            self._give_back_waiting(lambda _claimed: True)
        elif self._lacks_disk and not shortage:
            logger.info("takes work again: its disks have room")
        self._lacks_disk = bool(shortage)
        return shortage

    async def _adjusting(self) -> None:
        """Take up what somebody stored as settings, once a beat has told of it."""
        while True:
            await asyncio.sleep(self._settings.heartbeat.total_seconds() / 4)
            if self._heart.settings_version > running.current().version:
                self._settings = await self._database.run(self._take_up_settings)
                self._writer.keeps_history = self._settings.keeps_history
                self._heart.adjust(interval=self._settings.heartbeat, give_up=self._settings.give_up)

    async def _comparing(self) -> None:
        """Every few beats, see what became of the batches."""
        while True:
            await asyncio.sleep(2 * self._settings.heartbeat.total_seconds())
            await self._compare_batches()
            self._forget_idle_bins()

    def _forget_idle_bins(self) -> None:
        """Drop what is known of hosts that were not served for a while: their pace is in the database."""
        before = self._loop.time() - _BIN_KEPT
        self._bins.forget(before=before)
        used = {paced.bin_id for queue in self._bins.at_work for turn in queue.turns for paced in turn.parents}
        for bin_id, paced in list(self._parents.items()):
            if bin_id not in used and (paced.cadence.last_start or 0.0) < before:
                del self._parents[bin_id]

    @property
    def _claimed(self) -> int:
        return self._batches.documents

    # --- Taking ----------------------------------------------------------------------------------

    def _heard(self, channel: str, payload: str) -> None:
        """In the ear's thread."""
        if channel in {channels.TAKE, ""} and payload in {self._me.scope, ""}:
            self._loop.call_soon_threadsafe(self._something_to_take.set)
        if channel in {channels.CONTROL, ""}:
            if payload.isdigit():
                self._loop.call_soon_threadsafe(self._moved_jobs.add, int(payload))
            self._loop.call_soon_threadsafe(self._control_changed.set)
            self._loop.call_soon_threadsafe(self._something_to_tell.set)

    async def _taking(self) -> None:
        while True:
            room = self._settings.capacity - self._claimed
            reserved = self._reserved
            has_room = room - reserved >= self._least_room or not self._claimed or (reserved and not self._took_lately)
            if has_room and not self._backlog.holds and not self._lacks_disk and self._heart.trust.may_begin:
                self._took_at = self._loop.time()
                await self._take(room, reserved=reserved)
            self._something_to_take.clear()
            try:
                async with asyncio.timeout(_POLL):
                    await self._something_to_take.wait()
            except TimeoutError:
                continue

    @property
    def _least_room(self) -> int:
        """How much room is worth a look: what is read fast comes in large takes, what has a pace in small ones."""
        return min(_WORTH_TAKING if self._took_lately else _LITTLE, self._settings.capacity)

    @property
    def _took_lately(self) -> bool:
        return self._loop.time() - self._took_at < _POLL / 2

    @property
    def _reserved(self) -> int:
        """How much room others leave to bins with a pace: a successor that comes late is time that nobody gives back."""
        return min(sum(self._awaited.values()), self._settings.capacity // _SHARE_RESERVED)

    async def _take(self, room: int, *, reserved: int) -> None:
        idle = not self._claimed
        taken = await self._database.run(
            lambda connection: take.take(
                connection,
                worker=self._me.id,
                room=room,
                reserved=reserved,
                idle=idle,
                pools=self._settings.pools,
                strict=self._settings.keeps_strictly,
                now=self._clock.now(connection),
            )
        )
        self._found_nothing = not taken.documents
        if self._found_nothing:
            return
        crawl.TAKEN.add(taken.documents)
        crawl.TAKEN_TURNS.add(len(taken.turns))
        for claimed in _claims_of(taken):
            self._batches.add(claimed.batch_id)
        await self._prepare(taken)
        old = [turn for turn in taken.turns if turn.is_old]
        in_force = await self._limits_of(pace.bin_id for turn in old for pace in (turn.pace, *turn.parents))
        now = self._loop.time()
        served: dict[int, BinQueue] = {}
        for turn in taken.turns:
            queue = served[turn.bin_id] = self._bins.serve(turn.bin_id)
            if not turn.is_known and not turn.is_denied:
                for claimed in turn.documents:
                    self._writer.expect_unknown(claimed.lane_id)
            if not_served := queue.add(turn, parents=self._parents_of(turn, now=now), now=now):
                # Nothing else may be under way that would have them written.
                self._given_back.extend(not_served)
                self._flush_due.now()
            if turn.pace.wait > LONGEST_PLAN.total_seconds():
                # It was offered before its host asked to be left alone. In its lane it waits for that as others do: here nobody
                # could end the wait, and after it the host would not be tried with one document first.
                self._give_back_waiting_of(queue, lambda _claimed: True)
        # Nothing may begin at the pace of what was offered before an edit and lay about since.
        self._heed_limits(in_force)
        for number, queue in enumerate(served.values(), 1):
            self._close_turns(queue)
            self._dispatch(queue)
            if number % _BEGUN_AT_ONCE == 0:
                await asyncio.sleep(0)
        for claims in taken.removals.values():
            await self._remove(claims)

    def _parents_of(self, turn: TurnTaken, *, now: float) -> tuple[PacedBin, ...]:
        parents = [self._parents.setdefault(pace.bin_id, PacedBin(pace.bin_id)) for pace in turn.parents]
        for paced, pace in zip(parents, turn.parents, strict=True):
            paced.take_up(pace, now=now)
        return tuple(parents)

    async def _prepare(self, taken: Taken) -> None:
        """Know the jobs of what was taken, and what their sources said of themselves."""
        for claimed in _claims_of(taken):
            if self._jobs.find(claimed) is None:
                row = await self._database.run(partial(read_job, job_id=claimed.job_id))
                if row is not None:
                    self._indexes = self._indexes or bool(row.outputs)
                    self._jobs.add(row)
        await self._jobs.prepare((claimed for turn in taken.turns for claimed in turn.documents), self._database)

    # --- Processing ------------------------------------------------------------------------------

    def _dispatch(self, queue: BinQueue) -> None:
        """Begin what the bin's pace and its open requests allow now; come back when the pace allows more."""
        if queue.is_denied:
            self._deny_waiting(queue)
        while queue.may_begin:
            # Not by the loop's time, which stands still while the loop is busy: the last start would be after it.
            now = time.monotonic()
            if not self._heart.trust.may_begin:
                return
            if len(self._tasks) >= self._settings.open_documents:
                self._crowded[queue.bin_id] = queue
                break
            if queue.next_start > now:
                if queue.bin_id not in self._timers:
                    crawl.WAITS.observe(queue.next_start - now)
                    self._timers[queue.bin_id] = self._loop.call_at(queue.next_start, self._on_time, queue.bin_id)
                break
            turn, claimed = queue.begin(now=now)
            job = self._jobs.find(claimed)
            if job is None or claimed.job_id in self._stopped_jobs:
                # The job was deleted or stopped while the batch was under way.
                queue.end(turn)
                self._given_back.append(claimed)
                self._flush_due.now()
                continue
            task = self._loop.create_task(
                self._process(queue, turn, claimed, job, self._pace_of(queue, turn, claimed, job))
            )
            self._tasks[task] = queue
            task.add_done_callback(self._task_ended)
        self._close_turns(queue)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Let the bins that have waited longest for the limit begin documents, until it is reached again."""
        del self._tasks[task]
        while self._crowded and len(self._tasks) < self._settings.open_documents:
            self._dispatch(self._crowded.pop(next(iter(self._crowded))))

    def _deny_waiting(self, queue: BinQueue) -> None:
        """Nothing may be asked of this bin: its documents end without a request, and outputs keep what they hold."""
        for claimed in queue.drop_waiting(lambda _claimed: True):
            job = self._jobs.find(claimed)
            if job is None or claimed.job_id in self._stopped_jobs:
                self._given_back.append(claimed)
                continue
            activity = Activity(claimed.document, configuration=job.configuration)
            activity.out_of_reach(code="DENIED")
            assert activity.outcome is not None
            self._ended.append(Ended(claimed, job, activity.outcome))
            crawl.DENIED.add()
        self._flush_due.within(self._settings.flush_after.total_seconds())

    def _on_time(self, bin_id: int) -> None:
        del self._timers[bin_id]
        if (queue := self._bins.find(bin_id)) is not None:
            self._dispatch(queue)

    def _shared_in(self, job: JobAtWork) -> SharedByWorkers:
        return SharedByWorkers(
            database=self._database,
            me=self._me,
            job=job.facts.id,
            repository=job.facts.repository,
            connection=job.connection,
            stop_job=self._stop_job,
        )

    def _pace_of(self, queue: BinQueue, turn: OpenTurn, claimed: Claimed, job: JobAtWork) -> _Pace:
        return _Pace(
            queue.paces_of(turn),
            delay=partial(_delay, claimed, job),
            left=partial(self._let_others, queue, turn.parents),
            may_begin=lambda: self._heart.trust.may_begin,
        )

    def _let_others(self, queue: BinQueue, parents: tuple[PacedBin, ...]) -> None:
        """A request has left, or is over: others of the bin, and of its parents, may have been held back by it."""
        self._dispatch(queue)
        if not any(paced.has_pace for paced in parents):
            return
        for other in self._bins.at_work:
            if other is not queue and other.waiting and any(paced in parents for paced in other.waiting[0][0].parents):
                self._dispatch(other)

    async def _process(self, queue: BinQueue, turn: OpenTurn, claimed: Claimed, job: JobAtWork, pace: _Pace) -> None:
        began_at = time.monotonic()
        set_document(job=claimed.job_id, identifier=claimed.document.identifier)
        activity = Activity(claimed.document, configuration=job.configuration, shared=self._shared_in(job))
        try:
            if turn.wants_address and await self._keep_address(queue.bin_id, claimed, job):
                # It is handed out anew, below that address.
                self._give_back_begun(queue, turn, claimed)
                return
            await job.connector.process(claimed.document, activity, pace)
        except asyncio.CancelledError:
            # The worker stops, or may no longer trust that it is a member: somebody will read it again.
            self._give_back_begun(queue, turn, claimed)
            return
        except Exception:
            logger.exception("defect of the connector while processing %s", claimed.document.identifier)
            activity.outcome = None
            activity.failed(code="PROTOCOL")
        queue.end(turn, after=time.monotonic() - began_at)
        assert activity.outcome is not None
        outcome = activity.outcome
        self._ended.append(Ended(claimed, job, outcome, is_trial=turn.is_trial))
        if outcome.back_off is not None:
            self._hosts_spoke = True
            self._give_back_waiting_of(queue, lambda _claimed: True)
        is_news = turn.is_trial or self._writer.is_unknown(claimed.lane_id) or job.runtime.has_news
        self._hosts_spoke = self._hosts_spoke or is_news
        if len(self._ended) >= _RESULTS_A_FLUSH or not self._is_busy:
            self._flush_due.now()
        elif not self._flush_due.is_asked_for:
            self._flush_due.within(results_wait(self._settings.flush_after, in_hand=self._bins.waiting))
        self._let_others(queue, turn.parents)

    def _give_back_begun(self, queue: BinQueue, turn: OpenTurn, claimed: Claimed) -> None:
        queue.end(turn)
        self._close_turns(queue)
        if turn.parents:
            self._let_others(queue, turn.parents)
        self._given_back.append(claimed)
        self._flush_due.now()

    async def _keep_address(self, bin_id: int, claimed: Claimed, job: JobAtWork) -> bool:
        """Find where a host is before it is asked for anything, since others are there, too."""
        address = await job.runtime.find_address(claimed.document.identifier)
        if address is not None:
            await self._database.run(partial(keep_address, bin_id=bin_id, address=address))
        return address is not None

    @property
    def _runs_out(self) -> bool:
        """Whether nothing is left to do here, so that each moment until the next batch is a pause."""
        return not self._tasks and not any(queue.waiting for queue in self._bins.at_work)

    @property
    def _is_busy(self) -> bool:
        """Whether more results will come without anything being flushed or taken first."""
        return len(self._tasks) > 1 or any(queue.waiting for queue in self._bins.at_work)

    def _give_back_waiting(self, is_dropped: Callable[[Claimed], bool]) -> None:
        for queue in self._bins.at_work:
            self._give_back_waiting_of(queue, is_dropped)

    def _give_back_waiting_of(self, queue: BinQueue, is_dropped: Callable[[Claimed], bool]) -> None:
        self._given_back.extend(queue.drop_waiting(is_dropped))
        self._close_turns(queue)
        self._flush_due.now()

    def _close_turns(self, queue: BinQueue) -> None:
        closed = queue.close_ended()
        if awaited := queue.awaited:
            self._awaited[queue.bin_id] = awaited
        else:
            self._awaited.pop(queue.bin_id, None)
        self._bins.let_rest(queue)
        if not closed:
            return
        self._closed.extend(closed)
        # Where its successor goes on here, that the bin may be followed again can wait a moment; else the
        # bin stands still until others may have it. What a host said of itself is flushed before.
        wait = _CLOSING_WAITS if queue.turns else _FREEING_WAITS
        (self._flush_due if self._hosts_spoke else self._close_due).within(wait)

    # --- Flushing --------------------------------------------------------------------------------

    async def _flushing(self) -> None:
        while True:
            await self._something_to_write.wait()
            # Whoever asked for it has ended then, and is not counted as work.
            await asyncio.sleep(0)
            self._something_to_write.clear()
            if self._close_due.is_over and not self._flush_due.is_over and not self._hosts_spoke:
                # A flush closes them too: it is worth a short wait.
                if not self._flush_due.comes_within(_CLOSED_WITH_A_FLUSH):
                    await self._write_closed()
            else:
                await self._write_everything()

    async def _write_closed(self) -> None:
        """Free the bins of turns that ended; their results may wait for more to come together."""
        self._close_due.clear()
        given = ToWrite(closed=self._closed, runs_out=self._runs_out)
        self._closed = []
        if not given.is_empty:
            await self._database.run(partial(self._writer.write, given=given))

    async def _write_everything(self) -> None:
        """Write results, documents that go back, and turns that ended; in this order."""
        self._flush_due.clear()
        self._close_due.clear()
        self._hosts_spoke = False
        given = ToWrite(self._ended, self._given_back, self._closed, self._batches.done, self._runs_out)
        if given.is_empty:
            return
        self._ended, self._given_back, self._closed = [], [], []
        try:
            written = await self._database.run(partial(self._writer.write, given=given))
        except OutputError as error:
            written = await self._write_by_job(given, error)
        self._batches.told(given.done_batches)
        self._flushed += written.flushed
        self._refused += written.refused
        for claimed in (*(one.claimed for one in given.ended), *given.given_back):
            self._settle(claimed)
        # After a take that found nothing, the next one waits for a notification, unless little is left.
        patient = self._found_nothing and self._claimed > _PLENTY
        if self._claimed <= self._settings.capacity - self._least_room and not patient:
            self._something_to_take.set()

    async def _write_by_job(self, given: ToWrite, error: OutputError) -> Written:
        """
        An output refused: write the other jobs' results, give back those of the job, and pause it.

        Its documents are kept, and nothing is fetched again and again for an output that is full.
        """
        logger.error("an output refused what it was given: %s", error)
        crawl.OUTPUT_ERRORS.add()
        flushed = 0
        back = list(given.given_back)
        for job_id in sorted({one.claimed.job_id for one in given.ended}):
            of_job = [one for one in given.ended if one.claimed.job_id == job_id]
            try:
                written = await self._database.run(partial(self._writer.write, given=ToWrite(of_job)))
                flushed += written.flushed
            except OutputError as refused:
                back += [one.claimed for one in of_job]
                await self._stop_job(job_id, str(refused))
        self._give_back_waiting(lambda claimed: claimed.job_id in self._stopped_jobs)
        rest = replace(given, ended=(), given_back=back)
        written = await self._database.run(partial(self._writer.write, given=rest))
        return Written(flushed=flushed, refused=written.refused)

    def _settle(self, claimed: Claimed) -> None:
        """A document of a batch is no longer this worker's."""
        if self._batches.settle(claimed.batch_id):
            self._flush_due.within(self._settings.flush_after.total_seconds())

    async def _remove(self, claims: list[Claimed]) -> None:
        """Take documents out of the outputs and out of the queue; what is not let go is tried again later."""
        by_job: dict[int, list[Claimed]] = {}
        for claimed in claims:
            by_job.setdefault(claimed.job_id, []).append(claimed)
        for of_job in by_job.values():
            job = self._jobs.find(of_job[0])
            if job is None:
                continue
            try:
                await self._database.run(partial(self._writer.remove, claims=of_job, jobs={job.facts.id: job.facts}))
            except OutputError as error:
                logger.error("an output refused a removal: %s", error)  # noqa: TRY400 (its sentence says it all)
                crawl.OUTPUT_ERRORS.add()
                await self._database.run(partial(self._writer.put_off, claims=of_job, reason=str(error)))
        for claimed in claims:
            self._settle(claimed)
        self._flush_due.now()

    async def _stop_job(self, job_id: int, reason: str) -> None:
        self._stopped_jobs.add(job_id)
        await self._database.run(lambda _connection: stop_job(job_id, reason=reason))

    # --- Obeying ---------------------------------------------------------------------------------

    async def _obeying(self) -> None:
        """Give back what belongs to jobs that must not go on, as soon as that is known."""
        while True:
            try:
                async with asyncio.timeout(self._settings.heartbeat.total_seconds()):
                    await self._control_changed.wait()
            except TimeoutError:
                pass
            self._control_changed.clear()
            await self._read_moved_jobs()
            mine = {claimed.job_id for queue in self._bins.at_work for _, claimed in queue.waiting}
            mine |= self._stopped_jobs
            if mine:
                self._stopped_jobs = await self._database.run(partial(_stopped, jobs=frozenset(mine)))
            if self._stopped_jobs:
                self._give_back_waiting(lambda claimed: claimed.job_id in self._stopped_jobs)
            at_work = [queue for queue in self._bins.at_work if queue.turns]
            above = [paced.bin_id for queue in at_work for turn in queue.turns for paced in turn.parents]
            self._heed_limits(await self._limits_of([*(queue.bin_id for queue in at_work), *above]))

    async def _limits_of(self, bins: Iterable[int]) -> dict[int, InForce]:
        if not (asked := list(bins)):
            return {}
        return await self._database.run(
            lambda connection: read_limits(connection, bins=asked, now=self._clock.now(connection))
        )

    def _heed_limits(self, in_force: Mapping[int, InForce]) -> None:
        """Serve bins under limits that are others since their turns were given."""
        if not in_force:
            return
        mine = {
            queue.bin_id: queue
            for queue in self._bins.at_work
            if queue.turns and (queue.bin_id in in_force or any(paced.bin_id in in_force for paced in queue.paces))
        }
        paces = {paced for queue in mine.values() for paced in queue.paces}
        # What was planned at another pace would last for longer than a turn may; and of what is not kept others have,
        # too. Who comes next gets what there is.
        given_back = {
            paced
            for paced in paces
            if paced.bin_id in in_force
            and (paced.heed(in_force[paced.bin_id].limits) or not in_force[paced.bin_id].is_kept)
        }
        for queue in mine.values():
            if queue.bin_id in in_force and in_force[queue.bin_id].limits.denied:
                queue.is_denied = True
                for task in [task for task, at in self._tasks.items() if at is queue]:
                    task.cancel()
                self._dispatch(queue)
                continue
            if queue.bin_id in in_force and in_force[queue.bin_id].limits.closed_until is not None:
                # What it had goes back, and waits as long as it is denied.
                self._give_back_waiting_of(queue, lambda _claimed: True)
                for task in [task for task, at in self._tasks.items() if at is queue]:
                    task.cancel()
                continue
            if given_back & queue.paces:
                self._give_back_waiting_of(queue, lambda _claimed: True)
            elif (timer := self._timers.pop(queue.bin_id, None)) is not None:
                # It may be for sooner now.
                timer.cancel()
                self._dispatch(queue)

    async def _read_moved_jobs(self) -> None:
        """Read anew what this worker knows of jobs that changed their state: perhaps their seeds changed too."""
        moved = [job_id for job_id in self._moved_jobs if self._jobs.knows(job_id)]
        self._moved_jobs.clear()
        for job_id in moved:
            row = await self._database.run(partial(read_job, job_id=job_id))
            if row is not None:
                self._jobs.add(row)

    async def _compare_batches(self) -> None:
        """
        Hold this worker's batches against the database's.

        A batch that is this worker's there and not here was taken by a statement whose answer was lost:
        nothing of it has begun, so it goes back.
        """
        here = self._batches.all
        there = await self._database.run(lambda connection: release.batches_of(connection, worker=self._me.id))
        # Some may have come meanwhile, and some may have been done.
        here |= self._batches.all
        strange = there - here
        if strange:
            await self._database.run(
                lambda connection: release.give_back_batches(
                    connection, worker=self._me.id, batches=strange, now=self._clock.now(connection)
                )
            )
        gone = here - there
        if gone:
            # Somebody ended these batches: their claims are void, so nothing more of them is begun.
            for queue in self._bins.at_work:
                for claimed in queue.drop_waiting(lambda claimed: claimed.batch_id in gone):
                    self._settle(claimed)
                self._close_turns(queue)

    async def _telling(self) -> None:
        if not self._settings.tells:
            await self._stop.wait()
            return
        await tell_outputs(
            self._database,
            worker=self._me.id,
            scope=self._me.scope,
            woken=self._something_to_tell,
            may_begin=lambda: self._heart.trust.may_begin,
            keeps_history=lambda: self._settings.keeps_history,
        )

    async def _clearing(self) -> None:
        await clear_outputs(
            self._database,
            may_begin=lambda: self._heart.trust.may_begin,
            keeps_history=lambda: self._settings.keeps_history,
        )

    # --- Indexing --------------------------------------------------------------------------------

    async def _indexing(self) -> None:
        """Make texts searchable behind the crawl, a few at a time, so that no flush waits long."""
        while True:
            has_more = self._indexes and await self._index_some()
            await asyncio.sleep(0.0 if has_more else _INDEX_POLL)

    async def _index_some(self) -> bool:
        """Make some texts searchable; returns whether there may be more."""
        held_back = self._backlog.holds
        has_more = self._backlog.note(
            await self._database.run(partial(index_waiting_texts, most=self._backlog.at_once))
        )
        if held_back and not self._backlog.holds:
            self._something_to_take.set()
        return has_more

    async def _index_what_is_left(self, deadline: float) -> None:
        """Make all texts searchable that wait: a one-shot has nobody to leave them to."""
        while self._indexes and self._loop.time() < deadline:
            indexed = await self._database.run(partial(index_waiting_texts, most=MORE_TEXTS_AT_ONCE))
            self._indexes = indexed.texts > 0


def results_wait(flush_after: dt.timedelta, *, in_hand: int) -> float:
    """Seconds that results wait to be written together: longer where what they name is not needed soon."""
    return flush_after.total_seconds() * (_PATIENCE if in_hand >= _PLENTY else 1)


def _stopped(connection: psycopg.Connection[Any], *, jobs: frozenset[int]) -> set[int]:
    """Those of these jobs of which nothing more may be begun; a job that is gone is one of them."""
    rows = connection.execute(
        f"""
        SELECT id FROM jobs_job AS job
         WHERE id = ANY(%s) AND phase IN ('active', 'shutting_down', 'deleting') AND {RUNNABLE}
        """,  # noqa: S608 (a constant)
        (list(jobs),),
    )
    return set(jobs) - {row[0] for row in rows}


def _delay(claimed: Claimed, job: JobAtWork) -> float:
    """The seconds between two requests that the document's source asks for, as far as they are known."""
    return job.connector.interval_of(claimed.document.identifier) or 0.0


def _claims_of(taken: Taken) -> list[Claimed]:
    return [
        *(claimed for turn in taken.turns for claimed in turn.documents),
        *(claimed for claims in taken.removals.values() for claimed in claims),
    ]
