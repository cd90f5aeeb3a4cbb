"""
How long a node may trust that it is still a member, without asking anybody.

Queue writes are fenced by the database. Web sites and files cannot check a fence, so a node that
cannot beat must have fallen silent towards them before others take over its documents: at two
thirds of its timeout it begins no request, at five sixths it closes the open ones, and at the whole
it may be marked failed. The window is counted from *before* the beat was sent, since the database
counts from a moment after, and on a clock that goes on while the machine sleeps.
"""

import datetime as dt
import threading
import time
from collections.abc import Callable

# Seconds on any clock that never steps back.
Clock = Callable[[], float]


def seconds_since_boot() -> float:
    """Return the seconds since some moment before, counting those in which the machine slept where it can tell."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class TrustWindow:
    """The window of one node; any thread may renew it or ask. Before the first good beat it is shut."""

    def __init__(self, *, timeout: dt.timedelta, clock: Clock = seconds_since_boot) -> None:
        """`timeout` is the node's own: the one that it is judged by."""
        self._timeout = timeout.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._beaten_at = float("-inf")

    def renew(self, *, began_at: float) -> None:
        """Note a good beat that was begun at this moment of the window's clock."""
        with self._lock:
            self._beaten_at = max(self._beaten_at, began_at)

    def revoke(self) -> None:
        """Shut the window: the node has heard that it is a member no longer."""
        with self._lock:
            self._beaten_at = float("-inf")

    @property
    def may_begin(self) -> bool:
        """Whether a new request, or a write to an output that checks no fence, may begin."""
        return self.age() < self._timeout * 2 / 3

    @property
    def must_close(self) -> bool:
        """Whether open requests have to be closed now."""
        return self.age() >= self._timeout * 5 / 6

    def age(self) -> float:
        """Seconds since the last good beat; infinite before the first."""
        with self._lock:
            return self._clock() - self._beaten_at
