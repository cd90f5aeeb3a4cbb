"""
The time for which a node may trust that it is still a member, without asking the database.

Queue writes are fenced by the database. Web sites and files cannot check a fence. So a node that cannot beat must stop
its requests and writes there before other nodes take over its documents. At two thirds of its timeout it begins no
request, at five sixths it closes the open ones, and at the whole timeout it may be marked failed. The window is counted
from *before* the beat was sent, because the database counts from a later moment. The clock must continue while the
machine sleeps.
"""

import datetime as dt
import threading
import time
from collections.abc import Callable

# Seconds on any clock that never steps back.
Clock = Callable[[], float]


def seconds_since_boot() -> float:
    """
    Return the seconds since a fixed moment. They include the time in which the machine slept, if the system counts it.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class TrustWindow:
    """The trust window of one node. Any thread may renew or read it. It is closed before the first counted beat."""

    def __init__(self, *, timeout: dt.timedelta, clock: Clock = seconds_since_boot) -> None:
        """`timeout` is the node's own, by which other nodes judge it."""
        self._timeout = timeout.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._last_beat_at = float("-inf")

    def renew(self, *, began_at: float) -> None:
        """Note a counted beat that began at this moment of the window's clock."""
        with self._lock:
            self._last_beat_at = max(self._last_beat_at, began_at)

    def revoke(self) -> None:
        """Close the window: the node has learned that it is no longer a member."""
        with self._lock:
            self._last_beat_at = float("-inf")

    @property
    def may_begin(self) -> bool:
        """True if the node may begin a request, or a write to an output that checks no fence."""
        return self.age() < self._timeout * 2 / 3

    @property
    def must_close(self) -> bool:
        """True if the node must close its open requests now."""
        return self.age() >= self._timeout * 5 / 6

    def age(self) -> float:
        """Return the seconds since the last counted beat; infinite before the first."""
        with self._lock:
            return self._clock() - self._last_beat_at
