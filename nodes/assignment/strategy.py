"""
The interface of all strategies: from available holders, previous holders and weights, a strategy computes the new
holders.
"""

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar
from uuid import UUID

# Items and holders are sortable, so that ties always break the same way.
Item = TypeVar("Item", int, str)
Holder = TypeVar("Holder", UUID, str)


class Strategy(Protocol):
    """Assigns every item to one available holder."""

    def __call__(
        self,
        *,
        available: Collection[Holder],
        previous: Mapping[Item, Holder | None],
        weights: Mapping[Item, float],
        kept: Mapping[Item, Holder] | None = None,
    ) -> dict[Item, Holder]:
        """
        Return the new holder of each item. `previous` has the present holder of each item, or None.

        An item without an entry in `weights` weighs 1. `kept` are further items, which count in the balance and stay
        where they are. Without available holders nothing is assigned.
        """
        ...
