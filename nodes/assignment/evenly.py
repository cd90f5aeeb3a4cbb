"""
Balance by number: as many items for each, give or take one, with the fewest moves that reach it.

In two passes, as `weighted` with every item alike: what can stay stays before anything is placed, or an
item that had to go somewhere would take the place of one that was there already, which then moves too.
"""

from collections.abc import Collection, Mapping

from nodes.assignment.strategy import Holder, Item
from nodes.assignment.weighted import weighted


def evenly(
    *,
    available: Collection[Holder],
    previous: Mapping[Item, Holder | None],
    weights: Mapping[Item, float],
    kept: Mapping[Item, Holder] | None = None,
) -> dict[Item, Holder]:
    """Return an assignment in which the numbers of items differ by one at most; `weights` count for nothing."""
    del weights
    return weighted(available=available, previous=previous, weights={}, kept=kept)
