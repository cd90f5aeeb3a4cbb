"""
The activity of a thread: the heartbeat asks before each beat whether the threads of its process make progress.

Slow is not dead. A thread makes progress if one of three things is true. It completes passes of its loop and reports
them. It computes, as its CPU clock shows. Or it waits for the database, and such a wait always ends (see
`nodes.database.connections`). A thread for which none of these is true hangs. A thread that computes endlessly hangs as
well, but is recognized later.
"""

import datetime as dt
import threading
import time
from contextlib import suppress
from typing import Final, Self

from nodes.life.trust_window import Clock, seconds_since_boot

# Share of a core above which a thread computes. Polling uses less, and a crowded machine still grants as much.
_COMPUTES: Final = 0.01

_of_thread = threading.local()


class ThreadActivity:
    """The activity of the one thread that calls `note_pass`. Other threads may read it."""

    def __init__(self, *, computes_at_most: dt.timedelta, clock: Clock = seconds_since_boot) -> None:
        """`computes_at_most` is the time that the thread may compute without completing a pass."""
        self._computes_at_most = computes_at_most.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._has_passed = self._is_waiting = self._is_idle = False
        self._passed_at = self._asked_at = clock()
        self._thread: int | None = None
        self._cpu_clock: int | None = None
        self._cpu_used = 0.0

    def note_pass(self) -> None:
        """Note that the loop of the calling thread completed a pass."""
        ident = threading.get_ident()
        if ident != self._thread:
            self._thread, self._cpu_clock = ident, _cpu_clock_of(ident)
            _of_thread.activity = self
        with self._lock:
            self._has_passed, self._passed_at, self._is_idle = True, self._clock(), False

    def note_idle(self) -> None:
        """Note that the thread has nothing to do: until the next pass, a lack of progress is not a sign of trouble."""
        with self._lock:
            self._has_passed = self._is_idle = True

    def made_progress(self) -> bool:
        """True if the thread completed a pass, computed, waited for the database or rested since the last call."""
        with self._lock:
            now, used = self._clock(), self._read_cpu()
            computes = used - self._cpu_used > _COMPUTES * (now - self._asked_at)
            self._cpu_used, self._asked_at = used, now
            if self._has_passed or self._is_waiting or self._is_idle:
                self._has_passed, self._passed_at = False, now
                return True
            return computes and now - self._passed_at <= self._computes_at_most

    def _read_cpu(self) -> float:
        if self._cpu_clock is not None:
            with suppress(OSError):
                return time.clock_gettime(self._cpu_clock)
        return self._cpu_used

    def _wait(self, *, waits: bool) -> None:
        with self._lock:
            self._is_waiting, self._has_passed = waits, True


class Waiting:
    """A wait of the calling thread that is certain to end. The thread counts as working while it lasts."""

    def __enter__(self) -> Self:
        self._activity: ThreadActivity | None = getattr(_of_thread, "activity", None)
        if self._activity is not None:
            self._activity._wait(waits=True)  # noqa: SLF001 (both classes belong together)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._activity is not None:
            self._activity._wait(waits=False)  # noqa: SLF001


def _cpu_clock_of(ident: int) -> int | None:
    """Return the clock of the CPU time of a thread; None if the system has none."""
    return time.pthread_getcpuclockid(ident) if hasattr(time, "pthread_getcpuclockid") else None
