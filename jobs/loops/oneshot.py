"""
The one-shot crawl: a manager in this process and its workers, in a separate scope.

The one-shot crawl has no contact with the nodes of the cluster. The one-shot crawl and the cluster share the bins, so
that a host sees one pace. When the one-shot process dies, its workers die with it, and the process that resumes the job
takes over its scope.
"""

import datetime as dt
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import connection as django_connection
from django.db.models import Q

from jobs.duties.housekeep import forget_scope
from jobs.lifecycle.job import Pause, Phase
from jobs.loops.daemons import make_manager
from jobs.loops.manager import Manager
from jobs.models import Job
from jobs.queue import release
from jobs.queue.counting import counters
from jobs.queue.counting.counters import RunCounts
from jobs.settings.table import DRAIN_TIMEOUT
from jobs.verbs import control
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.database.outage import OUTAGES
from nodes.decisions.elect import take_over
from nodes.decisions.judge import judge
from nodes.decisions.snapshot import NodeSeen
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.membership import leadership, members, snapshot
from nodes.membership.clock_jumps import notice_jump
from nodes.settings.node_settings import NODE_TIMEOUT
from nodes.settings.running import current

# Interval at which the state of the crawl is shown (seconds).
_PROGRESS: Final = 0.5
# Interval of checks of the job (seconds), in case a notification of a change was lost.
_CHECK_INTERVAL: Final = 1.0
# Interval of these checks after an interrupt, until the job has paused (seconds).
_CHECK_INTERVAL_AFTER_INTERRUPT: Final = 0.15
# Number of restarts of dead workers after which the crawl ends. If one document kills its workers, the document fails
# before this number is reached.
_RESTARTS: Final = 20


class JobBusy(Exception):
    """A live node works on the job already."""

    def __init__(self, job: Job, node: NodeSeen, name: str) -> None:
        self.node_id = node.id
        super().__init__(
            f"Job {job.name} is being worked on by the {node.kind} {name} ({node.id}); "
            "wait until it is finished, or pause it there first."
        )


class WorkersDie(Exception):
    """The workers of the one-shot crawl end repeatedly; the job stays ready to be resumed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of the crawl. `seconds` is the time since the start of the one-shot process."""

    counts: RunCounts
    seconds: float


@dataclass(slots=True)
class OneShot:
    """Runs one job to its end, or until `interrupt`; `show` is called a few times a second."""

    job_id: int
    workers: int
    show: Callable[[Progress], None] | None = None
    scope: str = field(default_factory=lambda: f"crawl:{uuid.uuid4()}")
    # Further command-line options of each worker.
    worker_options: Sequence[Sequence[str]] = ()
    _interrupts: int = 0
    _must_suspend: bool = False
    _restarts: int = 0
    _children: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    _began_at: float = 0.0
    _shown_at: float = 0.0
    _asked_at: float = 0.0
    _asked_after: int = -1
    _manager: Manager | None = None
    _connection: psycopg.Connection[Any] | None = None

    def interrupt(self) -> None:
        """
        Request a pause: documents in flight end, and all other documents wait. A second call ends the workers
        immediately.
        """
        self._interrupts += 1
        if self._interrupts > 1:
            for child in self._children:
                child.kill()

    def suspend(self) -> None:
        """Stop, as requested by Ctrl-Z, once no transaction is open: its locks would delay hosts of other crawls."""
        self._must_suspend = True

    @property
    def was_interrupted(self) -> bool:
        return self._interrupts > 0

    def run(self) -> Progress:
        """
        Work until the job is inactive, or paused after an interrupt; return the state of the crawl.

        Raises:
            ManagerFailed: the database was unavailable.
            WorkersDie: no worker stays alive.
        """
        self._began_at = time.monotonic()
        self._children = [self._start_worker(number) for number in range(self.workers)]
        try:
            self._manager = make_manager(name="crawl", scope=self.scope)
            self._manager.run(should_stop=self._is_over, after_pass=self._after_pass)
        finally:
            self._stop_workers()
        progress = self._read_progress()
        self._leave()
        return progress

    def _leave(self) -> None:
        """Return an inactive or paused job to the cluster, so that its pages can start or resume it."""
        at_rest = Job.objects.filter(pk=self.job_id).filter(Q(phase=Phase.INACTIVE) | Q(pause=Pause.PAUSED))
        if at_rest.update(node_scope=CLUSTER_SCOPE):
            with psycopg.connect(database_dsn(), autocommit=True) as connection:
                forget_scope(connection, scope=self.scope)

    def _after_pass(self) -> None:
        if self._must_suspend:
            self._must_suspend = False
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.show is not None and time.monotonic() - self._shown_at > _PROGRESS:
            self._shown_at = time.monotonic()
            with suppress(*OUTAGES):
                self.show(self._read_progress())
        for index, child in enumerate(self._children):
            if child.poll() is None or self.was_interrupted:
                continue
            self._restarts += 1
            if self._restarts > _RESTARTS:
                raise WorkersDie(f"workers ended {self._restarts} times, last with exit code {child.returncode}")
            self._children[index] = self._start_worker(index)

    def _is_over(self) -> bool:
        assert self._manager is not None
        changes = self._manager.events.control_changes
        wait_at_most = _CHECK_INTERVAL_AFTER_INTERRUPT if self.was_interrupted else _CHECK_INTERVAL
        if changes == self._asked_after and time.monotonic() - self._asked_at < wait_at_most:
            return False
        self._asked_at, self._asked_after = time.monotonic(), changes
        try:
            return self._has_ended()
        except OUTAGES:
            # Ignore the lost connection here: the loop of the manager waits for the database, and decides when to give
            # up.
            django_connection.close()
            return self.was_interrupted

    def _has_ended(self) -> bool:
        """True if the job needs no more work; pauses it after an interrupt."""
        job = Job.objects.get(pk=self.job_id)
        if job.phase == Phase.INACTIVE:
            return True
        if not self.was_interrupted:
            # An operator paused the job, or a worker paused it because an output refused documents.
            return job.pause == Pause.PAUSED
        if job.phase == Phase.ACTIVE and job.pause == Pause.NO:
            control.pause(job.pk, made_by="crawl", now=read_clock())
            return False
        # After two interrupts the workers have ended, and the job can be resumed later.
        return job.pause == Pause.PAUSED or job.phase != Phase.ACTIVE or self._interrupts > 1

    def _read_progress(self) -> Progress:
        job = Job.objects.get(pk=self.job_id)
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(database_dsn(), autocommit=True)
        counts = counters.read_run(self._connection, job_id=job.pk, run_no=job.run_no)
        return Progress(counts, time.monotonic() - self._began_at)

    def _start_worker(self, number: int) -> "subprocess.Popen[bytes]":
        command = [*settings.CRAWLCTL_PROGRAM, "runworker", "--attached", "--scope", self.scope, "--name", "crawl"]
        command += self.worker_options[number] if self.worker_options else ()
        # A separate session, so that Ctrl-C in the terminal reaches only this process, which then stops its workers.
        # The log lines of workers about single documents would disturb the progress bar; the summary counts these
        # documents.
        quiet = {"CRAWLCTL_LOG_LEVEL": "WARNING", **os.environ}
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, env=quiet
        )

    def _stop_workers(self) -> None:
        for child in self._children:
            child.terminate()
        deadline = time.monotonic() + current()[DRAIN_TIMEOUT].total_seconds() + 2
        for child in self._children:
            try:
                child.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def take_over_job(job: Job, *, scope: str, write_line: Callable[[str], None]) -> None:
    """
    Take over a job for this scope, after its own one-shot process ended or died.

    Nodes of this machine whose process no longer exists fail immediately; other nodes fail after their timeout.

    Raises:
        JobBusy: a live node works on the job.
    """
    with psycopg.connect(database_dsn(), autocommit=True) as connection:
        with connection.transaction():
            # After a jump of the clock, a dead node would seem to live until the clock has caught up.
            notice_jump(connection)
        if job.node_scope != CLUSTER_SCOPE:
            _clear_scope(connection, job, mine=scope, write_line=write_line)
        elif job.phase != Phase.INACTIVE and job.pause != Pause.PAUSED:
            node = next(iter(_live_nodes(connection, job)), None)
            if node is not None:
                raise JobBusy(job, node, _name_of(connection, node))
    job.node_scope = scope
    job.save(update_fields=["node_scope"])


def _clear_scope(
    connection: psycopg.Connection[Any], job: Job, *, mine: str, write_line: Callable[[str], None]
) -> None:
    """Mark the nodes of a dead one-shot crawl as failed, and release their claims."""
    me = NodeIdentity.of_this_process(kind=NodeKind.MANAGER, scope=mine, name="crawl", timeout=current()[NODE_TIMEOUT])
    began_at = time.monotonic()
    has_announced = False
    while True:
        cluster = snapshot.read_scope(connection, scope=job.node_scope, me=me)
        left = [node for node in cluster.nodes if not node.has_ended]
        alive = next((node for node in left if node.is_live), None)
        if alive is not None and alive.heartbeat_age < alive.timeout / 2:
            raise JobBusy(job, alive, _name_of(connection, alive))
        if not left:
            break
        if alive is None:
            members.register(connection, identity=me)
            members.begin_work(connection, node_id=me.id)
            waited = dt.timedelta(seconds=time.monotonic() - began_at)
            _judge_scope(connection, scope=job.node_scope, me=me, waited=max(waited, current()[NODE_TIMEOUT]))
            break
        if not has_announced:
            write_line(f"Waiting for the silence of node {alive.id} to be long enough ...")
            has_announced = True
        time.sleep(0.5)
    forget_scope(connection, scope=job.node_scope)


def _judge_scope(connection: psycopg.Connection[Any], *, scope: str, me: NodeIdentity, waited: dt.timedelta) -> None:
    """Act as main manager of a dead scope: mark its nodes as failed, release their claims, and leave."""

    def is_steady(duration: dt.timedelta) -> bool:
        return waited >= duration

    cluster = snapshot.read_scope(connection, scope=scope, me=me)
    candidacy = take_over(cluster, is_steady=is_steady)
    if candidacy is None:
        return
    term = leadership.elect(
        connection, node_id=me.id, scope=candidacy.scope, seen_term=candidacy.seen_term, replaces=candidacy.replaces
    )
    if term is None:
        return
    for verdict in judge(snapshot.read_scope(connection, scope=scope, me=me), is_steady=is_steady):
        leadership.mark_failed(connection, verdict=verdict, term=term)
    now = read_clock()
    release.release_of_lost_workers(connection, scope=scope, term=term, now=now)
    offered = connection.execute(
        "SELECT id FROM jobs_batch WHERE node_scope = %s AND state = 'available'", (scope,)
    ).fetchall()
    release.withdraw(connection, batches=[row[0] for row in offered], now=now, term=term)
    members.stop(connection, node_id=me.id, reason="took over a dead one-shot")


def _live_nodes(connection: psycopg.Connection[Any], job: Job) -> list[NodeSeen]:
    me = NodeIdentity.of_this_process(
        kind=NodeKind.MANAGER, scope=job.node_scope, name="crawl", timeout=current()[NODE_TIMEOUT]
    )
    return [node for node in snapshot.read_scope(connection, scope=job.node_scope, me=me).nodes if node.is_live]


def _name_of(connection: psycopg.Connection[Any], node: NodeSeen) -> str:
    row = connection.execute("SELECT name FROM nodes_node WHERE id = %s", (node.id,)).fetchone()
    return row[0] if row else ""
