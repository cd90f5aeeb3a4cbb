"""
The waiting time of the documents of jobs and hosts by cause, over the last minutes.

Each reading of a page charges the waiting documents that it has read anyway, so a charge costs no statement. As with
rates, each web process remembers its own readings, and has none after its start.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from jobs.queries.meter import STEP, STEPS
from jobs.verdicts.causes import Cause
from jobs.verdicts.charges import Reading, charge

# Span of the bar (seconds): that of the charts.
SPAN: Final = STEP * STEPS
# Shortest time between two readings (seconds). Several pages may be read each second.
_SHORTEST: Final = 0.5
# Number of keys above which keys without a reading in the span are forgotten.
_MANY: Final = 1_000


class Charges:
    """Readings of waiting documents by cause, by id; safe to use from several threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: dict[int, deque[Reading]] = {}

    def observe(self, key: int, waiting: Mapping[Cause, int]) -> None:
        """Record the waiting documents by cause as of now."""
        now = self._clock()
        with self._lock:
            if key not in self._readings:
                self._forget_old(now=now)
            readings = self._readings.setdefault(key, deque())
            if readings and now - readings[-1].at < _SHORTEST:
                return
            readings.append(Reading(now, dict(waiting)))
            while now - readings[0].at > SPAN:
                readings.popleft()

    def of(self, key: int) -> dict[Cause, float]:
        """Return the document-seconds by cause of the last minutes, the largest first."""
        with self._lock:
            readings = list(self._readings.get(key, ()))
        return charge(readings)

    def _forget_old(self, *, now: float) -> None:
        if len(self._readings) >= _MANY:
            self._readings = {
                key: readings for key, readings in self._readings.items() if now - readings[-1].at <= SPAN
            }


OF_JOBS: Final = Charges()
OF_HOSTS: Final = Charges()
