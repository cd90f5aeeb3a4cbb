"""The port of all strategies: from who is available, who held what and what it weighs, to who holds what."""

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar
from uuid import UUID

# Ids can be sorted, so ties are broken in one way.
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
        Return the holder of each item of `previous`, which says who held it, if anybody.

        An item whose weight is not given weighs 1. `kept` are further items, which count in the balance
        and stay where they are. Nothing is assigned where nobody is available.
        """
        ...
