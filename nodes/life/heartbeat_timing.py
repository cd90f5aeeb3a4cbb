"""
The timing of a node: the time of its next heartbeat, and the conclusions that its heartbeats allow.

A node beats only while its work loop makes progress: a process whose loop hangs must look dead, because it no longer
works for the cluster. An outage of the database marks no node as failed. Each node keeps trying. Meanwhile its trust
window closes, so it sends no request to the web. The first node that returns judges other nodes only after all had time
to return.

The module uses no thread and no database, and only the clock that it is given. So the heartbeat of a process and the
simulator follow the same rules.
"""

import datetime as dt
import threading

from nodes.life.trust_window import Clock, TrustWindow

# First pause after a missed beat (seconds). It doubles up to the interval, so that the node notices within one beat
# that the database is back.
_FIRST_RETRY = 0.1
# Largest pause between two beats that is not late (in intervals): no thread wakes exactly on time.
_LATE = 1.25


class HeartbeatTiming:
    """
    The heartbeats of one node, as the node knows them. Any thread may call it. A pause is the time (seconds) until the
    next heartbeat.
    """

    def __init__(self, *, interval: dt.timedelta, timeout: dt.timedelta, give_up: dt.timedelta, clock: Clock) -> None:
        """
        `timeout` is the timeout with which the node registered. `give_up` is the longest outage of the database that
        the process waits out.
        """
        self._interval = interval.total_seconds()
        self._timeout = timeout.total_seconds()
        self._give_up = give_up.total_seconds()
        self._clock = clock
        self._retry = min(_FIRST_RETRY, self._interval)
        # Guards the fields below, which the work loop and the heartbeat both use.
        self._lock = threading.Lock()
        self._progress_at = self._born_at = clock()
        self._steady_since: float | None = None
        # The pauses between beats since `_steady_since`, as (seconds, moment of the end). Each is shorter than the one
        # before: once a longer pause follows, the shorter and earlier one never decides.
        self._pauses: list[tuple[float, float]] = []
        self._last_beat_at: float | None = None
        self.trust = TrustWindow(timeout=timeout, clock=clock)

    def adjust(self, *, interval: dt.timedelta, give_up: dt.timedelta) -> None:
        """Use another interval, of at most half the timeout, and another `give_up`."""
        self._interval, self._give_up = interval.total_seconds(), give_up.total_seconds()
        self._retry = min(_FIRST_RETRY, self._interval)

    def progress(self) -> None:
        """Note that the work made progress."""
        with self._lock:
            self._progress_at = self._clock()

    def counted(self, *, began_at: float) -> float:
        """Note that the database counted the beat that began at `began_at`. Return the pause."""
        self.trust.renew(began_at=began_at)
        self._retry = min(_FIRST_RETRY, self._interval)
        with self._lock:
            if self._steady_since is None or self._last_beat_at is None:
                self._steady_since, self._pauses = began_at, []
            else:
                pause = began_at - self._last_beat_at
                while self._pauses and self._pauses[-1][0] <= pause:
                    self._pauses.pop()
                self._pauses.append((pause, began_at))
            self._last_beat_at = began_at
        return max(0.0, began_at + self._interval - self._clock())

    def missed(self) -> float:
        """Note that a beat failed, or that it is unknown whether it was counted. Return the pause."""
        self._lose_steadiness()
        pause, self._retry = self._retry, min(self._retry * 2, self._interval)
        return pause

    def skipped(self) -> float:
        """Note that a beat was left out because the work hangs. Return the pause."""
        self._lose_steadiness()
        return self._interval

    def ended(self) -> None:
        """Note that no beat will count any more."""
        self._lose_steadiness()
        self.trust.revoke()

    def is_steady(self, duration: dt.timedelta) -> bool:
        """
        True if the node has beaten for `duration` without a gap, and so may judge a silence of that length.

        A gap is a failed beat, or a pause of more than half of `duration` between two counted beats. The measure is the
        silence to be judged, not the node's own timeout: a node with a longer timeout would not notice an outage that
        lasts for the whole timeout of other nodes. The pause between two beats on schedule is never a gap, however
        short `duration` is.
        """
        wanted = duration.total_seconds()
        gap = max(wanted / 2, _LATE * self._interval)
        with self._lock:
            if self._steady_since is None or self._last_beat_at is None or self._clock() - self._last_beat_at > gap:
                return False
            gap_ends = (ended_at for pause, ended_at in reversed(self._pauses) if pause > gap)
            return self._last_beat_at - next(gap_ends, self._steady_since) >= wanted

    @property
    def has_given_up(self) -> bool:
        """True if the database was down for so long that the process should exit."""
        last_heard_at = self._born_at if self._last_beat_at is None else self._last_beat_at
        return self._clock() - last_heard_at > self._give_up

    @property
    def is_work_stuck(self) -> bool:
        """True if the work has made no progress for a whole timeout, so that the node must not beat."""
        with self._lock:
            return self._clock() - self._progress_at > self._timeout

    def _lose_steadiness(self) -> None:
        with self._lock:
            self._steady_since = None
