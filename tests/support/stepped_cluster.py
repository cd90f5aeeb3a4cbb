"""
A cluster that is stepped by hand, in one process and on its own clock.

Nothing happens by itself. On command a manager performs its due duties, and a worker takes, processes and writes. A
failed node can still be stepped, as a *zombie* that has not noticed its failure. The cluster executes the code of the
daemons with their SQL, but without their loops.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import itertools
import selectors
import time
import uuid
import weakref
from types import SimpleNamespace
from unittest import mock

from jobs.duties.clock import follow_clock
from jobs.duties.context import Pass
from jobs.loops.loop import calls
from jobs.loops.manager.duty_tables import MAIN_DUTIES, OWNER_DUTIES
from jobs.loops.worker import WorkerSettings
from jobs.loops.worker.flushing import Flushing
from jobs.loops.worker.limits import Limits
from jobs.loops.worker.outputs import JobOutputs
from jobs.loops.worker.processing import Processing
from jobs.loops.worker.results import Results
from jobs.loops.worker.serving import Serving
from jobs.loops.worker.state import WorkerState
from jobs.loops.worker.taking import Taking
from jobs.loops.worker.upkeep import Upkeep
from jobs.loops.worker.writing import Writer
from jobs.queue import take
from jobs.queue.flushing import flush
from jobs.queue.offering.hold import GroupHeld
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership import leadership, members
from nodes.membership.fences import FenceRefused
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds

_GROUPS = "SELECT id, epoch FROM jobs_throttlegroup WHERE owner_id = %s AND state = 'owned' ORDER BY id"
_CALLS = f"SELECT {calls(OWNER_DUTIES)}, {calls(MAIN_DUTIES)}"
_CAPACITY = 1000
# Age of the monotonic clock at the start (seconds): more than any interval that starts at 0.
_STARTED_BEFORE = 100_000.0
# Settings of a worker that starts documents only in the step that processes them.
_SETTINGS = WorkerSettings(
    capacity=_CAPACITY,
    open_documents=0,
    pools={},
    notifies=True,
    keeps_strictly=False,
    flush_after=seconds(1),
    drain_timeout=seconds(10),
    heartbeat=seconds(2),
    keeps_history=True,
)


class SteppedClock:
    """The database's time, as the whole cluster reads it. The event loop of its workers uses no other time."""

    def __init__(self):
        self.at = NOON
        self._loop = asyncio.SelectorEventLoop(_Leaping(self))
        weakref.finalize(self, self._loop.close)

    def now(self, _connection):
        return self.at

    def monotonic(self):
        """Return the seconds of a monotonic clock that started long ago."""
        return _STARTED_BEFORE + (self.at - NOON).total_seconds()

    def let_pass(self, amount):
        """Let `amount` seconds pass, at least the shortest time that a clock can show."""
        self.at += max(seconds(amount), dt.timedelta.resolution)

    def run(self, coroutine):
        """Run a coroutine to its end. The time until the next timer passes immediately."""
        with mock.patch.object(time, "monotonic", self.monotonic):
            return self._loop.run_until_complete(coroutine)


class _Leaping(selectors.DefaultSelector):
    """A selector that lets time pass instead of waiting."""

    def __init__(self, clock):
        super().__init__()
        self._clock = weakref.ref(clock)

    def select(self, timeout=None):
        assert timeout is not None, "a step waits without end"
        if timeout > 0:
            self._clock().let_pass(timeout)
        return super().select(0)


class SteppedCluster:
    """Two managers, of which the first is the main manager, and two workers."""

    def __init__(self, connection):
        self.connection = connection
        self._numbers = itertools.count(1)
        self.clock = SteppedClock()
        self.managers = [SteppedManager(self), SteppedManager(self)]
        self.workers = [SteppedWorker(self), SteppedWorker(self)]
        self.zombies = []
        self.term = elect_main(connection, self.managers[0].identity)

    @property
    def main(self):
        return next(manager for manager in self.managers if manager.identity.id == self.term.main_id)

    def register(self, kind, **facts):
        """Register a node. Ids grow, so that a history is the same each time that it is stepped."""
        # Nodes here send no heartbeats, so the timeout must be longer than any history.
        facts = {"timeout": seconds(1800), **facts}
        return register_node(self.connection, kind, id=uuid.UUID(int=next(self._numbers)), **facts)

    def let_pass(self, amount):
        """Let `amount` seconds pass."""
        self.clock.let_pass(amount)

    def work(self):
        """Let every node do all its present work once, and let a second pass."""
        for manager in self.managers:
            manager.work()
        for worker in self.workers:
            worker.take()
            worker.process()
            worker.write()
        self.let_pass(1)

    def fail_manager(self, manager):
        """Let a manager fall silent, and mark it as failed. If it was the main manager, elect another one."""
        verdict = fall_silent(self.connection, manager.identity)
        others = [other for other in self.managers if other is not manager]
        if manager is self.main:
            self.term = leadership.elect(
                self.connection,
                node_id=others[0].identity.id,
                scope=CLUSTER_SCOPE,
                seen_term=self.term.term,
                replaces=verdict,
            )
            assert self.term is not None
        else:
            assert leadership.mark_failed(self.connection, verdict=verdict, term=self.term)
        self.managers = [*others, SteppedManager(self)]
        self.zombies.append(manager)

    def drain_manager(self, manager):
        """Ask a manager to stop. Other managers get its leadership and its groups before it notices."""
        self.managers = [other for other in self.managers if other is not manager]
        members.begin_draining(self.connection, node_id=manager.identity.id, reason="asked to stop")
        if manager.identity.id == self.term.main_id:
            leadership.resign(self.connection, term=self.term)
            self.term = leadership.elect(
                self.connection, node_id=self.managers[0].identity.id, scope=CLUSTER_SCOPE, seen_term=self.term.term
            )
            assert self.term is not None
        self.managers.append(SteppedManager(self))
        self.zombies.append(manager)

    def fail_worker(self, worker):
        """Let a worker fall silent, and mark it as failed with all that it holds."""
        assert leadership.mark_failed(
            self.connection, verdict=fall_silent(self.connection, worker.identity), term=self.term
        )
        self.workers = [SteppedWorker(self) if other is worker else other for other in self.workers]
        self.zombies.append(worker)

    def retire_zombies(self):
        """Let each zombie try its remaining work, then remove the zombie. Fences refuse its guarded writes."""
        for zombie in self.zombies:
            zombie.try_remaining_work()
        self.zombies = []


class SteppedManager:
    """A manager. `groups` are the groups that it believes to own since its last look."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.identity = cluster.register("manager")
        self.groups = ()
        self._term = None
        # By name of a duty of housekeeping: the moment at which it was last performed.
        self._last_housekeeping = {}

    def look(self):
        """Learn its groups, and whether it is the main manager."""
        cluster = self._cluster
        self.groups = tuple(
            GroupHeld(*group) for group in cluster.connection.execute(_GROUPS, [self.identity.id]).fetchall()
        )
        self._term = cluster.term if cluster.term.main_id == self.identity.id else None

    def work(self):
        """Make one pass of a manager that knows its groups."""
        self.look()
        self.perform()

    def perform(self):
        """Perform each due duty once, and return the amount of moved work."""
        facts = {"scope": CLUSTER_SCOPE, "now": self._at.now, "me": self.identity.id}
        answers = self._cluster.connection.execute(_CALLS, facts).fetchone()
        rows = (OWNER_DUTIES, MAIN_DUTIES if self._term else ())
        called = [
            duty
            for duties, asked in zip(rows, answers, strict=True)
            for duty, is_called in zip(duties, asked, strict=False)
            if is_called and self._is_due(duty)
        ]
        return sum(duty.run(self._at) for duty in called)

    def _is_due(self, duty):
        """
        Return True if the duty is due: always for duties of the crawl, and after its interval for housekeeping.

        The duty that notices a clock that was set back never runs, because the clock of the tests is ahead of the
        database's.
        """
        if duty.run is follow_clock:
            return False
        if duty.every < seconds(60):
            return True
        at = self._cluster.clock.at
        is_due = duty.name not in self._last_housekeeping or at - self._last_housekeeping[duty.name] >= duty.every
        if is_due:
            self._last_housekeeping[duty.name] = at
        return is_due

    def try_remaining_work(self):
        with contextlib.suppress(FenceRefused):
            self.perform()

    @property
    def _at(self):
        return Pass(
            connection=self._cluster.connection,
            me=self.identity.id,
            scope=CLUSTER_SCOPE,
            now=self._cluster.clock.at,
            term=self._term,
            groups=self.groups,
        )


class _AnswerLost(Exception):
    """The connection broke before the answer to a statement arrived."""


class _SteppedThread:
    """
    The worker's connection. Like the real one, it repeats work after a lost answer, but not before the worker's next
    step.

    Removals that begin with a take wait until a later step lets them continue, so that other nodes can take steps
    meanwhile. `waiting` has an event for each task that waits for a later step. `stops` is set when a task begins to
    wait.
    """

    def __init__(self, connection):
        self._connection = connection
        self.answers, self.removals, self.stops = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.waiting = {}

    async def run(self, work):
        if getattr(getattr(work, "func", None), "__func__", None) is Writer.remove:
            await self._wait_for(self.removals)
        while True:
            try:
                return self._do(work)
            except _AnswerLost:
                self.answers.clear()
                await self._wait_for(self.answers)

    def _do(self, work):
        """Do work as in a thread without an event loop, where Django has its usual connection."""
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return work(self._connection)
        finally:
            asyncio._set_running_loop(loop)

    async def _wait_for(self, event):
        if not event.is_set():
            self.waiting[asyncio.current_task()] = event
            self.stops.set()
            await event.wait()

    def let(self, event):
        """Let the tasks go on that wait for this event."""
        event.set()
        self.waiting = {task: other for task, other in self.waiting.items() if other is not event}


class SteppedWorker:
    """
    The parts of a worker, without its tasks. Their methods are the steps.

    A step that lost an answer, or that has removals left, waits for a later step.
    """

    def __init__(self, cluster):
        self._cluster = cluster
        self.identity = cluster.register("worker", capacity=_CAPACITY)
        self._unfinished = []
        cluster.clock.run(self._put_together())

    async def _put_together(self):
        cluster = self._cluster
        self._thread = _SteppedThread(cluster.connection)
        self._state = state = WorkerState(
            identity=self.identity,
            settings=_SETTINGS,
            node=SimpleNamespace(may_begin=lambda: True),
            database=self._thread,
            clock=cluster.clock,
            writer=Writer(self.identity, cluster.clock),
            results=Results(asyncio.get_running_loop()),
        )
        self._serving = Serving(state, process=Processing(state).process)
        limits = Limits(state, self._serving)
        self._flushing = Flushing(state, self._serving)
        self._taking = Taking(state, serving=self._serving, limits=limits, flushing=self._flushing)
        self._upkeep = Upkeep(state, serving=self._serving, limits=limits)

    # --- Steps -----------------------------------------------------------------------------------

    def take(self, room=_CAPACITY):
        """Take batches of about `room` documents."""
        self._step(self._taking.take(room))

    def take_with_lost_answer(self):
        """Take batches by a statement whose answer is lost, and recover from that."""
        with _losing_answers_of(take, "take"):
            self.take()
        self._step(self._upkeep.compare_batches())

    def process(self, most=_CAPACITY):
        """Begin and end at most `most` documents, and make the removals of earlier takes."""
        self._thread.let(self._thread.removals)
        self._step(self._serve(most))
        self._thread.removals.clear()

    def give_back(self):
        """Return all documents that have not begun."""
        self._step(self._give_back())

    def write(self):
        """Flush ended documents, return released ones, and close turns and batches."""
        self._step(self._flushing.write_everything())

    def flush_with_lost_answer(self):
        """Flush ended documents, but lose the answer."""
        with _losing_answers_of(flush, "flush"):
            self.write()

    def flush_without_commit(self):
        """Flush ended documents, but lose the connection after the writes to the outputs and before the commit."""
        with _losing_answers_of(JobOutputs, "write"):
            self.write()

    def remove_in_vain(self):
        """Make removals, but lose the connection after they reached the outputs and before the commit."""
        with _losing_answers_of(JobOutputs, "remove"):
            self.process()

    def try_remaining_work(self):
        with contextlib.suppress(FenceRefused):
            self.process()
            self.write()

    # --- Inside the event loop -------------------------------------------------------------------

    def _step(self, coroutine):
        self._thread.let(self._thread.answers)
        self._cluster.clock.run(self._go_on(coroutine))

    async def _go_on(self, coroutine):
        """Run the step and the unfinished ones until each has ended, or waits for a later step."""
        task = asyncio.create_task(coroutine)
        # A worker that fails leaves its last step unfinished.
        task._log_destroy_pending = False
        self._unfinished.append(task)
        while active := [one for one in self._unfinished if not one.done() and one not in self._thread.waiting]:
            self._thread.stops.clear()
            stops = asyncio.create_task(self._thread.stops.wait())
            await asyncio.wait([*active, stops], return_when=asyncio.FIRST_COMPLETED)
            stops.cancel()
        ended = [one for one in self._unfinished if one.done()]
        self._unfinished = [one for one in self._unfinished if not one.done()]
        for one in ended:
            one.result()

    async def _serve(self, most):
        state, begun = self._state, 0
        while begun < most:
            state.settings = dataclasses.replace(_SETTINGS, open_documents=most - begun)
            self._serving.dispatch_all()
            # No other document starts when one ends.
            state.settings = _SETTINGS
            if tasks := [*self._serving.tasks]:
                begun += len(tasks)
                await asyncio.wait(tasks)
            elif starts := [queue.next_start for queue in state.bins.at_work if queue.may_begin]:
                await asyncio.sleep(max(0.0, min(starts) - time.monotonic()))
            else:
                return

    async def _give_back(self):
        self._serving.give_back_waiting(lambda _claimed: True)


@contextlib.contextmanager
def _losing_answers_of(place, name):
    """Let a function do its work, and lose its answer."""
    real = getattr(place, name)

    def lose_answer(*arguments, **named):
        real(*arguments, **named)
        raise _AnswerLost

    with mock.patch.object(place, name, lose_answer):
        yield
