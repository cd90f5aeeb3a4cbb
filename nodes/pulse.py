"""
The pulse of a node: when it beats next, and what it may conclude from its own beats.

A node beats only while its work loop makes progress: a process whose loop is stuck must look dead,
because for the cluster it is. The outage of the database fails nobody. The node goes on trying; its
trust runs out meanwhile, so it falls silent towards the web; and whoever comes back first does not
judge before everybody had time to come back.

No thread, no database and no clock but the one that is handed in: the heart of a process and the
simulator beat by the same rules.
"""

import datetime as dt
import threading

from nodes.trust import Clock, TrustWindow

# The first pause after a missed beat, in seconds. It doubles up to the interval, so that a database
# that is back is noticed within one beat.
_FIRST_RETRY = 0.1
# A beat may come so many intervals after the one before: no thread wakes to the moment.
_LATE = 1.25


class Pulse:
    """The beats of one node as it knows of them; any thread may ask. Pauses are in seconds, until the next beat."""

    def __init__(self, *, interval: dt.timedelta, timeout: dt.timedelta, give_up: dt.timedelta, clock: Clock) -> None:
        """`timeout` is the one that the node registered with; `give_up` ends the hope for a database that is away."""
        self._interval = interval.total_seconds()
        self._timeout = timeout.total_seconds()
        self._give_up = give_up.total_seconds()
        self._clock = clock
        self._retry = min(_FIRST_RETRY, self._interval)
        # Guards what the work loop and the heart both write, and the pair of moments below.
        self._lock = threading.Lock()
        self._progress_at = self._born_at = clock()
        self._steady_since: float | None = None
        # The pauses between beats since then, as (seconds, moment of the end): each shorter than the one before,
        # since a shorter one that was earlier says nothing that the longer one does not.
        self._pauses: list[tuple[float, float]] = []
        self._beaten_at: float | None = None
        self.trust = TrustWindow(timeout=timeout, clock=clock)

    def adjust(self, *, interval: dt.timedelta, give_up: dt.timedelta) -> None:
        """Go on at another interval, of at most half the timeout, and with another hope."""
        self._interval, self._give_up = interval.total_seconds(), give_up.total_seconds()
        self._retry = min(_FIRST_RETRY, self._interval)

    def progress(self) -> None:
        """Note that the work goes on."""
        with self._lock:
            self._progress_at = self._clock()

    def counted(self, *, began_at: float) -> float:
        """Note that a beat begun at this moment of the clock was counted; returns the pause."""
        self.trust.renew(began_at=began_at)
        self._retry = min(_FIRST_RETRY, self._interval)
        with self._lock:
            if self._steady_since is None or self._beaten_at is None:
                self._steady_since, self._pauses = began_at, []
            else:
                pause = began_at - self._beaten_at
                while self._pauses and self._pauses[-1][0] <= pause:
                    self._pauses.pop()
                self._pauses.append((pause, began_at))
            self._beaten_at = began_at
        return max(0.0, began_at + self._interval - self._clock())

    def missed(self) -> float:
        """Note that a beat failed, or that nobody knows whether it was counted; returns the pause."""
        self._lose_steadiness()
        pause, self._retry = self._retry, min(self._retry * 2, self._interval)
        return pause

    def skipped(self) -> float:
        """Note that a beat was left out, because the work is stuck; returns the pause."""
        self._lose_steadiness()
        return self._interval

    def ended(self) -> None:
        """Note that no beat will count any more."""
        self._lose_steadiness()
        self.trust.revoke()

    def is_steady(self, duration: dt.timedelta) -> bool:
        """
        Return whether the node has beaten for so long without a gap: what entitles it to conclude a silence of so long.

        A gap is a beat that failed, or more than half of `duration` between two that did not. Half of what is to
        be concluded, and not of the node's own timeout: who has a longer one would not notice an outage that
        silences others for all of theirs. But beats that come one by one are no gap, however short the silence is.
        """
        wanted = duration.total_seconds()
        gap = max(wanted / 2, _LATE * self._interval)
        with self._lock:
            if self._steady_since is None or self._beaten_at is None or self._clock() - self._beaten_at > gap:
                return False
            gap_ends = (ended_at for pause, ended_at in reversed(self._pauses) if pause > gap)
            return self._beaten_at - next(gap_ends, self._steady_since) >= wanted

    @property
    def has_given_up(self) -> bool:
        """Whether the database was away for so long that the process should exit."""
        last_heard_at = self._born_at if self._beaten_at is None else self._beaten_at
        return self._clock() - last_heard_at > self._give_up

    @property
    def is_work_stuck(self) -> bool:
        """Whether the work has made no progress for a whole timeout, so that nobody may hear a beat."""
        with self._lock:
            return self._clock() - self._progress_at > self._timeout

    def _lose_steadiness(self) -> None:
        with self._lock:
            self._steady_since = None
