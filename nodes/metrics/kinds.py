"""Kinds of metrics: totals (`Counter`), values that rise and fall (`Gauge`), and distributions (`Histogram`)."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Final

# The values of a metric's labels, in the order of their names.
Labels = tuple[str, ...]

_NO_LABELS: Final[Labels] = ()


class Process(StrEnum):
    """The kind of process that counts and exports a metric."""

    MANAGER = "manager"
    WORKER = "worker"
    WEB = "web server"
    JOBS = "runjobs"
    AUTHORITY = "runauthority"


NODES: Final = frozenset({Process.MANAGER, Process.WORKER})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """The base of all metrics. `name` is the Prometheus name with its unit. `labels` are the names of the labels."""

    name: str
    meaning: str
    shown_by: frozenset[Process]
    labels: tuple[str, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def _check(self, values: Labels) -> None:
        if len(values) != len(self.labels):
            raise TypeError(f"{self.name} has the labels {self.labels}, and {len(values)} values were given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter(_Metric):
    """
    A total that only grows while the process lives. `from_zero` are label values that are exported before any event.
    """

    from_zero: tuple[Labels, ...] = ()
    _amounts: dict[Labels, float] = field(default_factory=dict, repr=False, compare=False)

    def add(self, amount: float = 1, *values: str) -> None:
        self._check(values)
        with self._lock:
            self._amounts[values] = self._amounts.get(values, 0) + amount

    def read(self) -> Mapping[Labels, float]:
        """Return the amounts by label values."""
        zeros = self.from_zero if self.labels else (_NO_LABELS,)
        with self._lock:
            return {**dict.fromkeys(zeros, 0), **self._amounts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge(_Metric):
    """A value that rises and falls. It is set, or a function supplies it at each scrape."""

    _amounts: dict[Labels, float] = field(default_factory=dict, repr=False, compare=False)
    _followed: dict[Labels, Callable[[], float]] = field(default_factory=dict, repr=False, compare=False)

    def set(self, amount: float, *values: str) -> None:
        self._check(values)
        with self._lock:
            self._amounts[values] = amount

    def change(self, by: float, *values: str) -> None:
        """Add `by`, which may be negative, to the amount. It starts at 0."""
        self._check(values)
        with self._lock:
            self._amounts[values] = self._amounts.get(values, 0) + by

    def set_all(self, amounts: Mapping[Labels, float]) -> None:
        """Replace all earlier amounts. Label values that are missing here are no longer exported."""
        for values in amounts:
            self._check(values)
        with self._lock:
            self._amounts.clear()
            self._amounts.update(amounts)

    def follow(self, asked: Callable[[], float], *values: str) -> None:
        """Call this function at each scrape, in the thread that answers the scrape."""
        self._check(values)
        with self._lock:
            self._followed[values] = asked

    def read(self) -> Mapping[Labels, float]:
        """Return the amounts by label values; none before the first was set."""
        with self._lock:
            amounts, followed = dict(self._amounts), dict(self._followed)
        return amounts | {values: asked() for values, asked in followed.items()}


@dataclass(frozen=True, slots=True)
class Distribution:
    """For each bound, the number of amounts up to it (the last bound is infinite), and the sum of the amounts."""

    at_most: Sequence[tuple[float, int]]
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(_Metric):
    """The distribution of amounts over ranges with rising upper `bounds`."""

    bounds: tuple[float, ...]
    _counts: dict[Labels, list[int]] = field(default_factory=dict, repr=False, compare=False)
    _sums: dict[Labels, float] = field(default_factory=dict, repr=False, compare=False)

    def observe(self, amount: float, *values: str) -> None:
        self.observe_all((amount,), *values)

    def observe_all(self, amounts: Iterable[float], *values: str) -> None:
        self._check(values)
        with self._lock:
            counts = self._counts.setdefault(values, [0] * (len(self.bounds) + 1))
            total = self._sums.get(values, 0.0)
            for amount in amounts:
                counts[bisect_left(self.bounds, amount)] += 1
                total += amount
            self._sums[values] = total

    def read(self) -> Mapping[Labels, Distribution]:
        """Return the distributions by label values."""
        bounds = (*self.bounds, float("inf"))
        with self._lock:
            return {
                values: Distribution(list(zip(bounds, accumulate(counts), strict=True)), self._sums[values])
                for values, counts in self._counts.items()
            }


Metric = Counter | Gauge | Histogram
