"""
The heartbeat of a node: a thread that beats for as long as the process makes progress, and listens between two beats.

It uses a separate connection, so that a slow statement of the work delays no beat. `nodes.life.heartbeat_timing` decides when
the thread beats, and what follows from a beat that was counted or missed. A beat is the only statement of an idle node.
It also reads the conditions under which the node has work.
"""

import datetime as dt
import logging
import os
import threading
from collections.abc import Callable, Collection
from uuid import UUID

import psycopg

from nodes.database.connections import Dsn
from nodes.life.heartbeat_timing import HeartbeatTiming
from nodes.life.thread_activity import ThreadActivity
from nodes.life.trust_window import Clock, TrustWindow, seconds_since_boot
from nodes.lifecycle import NodeStatus
from nodes.membership.beat_connection import LISTEN, BeatConnection
from nodes.membership.members import ASKS_NOTHING, Asks, Beat, MainSeen
from nodes.metrics import node_metrics

# Time that a thread may compute without completing a pass before it counts as hanging (in timeouts).
_TIMEOUTS_OF_COMPUTING = 10
# Time from the first heartbeat that is skipped because a thread hangs to the end of the process (in timeouts). By then
# the node has been marked failed, and its open requests and connections are useless.
_TIMEOUTS_OF_HANGING = 2


logger = logging.getLogger(__name__)


def exit_immediately() -> None:
    """End this process whatever its other threads do. Its claims are released as for any lost node."""
    os._exit(1)


class HeartbeatThread:
    """
    Beats for one node. The work loop calls `progress` in every pass, and may read the rest at any time.

    `failed` is set once the database refuses the node's beats: the node is failed, or the database went back in time.
    The process must then exit, and `why` is the reason as a sentence. `drains` is set once the database reports that
    the node drains. `term`, `main_id` and `main` are those of the node's scope at the last counted beat, and
    `settings_version` is the newest version of the stored settings.
    """

    def __init__(
        self,
        *,
        dsn: Dsn,
        node_id: UUID,
        interval: dt.timedelta,
        timeout: dt.timedelta,
        give_up: dt.timedelta,
        abandon: Callable[[], None] = lambda: None,
        channels: Collection[str] = (),
        on_notification: Callable[[str, str], None] = lambda _channel, _payload: None,
        asks: Asks = ASKS_NOTHING,
        answered: Callable[[frozenset[str]], object] = lambda _names: None,
        clock: Clock = seconds_since_boot,
    ) -> None:
        """
        `timeout` is the one that the node registered with. `give_up` is the longest outage of the database that the
        process waits out. `abandon` is called when the work hangs for too long: it ends the process, which only this
        thread can still do.

        This thread calls `on_notification` for each notification of `channels`, and with two empty texts after a
        reconnect: notifications may be lost. It calls `answered` after each beat, with the names of the conditions of
        `asks` that are true.
        """
        self._node_id = node_id
        self._interval = interval.total_seconds()
        self._timeout = timeout
        self._abandon, self._answered = abandon, answered
        self._clock = clock
        self._timing = HeartbeatTiming(interval=interval, timeout=timeout, give_up=give_up, clock=clock)
        self._thread = threading.Thread(target=self._run, name=f"heart of {node_id}", daemon=True)
        self._stopping = threading.Event()
        # Only the heartbeat thread uses these two.
        self._connection = BeatConnection(
            dsn,
            node_id=node_id,
            timeout=timeout,
            channels=channels,
            on_notification=on_notification,
            asks=asks,
            stopping=self._stopping,
        )
        self._hangs_since: float | None = None
        # Guards the facts, which the work loop writes and the heartbeat reads.
        self._lock = threading.Lock()
        self._facts: dict[str, object] = {}
        self._computes_at_most = _TIMEOUTS_OF_COMPUTING * timeout
        self._loop = ThreadActivity(computes_at_most=self._computes_at_most, clock=clock)
        self._activities = [self._loop]
        self.failed = threading.Event()
        self.why = ""
        self.drains = threading.Event()
        self.term = 0
        self.main_id: UUID | None = None
        self.main: MainSeen | None = None
        self.settings_version = 0

    def start(self) -> None:
        node_metrics.BEAT_AGE.follow(self.trust.age)
        node_metrics.TRUSTED.follow(lambda: self.trust.may_begin)
        node_metrics.TERM.follow(lambda: self.term)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection. Do not wait for a beat that hangs at the database."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=max(self._interval, 2 * LISTEN))

    def progress(self, **facts: object) -> None:
        """Note that the work loop completed a pass. `facts` replace those of the same name on the node's page."""
        self._loop.note_pass()
        with self._lock:
            self._facts.update(facts)

    def watch_another_thread(self) -> ThreadActivity:
        """Return the activity of another thread, whose hanging stops the beats as well. Call this before the start."""
        activity = ThreadActivity(computes_at_most=self._computes_at_most, clock=self._clock)
        activity.note_idle()
        self._activities.append(activity)
        return activity

    def adjust(self, *, interval: dt.timedelta, give_up: dt.timedelta) -> None:
        """Use another interval from the next beat on. The timeout stays: other nodes judge this node by it."""
        self._timing.adjust(interval=interval, give_up=give_up)

    @property
    def trust(self) -> TrustWindow:
        """Return the window in which the node may act."""
        return self._timing.trust

    def is_steady(self, duration: dt.timedelta) -> bool:
        """True if the node has beaten for this time without a gap, and so may judge other nodes."""
        return self._timing.is_steady(duration)

    @property
    def has_given_up(self) -> bool:
        """True if the database was down for so long that the process should exit."""
        return self._timing.has_given_up

    def _run(self) -> None:
        pause = 0.0
        while self._connection.listen(pause):
            if all(activity.made_progress() for activity in self._activities):
                self._timing.progress()
            if self._timing.is_work_stuck:
                if self._hangs_for_good():
                    logger.critical("the work of node %s hangs: its process ends", self._node_id)
                    self._abandon()
                    break
                logger.error("the work of node %s makes no progress, so it sends no heartbeat", self._node_id)
                node_metrics.BEATS.add(1, "skipped")
                pause = self._timing.skipped()
                continue
            self._hangs_since = None
            began_at = self._clock()
            try:
                beat = self._beat()
            except psycopg.Error as error:
                logger.warning("node %s cannot send a heartbeat: %s", self._node_id, error)
                self._connection.close()
                node_metrics.BEATS.add(1, "missed")
                pause = self._timing.missed()
                continue
            if not beat.is_fit:
                self._end(beat)
                break
            node_metrics.BEATS.add(1, "counted")
            with self._lock:
                self.term, self.main_id, self.main = beat.term, beat.main_id, beat.main
                self.settings_version = beat.settings_version
            if beat.status == NodeStatus.DRAINING:
                self.drains.set()
            pause = self._timing.counted(began_at=began_at)
            self._answered(beat.answers)
        self._connection.close()

    def _hangs_for_good(self) -> bool:
        now = self._clock()
        if self._hangs_since is None:
            self._hangs_since = now
        return now - self._hangs_since > (_TIMEOUTS_OF_HANGING * self._timeout).total_seconds()

    def _beat(self) -> Beat:
        with self._lock:
            facts = dict(self._facts)
        return self._connection.beat(facts)

    def _end(self, beat: Beat) -> None:
        """Note that no beat will count any more, and demand the exit of the process unless the node stopped itself."""
        self._timing.ended()
        if beat.status != NodeStatus.STOPPED:
            logger.error("node %s has to exit: %s", self._node_id, beat.refusal)
            self.why = beat.refusal
            self.failed.set()
