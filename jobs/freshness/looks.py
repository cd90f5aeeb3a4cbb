"""
The freshness that looks buy, and the best interval at a price.

Changes are a Poisson process with a rate r. A document that is looked at every i seconds is fresh within T for the
first T seconds after a look, and after x seconds with probability exp(-r (x - T)). The average over the interval is
`fresh_share`. With T = 0 it is the freshness of Cho and Garcia-Molina ("Effective page refresh policies for web
crawlers", 2003).

As a function of looks per second the share is concave, also for a document that has several possible rates, each with
its chance. So a budget of looks buys the most freshness if the last look at each document buys the same: its *price*,
in seconds of freshness (Azar and others, "Tractable near-optimal policies for crawling", 2018). At a given price,
documents that change too often are looked at only at the longest interval.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import mul
from typing import Final

from jobs.freshness.rates import RATES, Chances

# Shortest interval (seconds).
SHORTEST: Final = 1.0
# Number of intervals in a table.
_INTERVALS: Final = 48


def fresh_share(*, rate: float, interval: float, within: float) -> float:
    """Return the share of time in which a document is fresh, from 0 to 1, if it is looked at every `interval` seconds."""
    if interval <= within or rate <= 0:
        return 1.0
    return (within - math.expm1(-rate * (interval - within)) / rate) / interval


def price_at(*, rate: float, interval: float, within: float) -> float:
    """Return the seconds of freshness that the last look buys at an interval: the derivative by looks per second."""
    if interval <= within:
        return 0.0
    missed = -rate * (interval - within)
    return within - math.expm1(missed) / rate - interval * math.exp(missed)


@dataclass(frozen=True, slots=True)
class Looks:
    """
    A table for one goal: intervals from `within` to `longest`, with the price and the fresh share at each interval, for
    each change rate.
    """

    within: float
    longest: float
    intervals: Sequence[float] = field(init=False, repr=False)
    prices: Sequence[Sequence[float]] = field(init=False, repr=False)
    shares: Sequence[Sequence[float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shortest = max(self.within, SHORTEST)
        growth = math.log(max(self.longest / shortest, 1.0)) / (_INTERVALS - 1)
        intervals = [shortest * math.exp(growth * step) for step in range(_INTERVALS)]
        object.__setattr__(self, "intervals", intervals)
        for name, of in (("prices", price_at), ("shares", fresh_share)):
            table = [tuple(of(rate=rate, interval=one, within=self.within) for rate in RATES) for one in intervals]
            object.__setattr__(self, name, table)

    def best_interval(self, chances: Chances, price: float) -> float:
        """Return the interval at which one more look buys `price` seconds of freshness, at most the longest one."""
        if price <= 0:
            return self.intervals[0]
        # The longer the interval is, the more freshness one more look buys. So a bisection finds the interval.
        place = bisect_left(self.prices, price, key=lambda row: _mean(row, chances))
        if place == 0:
            return self.intervals[0]
        if place == _INTERVALS:
            return self.intervals[-1]
        before = _mean(self.prices[place - 1], chances)
        after = _mean(self.prices[place], chances)
        part: float = (price - before) / (after - before)
        growth: float = (self.intervals[place] / self.intervals[place - 1]) ** part
        return self.intervals[place - 1] * growth

    def fresh(self, chances: Chances, interval: float) -> float:
        """Return the share of time in which a document is fresh, from 0 to 1."""
        place = bisect_left(self.intervals, interval)
        if place == 0:
            return 1.0 if interval <= self.within else _mean(self.shares[0], chances)
        if place == _INTERVALS:
            return _mean(self.shares[-1], chances)
        first, last = self.intervals[place - 1], self.intervals[place]
        part = (interval - first) / (last - first)
        before, after = (_mean(self.shares[one], chances) for one in (place - 1, place))
        return before + (after - before) * part


def _mean(values: Sequence[float], chances: Chances) -> float:
    mean: float = sum(map(mul, values, chances))
    return mean


@lru_cache(maxsize=1000)
def looks(within: float, longest: float) -> Looks:
    """Return the cached table of intervals, prices and fresh shares for a goal."""
    return Looks(within, max(longest, within, SHORTEST))


def fresh_now(chances: Chances, *, age: float, within: float) -> float:
    """Return the chance that a document is fresh, if its last look was `age` seconds ago."""
    if age <= within:
        return 1.0
    return sum(chance * math.exp(-rate * (age - within)) for rate, chance in zip(RATES, chances, strict=True))
