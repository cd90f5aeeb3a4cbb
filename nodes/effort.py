"""
Whether a thread of a process works: what its heart asks before each beat.

Slow is not dead. A thread at work is found in one of three ways: it goes round and says so; it computes, which its
CPU clock shows; or it waits for the database, and such a wait ends by itself (see `nodes.connections`). A thread of
which none of these is true hangs. One that computes for ever hangs as well, only that it takes longer to tell.
"""

import datetime as dt
import threading
import time
from contextlib import suppress
from typing import Final, Self

from nodes.trust import Clock, seconds_since_boot

# A thread computes if it gets so much of a core: polling takes less, and a crowded machine still gives as much.
_COMPUTES: Final = 0.01

_of_thread = threading.local()


class Effort:
    """The effort of one thread: the one that calls `goes_round`. Any other may ask."""

    def __init__(self, *, computes_at_most: dt.timedelta, clock: Clock = seconds_since_boot) -> None:
        """`computes_at_most` is how long it may compute without going round."""
        self._computes_at_most = computes_at_most.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._went_round = self._waits = self._rests = False
        self._went_round_at = self._asked_at = clock()
        self._thread: int | None = None
        self._cpu_clock: int | None = None
        self._cpu_used = 0.0

    def goes_round(self) -> None:
        """The work of the calling thread goes on."""
        ident = threading.get_ident()
        if ident != self._thread:
            self._thread, self._cpu_clock = ident, _cpu_clock_of(ident)
            _of_thread.effort = self
        with self._lock:
            self._went_round, self._went_round_at, self._rests = True, self._clock(), False

    def rests(self) -> None:
        """Nothing is to be done: until it goes round again, that nothing happens is as it should be."""
        with self._lock:
            self._went_round = self._rests = True

    def was_made(self) -> bool:
        """Whether the thread went round, computed, waited for the database or rested since this was asked last."""
        with self._lock:
            now, used = self._clock(), self._read_cpu()
            computes = used - self._cpu_used > _COMPUTES * (now - self._asked_at)
            self._cpu_used, self._asked_at = used, now
            if self._went_round or self._waits or self._rests:
                self._went_round, self._went_round_at = False, now
                return True
            return computes and now - self._went_round_at <= self._computes_at_most

    def _read_cpu(self) -> float:
        if self._cpu_clock is not None:
            with suppress(OSError):
                return time.clock_gettime(self._cpu_clock)
        return self._cpu_used

    def _wait(self, *, waits: bool) -> None:
        with self._lock:
            self._waits, self._went_round = waits, True


class Waiting:
    """A wait of the calling thread that is certain to end: while it lasts, the thread is at work."""

    def __enter__(self) -> Self:
        self._effort: Effort | None = getattr(_of_thread, "effort", None)
        if self._effort is not None:
            self._effort._wait(waits=True)  # noqa: SLF001 (the two are one thing)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._effort is not None:
            self._effort._wait(waits=False)  # noqa: SLF001


def _cpu_clock_of(ident: int) -> int | None:
    """The clock of what a thread computes; None where the system has none."""
    return time.pthread_getcpuclockid(ident) if hasattr(time, "pthread_getcpuclockid") else None
