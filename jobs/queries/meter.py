"""
How fast runs move: the memory of this process, fed by whoever reads counts for a page.

The database keeps what was done, not when: a history of rates for a little picture is not worth a
write in the hot path. So each web process remembers what it has seen of the last minutes. After its
start it knows nothing, and says so (`None`) instead of guessing.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

# The picture's width: so many steps of so many seconds.
STEPS: Final = 60
STEP: Final = 5.0
# The present rate is that of the last so many seconds, at least: one flush more or less must not show.
_PRESENT: Final = 8.0
# A last reading older than this says nothing about now.
_STALE: Final = 30.0


class _Reading(NamedTuple):
    at: float
    processed: int


class Meter:
    """Readings of (job, run) → processed documents; safe to use from several threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: dict[int, deque[_Reading]] = defaultdict(deque)
        self._runs: dict[int, int] = {}

    def observe(self, *, job_id: int, run_no: int, processed: int) -> None:
        """Remember a reading. A new run begins anew."""
        now = self._clock()
        with self._lock:
            if self._runs.get(job_id) != run_no:
                self._runs[job_id] = run_no
                self._readings[job_id].clear()
            readings = self._readings[job_id]
            # A watched page reads each second, and several pages may: two readings a second are plenty.
            if readings and now - readings[-1].at < 0.5:
                return
            readings.append(_Reading(now, processed))
            while now - readings[0].at > (STEPS + 1) * STEP:
                readings.popleft()

    def rate(self, job_id: int) -> float | None:
        """Documents a second of late; None as long as there are no two readings to tell it from."""
        with self._lock:
            readings = list(self._readings[job_id])
        now = self._clock()
        if len(readings) < 2 or now - readings[-1].at > _STALE:
            return None
        last = readings[-1]
        first = next((one for one in reversed(readings) if last.at - one.at >= _PRESENT), readings[0])
        return max(0.0, (last.processed - first.processed) / (last.at - first.at))

    def history(self, job_id: int) -> list[float | None]:
        """Documents a second in each step up to now, oldest first; None for steps that nobody looked at."""
        with self._lock:
            readings = list(self._readings[job_id])
        begins = self._clock() - STEPS * STEP
        rates: list[float | None] = [None] * STEPS
        for earlier, later in pairwise(readings):
            pace = max(0.0, (later.processed - earlier.processed) / (later.at - earlier.at))
            first = max(0, int((earlier.at - begins) / STEP))
            for step in range(first, min(STEPS, int((later.at - begins) / STEP) + 1)):
                start = begins + step * STEP
                shared = min(later.at, start + STEP) - max(earlier.at, start)
                if shared > 0:
                    rates[step] = (rates[step] or 0.0) + pace * shared / STEP
        return rates


def add_histories(histories: Iterable[Sequence[float | None]]) -> list[float | None]:
    """Return the sum of histories, step by step."""
    total: list[float | None] = [None] * STEPS
    for history in histories:
        for step, rate in enumerate(history):
            if rate is not None:
                total[step] = (total[step] or 0.0) + rate
    return total


METER: Final = Meter()
