"""Time in a history: one true time that nobody in it can read, the clocks that they read, and what happens when."""

import heapq
import itertools
from collections.abc import Callable
from random import Random


class Scheduler:
    """Lets things happen in the order of their moments; the same seed makes the same history."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self._numbers = itertools.count()
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        # The number keeps those of one moment in the order in which they were asked for.
        heapq.heappush(self._agenda, (self.now + seconds, next(self._numbers), action))

    def run(self, *, until: float) -> None:
        agenda = self._agenda
        while agenda and agenda[0][0] <= until:
            self.now, _, action = heapq.heappop(agenda)
            action()
        self.now = until


class DriftingClock:
    """A machine's clock: hours from any other, and a little too fast or too slow. Called, it tells its seconds."""

    def __init__(self, scheduler: Scheduler, *, ahead: float, rate: float) -> None:
        self._scheduler, self._ahead, self._rate = scheduler, ahead, rate

    def __call__(self) -> float:
        return self._ahead + self._rate * self._scheduler.now

    def true_duration(self, seconds: float) -> float:
        """How long it truly takes until this clock has gone on by so much."""
        return seconds / self._rate
