"""
The writes of a worker: the flush, and the short transactions around it, in the database's thread.

Each of them may run again from its start on a new connection: the claim fence counts an outcome once, and the other
writes are idempotent.
"""

import datetime as dt
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from django.db import connection as django_connection

from jobs.connectors.repository.base import Outcome
from jobs.connectors.repository.kind import BinKind
from jobs.lifecycle.job import RunEnd
from jobs.loops.database import DatabaseClock
from jobs.loops.disk import FreeDisk
from jobs.loops.worker.archives import JobArchives
from jobs.loops.worker.counting import count_closed, count_dropped, count_flush, count_given_back
from jobs.loops.worker.jobs import JobAtWork
from jobs.loops.worker.known_references import KnownReferences
from jobs.loops.worker.outputs import JobOutputs
from jobs.loops.worker.sent_requests import SentRequests
from jobs.queue import discover, release, wake
from jobs.queue.flushing import flush
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.pace import close, hosts
from jobs.queue.rejected import RejectedSamples
from jobs.queue.removing import drop
from jobs.queue.take import Claimed
from jobs.queue.traps import TrapCounts
from jobs.state import channels
from jobs.state.transitions import TransitionRefused, make_transition
from nodes.database.clock import read_clock
from nodes.errors import Unknown
from nodes.life.identity import NodeIdentity

logger = logging.getLogger(__name__)

# Shortest time between two wake-ups (seconds); wake-ups in between are merged. Only idle workers send them, so there
# are few under load.
_SECONDS_BETWEEN_WAKE_UPS: Final = 0.02
# Largest difference between the database's time as two processes know it, because each process reads the time with some
# delay.
_CLOCKS_DIFFER: Final = dt.timedelta(milliseconds=50)
# Number of lanes whose ids a worker remembers. Above it, the worker forgets all of them.
_MOST_KNOWN_LANES: Final = 100_000
# Delay of the next attempt after an output refused a removal.
_REMOVAL_RETRY_DELAY: Final = dt.timedelta(seconds=10)
_NOTIFY: Final = "SELECT pg_notify(%s, %s)"
_WRITE_REASON: Final = "UPDATE jobs_job SET reason = %s WHERE id = %s"
_CLEAR_REASON: Final = "UPDATE jobs_job SET reason = '' WHERE id = %s AND reason = %s"


@dataclass(frozen=True, slots=True)
class Ended:
    """A claimed document and its outcome; `is_trial` if it tested whether its bin's back-off can end."""

    claimed: Claimed
    job: JobAtWork
    outcome: Outcome
    is_trial: bool = False


@dataclass(frozen=True, slots=True)
class ToWrite:
    """
    The results since the last write. `runs_out` is true if the worker has few documents left: managers must then be
    notified of free places immediately.
    """

    ended: Sequence[Ended] = ()
    given_back: Sequence[Claimed] = ()
    closed: Sequence[close.ClosedTurn] = ()
    done_batches: Sequence[int] = ()
    runs_out: bool = True
    # Documents of a flush that an output refused. They return to the queue, although other outputs may have them
    # already.
    refused: Sequence[Claimed] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.ended or self.given_back or self.refused or self.closed or self.done_batches)


@dataclass(frozen=True, slots=True)
class Written:
    """The number of written outcomes and returned documents, and of lost claims."""

    flushed: int = 0
    refused: int = 0


@dataclass(slots=True)
class Writer:
    """The writes of one worker. Only the database's thread calls it, except for `expect_unknown` and `is_unknown`."""

    me: NodeIdentity
    clock: DatabaseClock
    keeps_history: bool = True
    disk: FreeDisk = field(default_factory=FreeDisk)
    # Counts of requests for the evidence of politeness.
    sent: SentRequests | None = None
    _known: KnownReferences = field(default_factory=KnownReferences)
    archives: JobArchives = field(init=False)
    _outputs: JobOutputs = field(default_factory=JobOutputs)
    _rejected: RejectedSamples = field(default_factory=RejectedSamples)
    _traps: TrapCounts = field(default_factory=TrapCounts)
    _lanes: dict[tuple[int, str], int] = field(default_factory=dict)
    _unknown_lanes: set[int] = field(default_factory=set)
    # Jobs whose last removal an output refused, with the reason.
    _refused: dict[int, str] = field(default_factory=dict)
    _woken_at: float = 0.0
    _must_wake: bool = False

    def __post_init__(self) -> None:
        self.archives = JobArchives(self.me)

    def expect_unknown(self, lane_id: int) -> None:
        """Record that the lane's host is still unknown. The first outcome of the lane makes it known."""
        self._unknown_lanes.add(lane_id)

    def is_unknown(self, lane_id: int) -> bool:
        """True if the first outcome of this lane is still awaited, or not yet stored."""
        return lane_id in self._unknown_lanes

    def write(self, connection: psycopg.Connection[Any], given: ToWrite) -> Written:
        """
        Flush outcomes, release documents, close turns, and wake the managers that wait for free places or new
        documents.

        Raises:
            OutputError: an output refused; nothing of the flush was written.
            FenceRefused: the worker was marked failed.
        """
        now = self.clock.now(connection)
        flushed = self._flush(connection, given.ended, now=now) if given.ended else flush.Flushed()
        returned = release.give_back(connection, worker=self.me.id, claims=given.given_back, now=now)
        returned += release.give_back(connection, worker=self.me.id, claims=given.refused, is_uncertain=True, now=now)
        woken = close.close_turns(
            connection,
            worker=self.me.id,
            turns=given.closed,
            batches=given.done_batches,
            filled=flushed.lanes,
            due_later=flushed.waiting_lanes,
            # A notified manager scans immediately, and its clock may be behind the clock of this process.
            now=now - _CLOCKS_DIFFER,
        )
        lost = len(given.given_back) + len(given.refused) - returned
        count_given_back(returned, refused=lost)
        count_closed(given.closed, batches=len(given.done_batches))
        # Managers scan by themselves some times a second: only an idle worker notifies them.
        self._must_wake = self._must_wake or (bool(flushed.lanes or woken or returned) and given.runs_out)
        self._wake_managers(connection)
        self._rejected.write(connection, at_once=given.runs_out)
        for job_id in sorted(self._traps.write(connection, at_once=given.runs_out)):
            # All workers read the job again, and hold back the documents of the suspect.
            connection.execute(_NOTIFY, (channels.CONTROL, str(job_id)))
        return Written(flushed=flushed.written, refused=flushed.refused + lost)

    def remove(
        self, connection: psycopg.Connection[Any], *, claims: Sequence[Claimed], jobs: dict[int, JobFacts]
    ) -> None:
        """
        Remove documents from the outputs and from the queue.

        Raises:
            OutputError: an output refused; nothing was removed.
            FenceRefused: the worker was marked failed.
        """
        now = self.clock.now(connection)
        dropped = drop.drop(
            connection,
            worker=self.me.id,
            claims=claims,
            jobs=jobs,
            outputs=self._outputs,
            keeps_history=self.keeps_history,
            now=now,
        )
        count_dropped(dropped)
        close.close_turns(connection, worker=self.me.id, filled=dropped.lanes, now=now)
        for job_id in self._refused.keys() & jobs.keys():
            connection.execute(_CLEAR_REASON, (job_id, self._refused[job_id]))
            del self._refused[job_id]
        self._must_wake = True
        self._wake_managers(connection)

    def postpone(self, connection: psycopg.Connection[Any], *, claims: Sequence[Claimed], reason: str) -> None:
        """
        Release documents whose removal an output refused, so that it is tried again later, and show the reason.

        Raises:
            FenceRefused: the worker was marked failed.
        """
        release.postpone(
            connection, worker=self.me.id, claims=claims, until=self.clock.now(connection) + _REMOVAL_RETRY_DELAY
        )
        job_id = claims[0].job_id
        if self._refused.get(job_id) != reason:
            self._refused[job_id] = reason
            connection.execute(_WRITE_REASON, (reason, job_id))

    def _flush(self, connection: psycopg.Connection[Any], ended: Sequence[Ended], *, now: dt.datetime) -> flush.Flushed:
        lanes = self._open_lanes(connection, ended)
        began_at = time.monotonic()
        results = [Result(one.claimed, one.job.facts, one.outcome, lanes) for one in ended]
        self.archives.append(connection, results, now=now)
        flushed = flush.flush(
            connection,
            worker=self.me.id,
            results=results,
            outputs=self._outputs,
            archives=self.archives,
            unknown=self._known.unknown,
            keeps_history=self.keeps_history,
            now=now,
        )
        self.disk.writes_to([*self._outputs.files(), *self.archives.files()])
        count_flush(flushed, seconds=time.monotonic() - began_at)
        self._known.add(flushed.named)
        for job_id, reason in flushed.failing_jobs.items():
            abort_job(job_id, reason=reason)
        self._report_hosts(connection, ended)
        self._rejected.collect((one.job.facts, one.outcome) for one in ended if one.outcome.rejected)
        self._traps.collect(flushed.counted)
        return flushed

    def _open_lanes(self, connection: psycopg.Connection[Any], ended: Sequence[Ended]) -> dict[tuple[int, str], int]:
        """Return the lanes of all references of the documents; insert missing bins and lanes."""
        wanted = self._absent_lanes(ended)
        if wanted and len(self._lanes) > _MOST_KNOWN_LANES:
            self._lanes.clear()
            wanted = self._absent_lanes(ended)
        for bins, lanes in wanted.items():
            self._lanes |= discover.open_lanes(connection, bins=bins, wanted=lanes)
        return self._lanes

    def _absent_lanes(self, ended: Sequence[Ended]) -> dict[BinKind, set[tuple[int, str]]]:
        """
        Return the referenced (seed, bin name) pairs whose lanes this worker does not know, by the kind of their bins.
        """
        # Group the hosts by job and seed first, because most documents name the same hosts.
        named: dict[tuple[int, int], tuple[JobAtWork, set[str]]] = {}
        for one in ended:
            _, names = named.setdefault((one.claimed.job_id, one.claimed.seed_id), (one.job, set()))
            names.update([reference.bin for reference in one.outcome.references or ()])
        absent: dict[BinKind, set[tuple[int, str]]] = {}
        for (_, seed_id), (job, names) in named.items():
            lanes = {(seed_id, name) for name in names} - self._lanes.keys()
            if (partitioned := job.facts.partitioned) is not None:
                lanes = {(seed, name) for seed, name in lanes if partitioned.foreign(name) is None}
            if lanes:
                absent.setdefault(job.bins, set()).update(lanes)
        return absent

    def _report_hosts(self, connection: psycopg.Connection[Any], ended: Sequence[Ended]) -> None:
        """Store the facts that sources gave about themselves: robots.txt, crawl-delay, Retry-After."""
        runtimes = {id(one.job.runtime): one.job.runtime for one in ended}
        has_news = {key: runtime.store(connection) for key, runtime in runtimes.items()}
        reports: dict[int, hosts.HostReport] = {}
        answered: set[int] = set()
        for one in ended:
            lane_id, outcome, identifier = one.claimed.lane_id, one.outcome, one.claimed.document.identifier
            if outcome.back_off is not None:
                until = hosts.back_off(connection, lane_id=lane_id, asked=outcome.back_off or None)
                if self.sent is not None and self.sent.is_on:
                    self.sent.note_refusal(outcome, until=until)
                continue
            if one.is_trial and outcome.requested:
                answered.add(lane_id)
            has_report = has_news[id(one.job.runtime)](identifier)
            if has_report or lane_id in self._unknown_lanes:
                delay = one.job.connector.interval_of(identifier)
                interval = delay or (0.0 if has_report else None)
                reports[lane_id] = hosts.HostReport(lane_id, interval, one.job.runtime.address_of(identifier))
        hosts.lower_back_off_levels(connection, lanes=answered)
        hosts.store_robots_reports(connection, reports=list(reports.values()))
        self._unknown_lanes -= reports.keys()

    def _wake_managers(self, connection: psycopg.Connection[Any]) -> None:
        if self._must_wake and time.monotonic() - self._woken_at >= _SECONDS_BETWEEN_WAKE_UPS:
            self._woken_at, self._must_wake = time.monotonic(), False
            wake.notify(connection, channels.STUFF, self.me.scope)


def stop_job(job_id: int, *, reason: str) -> None:
    """Pause a job with a reason, or end its run if it cannot be paused any more."""
    _make_first_legal(job_id, "pause", "abort", reason=reason)


def resume_job(job_id: int) -> None:
    """Resume a job that a worker paused."""
    _make_first_legal(job_id, "resume", reason="")


def abort_job(job_id: int, *, reason: str) -> None:
    """End a job's run with an error. If several workers end the run, the reason of the first one stays."""
    _make_first_legal(job_id, "abort", reason=reason, facts={"run_end": RunEnd.ERROR})


def _make_first_legal(job_id: int, *names: str, reason: str, facts: Mapping[str, object] | None = None) -> None:
    """Make the first of these transitions that is possible from the state of the job."""
    try:
        for name in names:
            try:
                make_transition(job_id, name, made_by="worker", now=read_clock(), facts=facts, reason=reason)
            except TransitionRefused as refused:
                if "resume" in refused.allowed:
                    # Another worker was faster.
                    return
                continue
            return
    except Unknown:
        return
    finally:
        # This is rare, so a daemon does not keep Django's connection for it.
        django_connection.close()
