"""
The heart of a node: a thread that beats for as long as its process does its work.

It beats on a connection of its own, so that no slow statement of the work holds a beat up. And it
beats only while the work loop makes progress: a process whose loop is stuck must look dead, because
for the cluster it is. The outage of the database fails nobody. The heart goes on trying; trust runs
out meanwhile, so the node falls silent towards the web; and whoever comes back first does not judge
before everybody had time to come back.
"""

import datetime as dt
import logging
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg

from nodes import membership
from nodes.connections import connect
from nodes.lifecycle import NodeStatus
from nodes.membership import Beat
from nodes.trust import Clock, TrustWindow, seconds_since_boot

logger = logging.getLogger(__name__)

# The first pause after a failed beat, in seconds. It doubles up to the interval, so that a database
# that is back is noticed within one beat.
_FIRST_RETRY = 0.1


class Heart:
    """
    Beats for one node. The work loop calls `progress` in every pass, and reads the rest at will.

    `trust` says what the node may do. `failed` is set once the database says that the node is
    failed, or knows it no longer: the process has to exit. `term` and `main_id` are those of the
    node's scope as of the last good beat.
    """

    def __init__(
        self,
        *,
        dsn: str,
        node_id: UUID,
        interval: dt.timedelta,
        timeout: dt.timedelta,
        give_up: dt.timedelta,
        clock: Clock = seconds_since_boot,
    ) -> None:
        """`timeout` is the one that the node registered with; `give_up` ends the hope for a database that is away."""
        self._dsn = dsn
        self._node_id = node_id
        self._interval = interval.total_seconds()
        self._timeout = timeout
        self._give_up = give_up.total_seconds()
        self._clock = clock
        self._thread = threading.Thread(target=self._run, name=f"heart of {node_id}", daemon=True)
        self._stopping = threading.Event()
        # Only the thread touches it.
        self._connection: psycopg.Connection[Any] | None = None
        # Guards what the work loop and the heart both write, and the pair of moments below.
        self._lock = threading.Lock()
        self._facts: dict[str, object] = {}
        self._progress_at = self._born_at = clock()
        self._steady_since: float | None = None
        self._beaten_at: float | None = None
        self.trust = TrustWindow(timeout=timeout, clock=clock)
        self.failed = threading.Event()
        self.term = 0
        self.main_id: UUID | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection. A beat that hangs with the database is left to itself."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._interval)

    def progress(self, **facts: object) -> None:
        """Note that the work goes on; `facts` replace those of the same name on the node's page."""
        with self._lock:
            self._progress_at = self._clock()
            self._facts.update(facts)

    @property
    def steady_for(self) -> dt.timedelta:
        """
        For how long the node has beaten without a gap: what entitles it to judge others.

        A gap is a beat that failed, or more than half the timeout between two that did not.
        """
        with self._lock:
            if self._steady_since is None or self._beaten_at is None or self._is_gap(self._clock()):
                return dt.timedelta()
            return dt.timedelta(seconds=self._beaten_at - self._steady_since)

    @property
    def has_given_up(self) -> bool:
        """Whether the database was away for so long that the process should exit."""
        last_heard_at = self._born_at if self._beaten_at is None else self._beaten_at
        return self._clock() - last_heard_at > self._give_up

    def _run(self) -> None:
        retries = self._retries()
        pause = 0.0
        while not self._stopping.wait(pause):
            if self._is_work_stuck():
                logger.error("the work of node %s makes no progress, so it does not beat", self._node_id)
                self._lose_steadiness()
                pause = self._interval
                continue
            began_at = self._clock()
            try:
                beat = self._beat()
            except psycopg.Error as error:
                logger.warning("node %s cannot beat: %s", self._node_id, error)
                self._lose_steadiness()
                self._disconnect()
                pause = next(retries)
                continue
            if not beat.is_fit:
                self._end(beat)
                break
            self._note(beat, began_at=began_at)
            retries = self._retries()
            pause = max(0.0, began_at + self._interval - self._clock())
        self._disconnect()

    def _beat(self) -> Beat:
        if self._connection is None:
            self._connection = connect(self._dsn, node_id=self._node_id, purpose="beat", timeout=self._timeout)
        with self._lock:
            facts = dict(self._facts)
        return membership.beat(self._connection, node_id=self._node_id, progress=facts)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _note(self, beat: Beat, *, began_at: float) -> None:
        self.trust.renew(began_at=began_at)
        with self._lock:
            if self._steady_since is None or self._is_gap(began_at):
                self._steady_since = began_at
            self._beaten_at = began_at
            self.term, self.main_id = beat.term, beat.main_id

    def _end(self, beat: Beat) -> None:
        """No beat will count any more. A node that stopped itself knows that; any other has to exit."""
        self._lose_steadiness()
        self.trust.revoke()
        if beat.status != NodeStatus.STOPPED:
            logger.error("node %s is %s: its process has to exit", self._node_id, beat.status or "unknown")
            self.failed.set()

    def _is_gap(self, now: float) -> bool:
        return self._beaten_at is not None and now - self._beaten_at > self._timeout.total_seconds() / 2

    def _is_work_stuck(self) -> bool:
        with self._lock:
            return self._clock() - self._progress_at > self._timeout.total_seconds()

    def _lose_steadiness(self) -> None:
        with self._lock:
            self._steady_since = None

    def _retries(self) -> Iterator[float]:
        pause = min(_FIRST_RETRY, self._interval)
        while True:
            yield pause
            pause = min(pause * 2, self._interval)
