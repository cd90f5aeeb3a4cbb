"""
Rates of runs and hosts, from the counts that this process remembers each time that a page reads them.

The database stores counts without their times, because a history of rates for a small chart does not justify a write in
the hot path. So each web process remembers the counts that it read in the last minutes. After its start it has no
counts, and returns `None` instead of a guess.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from jobs.partitions import this_partition

# Width of the chart: the number of steps, and the seconds of each step.
STEPS: Final = 60
STEP: Final = 5.0
# Seconds over which each value in the chart of a job, and its present rate, is the mean: two steps.
MEAN_OF: Final = 10
# Shortest span of the present rate (seconds), so that one flush more or less does not show.
_PRESENT: Final = 8.0
# Age (seconds) above which the last count is too old for the present rate.
_STALE: Final = 30.0
# Age (seconds) above which the last count of a host is too old. Counts of hosts are from the last closed turn, which is
# older if the host is slow or has a long gap.
_STALE_OF_A_HOST: Final = 120.0
# Number of keys above which keys without a count during the chart's span are forgotten.
_MANY: Final = 200


# An id, or an id in another partition.
_Key = int | tuple[str, int]


class _Reading(NamedTuple):
    at: float
    amount: int


class Meter:
    """Counts that grow, as they were read at several moments, by id; safe to use from several threads."""

    def __init__(self, *, stale: float = _STALE, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale = stale
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: dict[_Key, deque[_Reading]] = {}
        self._series: dict[_Key, int] = {}
        # The growth of a key before its present series.
        self._offsets: dict[_Key, int] = {}

    def observe(self, key: _Key, count: int, *, series: int = 0, age: float = 0.0) -> None:
        """
        Record a count, which was valid `age` seconds ago.

        A new series (the next run of a job) begins at 0. It is added to the last value of the series before, so that
        the history stays.
        """
        now = self._clock() - age
        with self._lock:
            if key not in self._readings:
                self._forget_old(now=now)
                self._readings[key] = deque()
                self._series[key], self._offsets[key] = series, 0
            readings = self._readings[key]
            if self._series[key] != series:
                self._series[key], self._offsets[key] = series, readings[-1].amount if readings else 0
            count += self._offsets[key]
            # An open page reads once a second, and several pages may be open. Two counts a second are enough.
            if readings and now - readings[-1].at < 0.5:
                return
            readings.append(_Reading(now, count))
            while now - readings[0].at > (STEPS + 1) * STEP:
                readings.popleft()

    def rate(self, key: _Key, *, over: float = 0.0) -> float | None:
        """
        Return the growth a second over the last seconds, at least over `over` seconds; None without two counts.

        A count that grows by one every few seconds needs a long span, because a short one gives a random rate.
        """
        readings = self._read(key)
        now = self._clock()
        if len(readings) < 2 or now - readings[-1].at > self._stale:
            return None
        last = readings[-1]
        first = next((one for one in reversed(readings) if last.at - one.at >= max(_PRESENT, over)), readings[0])
        return max(0.0, (last.amount - first.amount) / (last.at - first.at))

    def history(self, key: _Key) -> list[float | None]:
        """Return the growth a second in each step up to now, oldest first; None for steps without counts."""
        readings = self._read(key)
        begins = self._clock() - STEPS * STEP
        grown, seen = [0.0] * STEPS, [0.0] * STEPS
        for earlier, later in pairwise(readings):
            pace = max(0.0, (later.amount - earlier.amount) / (later.at - earlier.at))
            first = max(0, int((earlier.at - begins) / STEP))
            for step in range(first, min(STEPS, int((later.at - begins) / STEP) + 1)):
                start = begins + step * STEP
                shared = min(later.at, start + STEP) - max(earlier.at, start)
                if shared > 0:
                    grown[step] += pace * shared
                    seen[step] += shared
        # If counts cover only a part of a step, such as the last one, the step has the rate of that part.
        return [amount / length if length else None for amount, length in zip(grown, seen, strict=True)]

    def _read(self, key: _Key) -> list[_Reading]:
        with self._lock:
            return list(self._readings.get(key, ()))

    def _forget_old(self, *, now: float) -> None:
        if len(self._readings) >= _MANY:
            for key, readings in list(self._readings.items()):
                if readings and now - readings[-1].at > STEPS * STEP:
                    del self._readings[key], self._series[key], self._offsets[key]


def smoothed(history: Sequence[float | None]) -> list[float | None]:
    """
    Return the mean of each step and the step before it. The present rate has the same span, so it never exceeds the
    highest step.
    """
    known = [
        [rate for rate in history[max(0, step - 1) : step + 1] if rate is not None] for step in range(len(history))
    ]
    return [sum(rates) / len(rates) if rates else None for rates in known]


def present(history: Sequence[float | None]) -> float | None:
    """Return the present rate of a history that is `smoothed`, None if it is not known."""
    return history[-1] if history else None


def add_histories(histories: Iterable[Sequence[float | None]]) -> list[float | None]:
    """Return the sum of histories, step by step."""
    total: list[float | None] = [None] * STEPS
    for history in histories:
        for step, rate in enumerate(history):
            if rate is not None:
                total[step] = (total[step] or 0.0) + rate
    return total


def metered(id_: int) -> _Key:
    """
    Return the key of a job or a host in the meters of this process, which also measure jobs and hosts of other
    partitions.
    """
    partition = this_partition.foreign_name()
    return (partition, id_) if partition else id_


# Processed documents, by job; each run is a series.
METER: Final = Meter()
# Started requests, and bytes read, by host.
STARTS: Final = Meter(stale=_STALE_OF_A_HOST)
BYTES: Final = Meter(stale=_STALE_OF_A_HOST)
