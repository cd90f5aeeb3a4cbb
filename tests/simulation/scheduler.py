"""Time in a history: a true time that no process can read, the clocks of the processes, and the agenda."""

import heapq
import itertools
from collections.abc import Callable
from random import Random


class Scheduler:
    """An agenda that runs actions in the order of their moments. The same seed makes the same history."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self._numbers = itertools.count()
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        # The number keeps actions of one moment in the order of their scheduling.
        heapq.heappush(self._agenda, (self.now + seconds, next(self._numbers), action))

    def run(self, *, until: float) -> None:
        agenda = self._agenda
        while agenda and agenda[0][0] <= until:
            self.now, _, action = heapq.heappop(agenda)
            action()
        self.now = until


class DriftingClock:
    """A machine's clock: hours off from any other, and a little too fast or slow. A call returns its seconds."""

    def __init__(self, scheduler: Scheduler, *, ahead: float, rate: float) -> None:
        self._scheduler, self._ahead, self._rate = scheduler, ahead, rate

    def __call__(self) -> float:
        return self._ahead + self._rate * self._scheduler.now

    def true_duration(self, seconds: float) -> float:
        """Return the true seconds in which this clock advances by `seconds`."""
        return seconds / self._rate
