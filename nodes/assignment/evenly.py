"""
Balance by number: the numbers of items differ by at most one, with the fewest moves.

It uses `weighted` with equal weights, which works in two passes: the first keeps all items that can stay, and the
second places the other items. In one pass, an item without a holder could take the place of an item that could have
stayed.
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
    """Return an assignment in which the numbers of items differ by at most one. `weights` are ignored."""
    del weights
    return weighted(available=available, previous=previous, weights={}, kept=kept)
