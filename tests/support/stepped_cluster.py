"""
A cluster that is stepped by hand, in one process and on its own clock.

Nothing happens by itself. On command a manager performs its due duties, and a worker takes, processes and writes. A
failed node can still be stepped, as a *ghost* that has not noticed its failure. The code is that of the daemons,
including their SQL, without their loops.
"""

import contextlib
import copy
import dataclasses
import itertools
import time
import uuid

from jobs.connectors.repository.activity import Activity
from jobs.duties.context import Pass
from jobs.loops.loop import calls
from jobs.loops.manager.duty_tables import MAIN_DUTIES, OWNER_DUTIES
from jobs.loops.worker.batches import BatchesInHand
from jobs.loops.worker.host_queue import BinQueue, PacedBin
from jobs.loops.worker.jobs import JobTable, read_job
from jobs.loops.worker.writing import Ended, ToWrite, Writer
from jobs.queue import release
from jobs.queue.offering.hold import GroupHeld
from jobs.queue.take import take
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership import leadership, members
from nodes.membership.fences import FenceRefused
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds
from tests.support.free_pace import FreePace

_GROUPS = "SELECT id, epoch FROM jobs_throttlegroup WHERE owner_id = %s AND state = 'owned' ORDER BY id"
_CALLS = f"SELECT {calls(OWNER_DUTIES)}, {calls(MAIN_DUTIES)}"
_CAPACITY = 1000


class SteppedClock:
    """The database's time, as the whole cluster reads it."""

    def __init__(self):
        self.at = NOON

    def now(self, _connection):
        return self.at


class SteppedCluster:
    """Two managers, of which the first is the main manager, and two workers."""

    def __init__(self, connection):
        self.connection = connection
        self._numbers = itertools.count(1)
        self.clock = SteppedClock()
        self.managers = [SteppedManager(self), SteppedManager(self)]
        self.workers = [SteppedWorker(self), SteppedWorker(self)]
        self.ghosts = []
        self.term = elect_main(connection, self.managers[0].identity)

    @property
    def main(self):
        return next(manager for manager in self.managers if manager.identity.id == self.term.main_id)

    def register(self, kind, **facts):
        """Register a node. Ids grow, so that a history is the same each time that it is stepped."""
        # No node beats here, and histories take a while.
        facts = {"timeout": seconds(1800), **facts}
        return register_node(self.connection, kind, id=uuid.UUID(int=next(self._numbers)), **facts)

    def let_pass(self, amount):
        """Let `amount` seconds pass."""
        self.clock.at += seconds(amount)

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
        self.ghosts.append(manager)

    def drain_manager(self, manager):
        """Ask a manager to stop. Its office and its groups go to others before it notices."""
        self.managers = [other for other in self.managers if other is not manager]
        members.begin_draining(self.connection, node_id=manager.identity.id, reason="asked to stop")
        if manager.identity.id == self.term.main_id:
            leadership.resign(self.connection, term=self.term)
            self.term = leadership.elect(
                self.connection, node_id=self.managers[0].identity.id, scope=CLUSTER_SCOPE, seen_term=self.term.term
            )
            assert self.term is not None
        self.managers.append(SteppedManager(self))
        self.ghosts.append(manager)

    def fail_worker(self, worker):
        """Let a worker fall silent, and mark it as failed with all that it holds."""
        assert leadership.mark_failed(
            self.connection, verdict=fall_silent(self.connection, worker.identity), term=self.term
        )
        self.workers = [SteppedWorker(self) if other is worker else other for other in self.workers]
        self.ghosts.append(worker)

    def lay_ghosts(self):
        """Let each ghost try its remaining work, then remove it. Fences refuse what they guard."""
        for ghost in self.ghosts:
            ghost.haunt()
        self.ghosts = []


class SteppedManager:
    """A manager. `groups` are the groups that it believes to own since its last look."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.identity = cluster.register("manager")
        self.groups = ()
        self._term = None

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
            if is_called
        ]
        return sum(duty.run(self._at) for duty in called)

    def haunt(self):
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


class _Died(Exception):
    """A worker died."""


class _Dying:
    """Outputs after which their worker dies."""

    def __init__(self, outputs):
        self._outputs = outputs

    def write(self, cursor, **facts):
        self._outputs.write(cursor, **facts)
        raise _Died


class SteppedWorker:
    """A worker, with the documents that it has taken, processed and not yet written."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.identity = cluster.register("worker", capacity=_CAPACITY)
        self._jobs = JobTable()
        self._writer = Writer(self.identity, cluster.clock)
        self._bins = {}
        self._removals = []
        self._ended = []
        self._given_back = []
        self._closed = []
        self._batches = BatchesInHand()

    def take(self, room=_CAPACITY):
        """Take batches of about `room` documents."""
        for turn, claims in self._take(room):
            for claimed in claims:
                self._batches.add(claimed.batch_id)
                self._know(claimed)
            if turn is None:
                self._removals.append(claims)
            else:
                queue = self._bins.setdefault(turn.bin_id, BinQueue(PacedBin(turn.bin_id)))
                self._given_back += queue.add(turn, now=self._seconds)
        self._close()

    def lose_take(self):
        """Take batches by a statement whose answer is lost, and recover from that."""
        self._take(_CAPACITY)
        there = release.batches_of(self._cluster.connection, worker=self.identity.id)
        strange = there - self._batches.all
        release.give_back_batches(
            self._cluster.connection, worker=self.identity.id, batches=strange, now=self._cluster.clock.at
        )

    def process(self, most=_CAPACITY):
        """Begin and end at most `most` documents, including those to be removed."""
        for queue in self._bins.values():
            while most and queue.may_begin:
                self._process(queue)
                most -= 1
        if most:
            removals, self._removals = self._removals, []
            for claims in removals:
                self._remove(claims)
        self._close()

    def give_back(self):
        """Return all documents that have not begun."""
        for queue in self._bins.values():
            self._given_back += queue.drop_waiting(lambda _claimed: True)
        self._close()

    def write(self):
        """Flush ended documents, return released ones, and close turns and batches."""
        given = ToWrite(self._ended, self._given_back, self._closed, self._batches.done)
        if given.is_empty:
            return
        self._ended, self._given_back, self._closed = [], [], []
        self._writer.write(self._cluster.connection, given)
        self._batches.told(given.done_batches)
        for claimed in (*(one.claimed for one in given.ended), *given.given_back):
            self._settle(claimed)

    def flush_unheard(self):
        """Flush ended documents, but lose the answer."""
        known = copy.deepcopy(self._writer._known)
        if self._ended:
            self._writer._flush(self._cluster.connection, self._ended, now=self._cluster.clock.at)
        self._writer._known = known

    def flush_in_vain(self):
        """Flush ended documents, but die before the commit. Outputs that cannot be rolled back keep them."""
        real = self._writer._outputs
        self._writer._outputs = _Dying(real)
        with contextlib.suppress(_Died):
            if self._ended:
                self._writer._flush(self._cluster.connection, self._ended, now=self._cluster.clock.at)
        self._writer._outputs = real

    def haunt(self):
        with contextlib.suppress(FenceRefused):
            self.process()
            self.write()

    @property
    def _seconds(self):
        return (self._cluster.clock.at - NOON).total_seconds()

    def _take(self, room):
        taken = take(
            self._cluster.connection,
            worker=self.identity.id,
            room=room,
            idle=not self._batches.documents,
            now=self._cluster.clock.at,
        )
        return [*((turn, turn.documents) for turn in taken.turns), *((None, some) for some in taken.removals.values())]

    def _know(self, claimed):
        if self._jobs.find(claimed) is None:
            row = read_job(self._cluster.connection, job_id=claimed.job_id)
            if row is not None:
                self._jobs.add(row)

    def _process(self, queue):
        turn, claimed = queue.begin(now=self._seconds)
        job = self._jobs.find(claimed)
        queue.end(turn)
        if job is None:
            self._given_back.append(claimed)
            return
        activity = Activity(claimed.document, configuration=job.configuration)
        _run(job.connector.process(claimed.document, activity, FreePace()))
        self._ended.append(Ended(claimed, job, activity.outcome))

    def _remove(self, claims):
        jobs = {claimed.job_id: job.facts for claimed in claims if (job := self._jobs.find(claimed)) is not None}
        known = [claimed for claimed in claims if claimed.job_id in jobs]
        self._writer.remove(self._cluster.connection, claims=known, jobs=jobs)
        for claimed in claims:
            self._settle(claimed)

    def _close(self):
        for queue in self._bins.values():
            self._closed += [self._on_the_real_clock(turn) for turn in queue.close_ended()]

    def _on_the_real_clock(self, turn):
        """Closing a turn takes moments of the clock of real processes."""
        if turn.pace is None:
            return turn
        pace = turn.pace._replace(last_start=time.monotonic() + turn.pace.last_start - self._seconds)
        return dataclasses.replace(turn, pace=pace)

    def _settle(self, claimed):
        self._batches.settle(claimed.batch_id)


def _run(coroutine):
    """Run a coroutine that waits only for its next turn, so it needs no event loop."""
    with contextlib.suppress(StopIteration):
        while True:
            coroutine.send(None)
