"""
Plans: the price of a look for each goal on one host.

A goal gets the highest price at which it is met, because that price needs the fewest looks. If the goals of a host need
more looks than the host allows, the price rises for all of its documents until the allowed looks are enough. A goal
that already has a higher price keeps its price, so goals that need few looks are the last to lose looks.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.freshness.looks import Looks
from jobs.freshness.rates import RATES, Chances

# Number of steps of a bisection between two prices, and the least price (seconds of freshness).
_STEPS: Final = 14
_LEAST_PRICE: Final = 1e-2
# Number of looks that are planned for each look that a host allows. Documents wait for each other, so a plan for
# exactly the allowed looks would leave a part of them unused.
PLANNED: Final = 1.1
# Part of the difference between its old and its new value by which a price changes with each sample.
_PART: Final = 0.3


@dataclass(frozen=True, slots=True)
class Demand:
    """
    A goal on a host: a `share` (from 0 to 1) of its documents must be fresh within the time of `looks`.

    `sample` has the chances of some of its documents, and each document in the sample represents `weight` documents.
    """

    share: float
    looks: Looks
    sample: Sequence[Chances]
    weight: float = 1.0

    @property
    def documents(self) -> float:
        return len(self.sample) * self.weight

    def looks_at(self, price: float) -> float:
        """Return the looks per second that the documents of the goal get at a price."""
        return self.weight * sum(1 / self.looks.best_interval(chances, price) for chances in self.sample)

    def fresh(self, price: float) -> float:
        """Return the share of documents that are fresh at a price, from 0 to 1; 1 without documents."""
        if not self.sample:
            return 1.0
        table = self.looks
        return sum(table.fresh(one, table.best_interval(one, price)) for one in self.sample) / len(self.sample)

    def price(self) -> float:
        """Return the highest price at which the goal is met; 0 if it needs all looks that increase freshness."""
        return _highest(lambda price: self.fresh(price) >= self.share, most=self.most())

    def most(self) -> float:
        """Return a price at which each document gets only the least number of looks."""
        return self.looks.within + 1 / RATES[0]


@dataclass(frozen=True, slots=True)
class Promise:
    """
    The price of one goal on a host, the looks per second that it `needs` and `gets`, and the share that is fresh at
    this price.
    """

    price: float
    needs: float
    gets: float
    fresh: float


def plan(demands: Sequence[Demand], *, allows: float | None) -> list[Promise]:
    """
    Return the promises of a host in the order of its demands. The host `allows` these requests per second (None: any
    number).
    """
    wanted = [demand.price() for demand in demands]
    prices = wanted
    if allows is not None:
        most = allows * PLANNED

        def looks(price: float) -> float:
            return sum(demand.looks_at(max(price, own)) for demand, own in zip(demands, wanted, strict=True))

        if looks(0.0) > most:
            # The lowest price at which the allowed looks are enough; if there is none, the highest price.
            common = _highest(lambda price: looks(price) > most, most=max(demand.most() for demand in demands))
            prices = [max(common, own) for own in wanted]
    gets = [demand.looks_at(price) for demand, price in zip(demands, prices, strict=True)]
    part = 1.0 if allows is None else min(1.0, allows / max(sum(gets), 1e-12))
    return [
        Promise(price=price, needs=demand.looks_at(own), gets=looked * part, fresh=demand.fresh(price))
        for demand, own, price, looked in zip(demands, wanted, prices, gets, strict=True)
    ]


def smoothed(before: float | None, found: float) -> float:
    """
    Return the price to use after one more sample. Samples differ by chance, so the price moves only a part of the way
    to its new value.
    """
    if not before or not found:
        return found
    return math.exp(math.log(before) + (math.log(found) - math.log(before)) * _PART)


def _highest(holds: Callable[[float], bool], *, most: float) -> float:
    """
    Return the highest price at which a condition holds; 0 if it holds at no price. A condition that holds at a price
    also holds at all lower prices.
    """
    low, high = math.log(_LEAST_PRICE), math.log(max(most, _LEAST_PRICE))
    if not holds(_LEAST_PRICE):
        return 0.0
    if holds(math.exp(high)):
        return math.exp(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(math.exp(middle)) else (low, middle)
    return math.exp(low)
