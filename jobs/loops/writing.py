"""
What a worker writes: the flush, and the short transactions around it, in the database's thread.

All of it may be run again from its start on a new connection: the claim fence lets an outcome count
once, and the rest says what is, not what changes.
"""

import datetime as dt
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from django.db import connection as django_connection

from jobs import channels
from jobs.connectors.repository.base import Ending, Outcome
from jobs.connectors.repository.web.robots import RobotsAnswer, RobotsTable, product_token
from jobs.connectors.repository.web.urls import BadUrl, origin_of
from jobs.loops.database import DatabaseClock
from jobs.loops.known import KnownReferences
from jobs.loops.outputs import JobOutputs
from jobs.loops.worker_jobs import JobAtWork
from jobs.queue import close, discover, drop, flush, release, wake
from jobs.queue.outcomes import JobFacts, Result
from jobs.queue.robots import write_robots
from jobs.queue.take import Claimed
from jobs.transitions import JobUnknown, TransitionRefused, make_transition
from nodes.identity import NodeIdentity

logger = logging.getLogger(__name__)

# Wake-ups are merged to so many a second for each process.
_SECONDS_BETWEEN_WAKE_UPS: Final = 0.1
_ROBOTS_LIFETIME: Final = dt.timedelta(hours=24)
_LANES_HELD: Final = 100_000


@dataclass(frozen=True, slots=True)
class Ended:
    """A claimed document and what became of it."""

    claimed: Claimed
    job: JobAtWork
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ToWrite:
    """
    What has come together since the last write. `runs_out` tells that the worker has little left to do, so
    that a manager should know at once what is free again.
    """

    ended: Sequence[Ended] = ()
    given_back: Sequence[Claimed] = ()
    closed: Sequence[close.ClosedTurn] = ()
    done_batches: Sequence[int] = ()
    runs_out: bool = True

    @property
    def is_empty(self) -> bool:
        return not (self.ended or self.given_back or self.closed or self.done_batches)


@dataclass(frozen=True, slots=True)
class Written:
    """How many outcomes and returned documents counted, and how many had lost their claim."""

    flushed: int = 0
    refused: int = 0


@dataclass(slots=True)
class Writer:
    """The writing side of one worker; only the database's thread calls it, but for `expect_unknown`."""

    me: NodeIdentity
    robots: RobotsTable
    clock: DatabaseClock
    keeps_history: bool = True
    _known: KnownReferences = field(default_factory=KnownReferences)
    _outputs: JobOutputs = field(default_factory=JobOutputs)
    _lanes: dict[tuple[int, str], int] = field(default_factory=dict)
    _unknown_lanes: set[int] = field(default_factory=set)
    _robots_to_store: dict[str, RobotsAnswer] = field(default_factory=dict)
    _woken_at: float = 0.0
    _owes_wake_up: bool = False

    def expect_unknown(self, lane_id: int) -> None:
        """Of this lane's host nobody knows the robots.txt yet: the first outcome tells."""
        self._unknown_lanes.add(lane_id)

    def write(self, connection: psycopg.Connection[Any], given: ToWrite) -> Written:
        """
        Flush outcomes, give documents back, close turns, and wake who waits for any of it.

        Raises:
            OutputError: an output refused; nothing of the flush was written.
            FenceRefused: the worker was marked failed.
        """
        now = self.clock.now(connection)
        flushed = self._flush(connection, given.ended, now=now) if given.ended else flush.Flushed()
        returned = release.give_back(connection, worker=self.me.id, claims=given.given_back, now=now)
        woken = close.close_turns(
            connection,
            turns=given.closed,
            batches=given.done_batches,
            filled=flushed.lanes,
            ripening=flushed.waiting_lanes,
            now=now,
        )
        # Managers look by themselves some times a second: only who runs out of work calls them.
        self._owes_wake_up = self._owes_wake_up or (bool(woken or returned) and given.runs_out)
        self._wake_managers(connection)
        return Written(flushed=flushed.written, refused=flushed.refused + len(given.given_back) - returned)

    def remove(
        self, connection: psycopg.Connection[Any], *, claims: Sequence[Claimed], jobs: dict[int, JobFacts]
    ) -> None:
        """
        Take documents out of the outputs and out of the queue.

        Raises:
            OutputError: an output refused; nothing was removed.
            FenceRefused: the worker was marked failed.
        """
        now = self.clock.now(connection)
        drop.drop(
            connection,
            worker=self.me.id,
            claims=claims,
            jobs=jobs,
            outputs=self._outputs,
            keeps_history=self.keeps_history,
            now=now,
        )
        self._owes_wake_up = True
        self._wake_managers(connection)

    def _flush(self, connection: psycopg.Connection[Any], ended: Sequence[Ended], *, now: dt.datetime) -> flush.Flushed:
        lanes = self._open_lanes(connection, ended)
        flushed = flush.flush(
            connection,
            worker=self.me.id,
            results=[Result(one.claimed, one.job.facts, one.outcome, lanes) for one in ended],
            outputs=self._outputs,
            is_known=self._known.holds,
            keeps_history=self.keeps_history,
            now=now,
        )
        self._known.add(flushed.named)
        self._tell_of_hosts(connection, ended)
        return flushed

    def _open_lanes(self, connection: psycopg.Connection[Any], ended: Sequence[Ended]) -> dict[tuple[int, str], int]:
        """The lanes of everything that the documents name; absent bins and lanes are made."""
        wanted = {
            (one.claimed.seed_id, named.bin)
            for one in ended
            for named in one.outcome.references or ()
            if (one.claimed.seed_id, named.bin) not in self._lanes
        }
        if wanted:
            if len(self._lanes) > _LANES_HELD:
                self._lanes.clear()
                wanted |= {(one.claimed.seed_id, named.bin) for one in ended for named in one.outcome.references or ()}
            self._lanes |= discover.open_lanes(connection, namespace="web", wanted=wanted)
        return self._lanes

    def _tell_of_hosts(self, connection: psycopg.Connection[Any], ended: Sequence[Ended]) -> None:
        """Store what hosts said of themselves: robots.txt, crawl-delay, Retry-After."""
        self._robots_to_store |= self.robots.take_fetched()
        fetched = dict(self._robots_to_store)
        if fetched:
            answers = {origin: {"kind": answer.kind.value, "text": answer.text} for origin, answer in fetched.items()}
            write_robots(connection, answers=answers, lifetime=_ROBOTS_LIFETIME)
        for one in ended:
            lane_id, outcome = one.claimed.lane_id, one.outcome
            if outcome.ending == Ending.RETRY and outcome.back_off > 0:
                close.back_off(connection, lane_id=lane_id, seconds=outcome.back_off)
                continue
            is_new = lane_id in self._unknown_lanes
            origin = origin_of_claim(one.claimed) if fetched or is_new else ""
            if is_new or origin in fetched:
                token = product_token(one.job.specification.user_agent)
                delay = self.robots.crawl_delay(origin, token=token)
                interval = delay or (0.0 if origin in fetched else None)
                close.know(connection, lane_id=lane_id, interval=interval)
                self._unknown_lanes.discard(lane_id)
        self._robots_to_store.clear()

    def _wake_managers(self, connection: psycopg.Connection[Any]) -> None:
        if self._owes_wake_up and time.monotonic() - self._woken_at >= _SECONDS_BETWEEN_WAKE_UPS:
            self._woken_at, self._owes_wake_up = time.monotonic(), False
            wake.notify(connection, channels.STUFF, self.me.scope)


def stop_job(job_id: int, *, reason: str) -> None:
    """Pause a job with a reason, or end its run where it cannot be paused any more."""
    try:
        for name in ("pause", "abort"):
            try:
                make_transition(job_id, name, made_by="worker", now=dt.datetime.now(tz=dt.UTC), reason=reason)
            except TransitionRefused as refused:
                if "resume" in refused.allowed:
                    # Another worker was faster.
                    return
                continue
            return
    except JobUnknown:
        return
    finally:
        # A daemon keeps no connection for what is so rare.
        django_connection.close()


def origin_of_claim(claimed: Claimed) -> str:
    """The origin of a claimed address; '' for an identifier that is none."""
    try:
        return origin_of(claimed.document.identifier)
    except BadUrl:
        return ""
