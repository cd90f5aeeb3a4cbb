"""
The items and the managers that may hold them, in one snapshot of the main manager.

An item has one owner at a time and cannot be divided. Its epoch grows with every change of owner, so the guard of a
write refuses an action that was decided on an older snapshot.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from nodes.lifecycle import NodeStatus


class ItemState(StrEnum):
    """
    The state of an item between its owners.

    - free: it has no owner. The main manager gives it away.
    - owned: its owner works on it. Set by the main manager that gives it, or by the previous owner that let it go.
    - releasing: the main manager wants to move it. Its owner begins no further work and lets it go. Set by the main
      manager.
    """

    FREE = "free"
    OWNED = "owned"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True)
class ItemTransition:
    """
    One transition of an item: cause, source states, target, owner and condition. None is the state without a row.

    Each transition that changes its owner increments its epoch.
    """

    cause: str
    sources: frozenset[ItemState | None]
    target: ItemState | None
    by: str
    guard: str


_MAIN: Final = "the main manager of its scope"
_OWNER: Final = "the manager that owns it"

ITEM_TRANSITIONS: Final = (
    ItemTransition(
        cause="open",
        sources=frozenset({None}),
        target=ItemState.FREE,
        by=_MAIN,
        guard="there is work of this group",
    ),
    ItemTransition(
        cause="give",
        sources=frozenset({ItemState.FREE, ItemState.OWNED}),
        target=ItemState.OWNED,
        by=_MAIN,
        guard="it has no owner, or its owner has ended",
    ),
    ItemTransition(
        cause="release",
        sources=frozenset({ItemState.OWNED}),
        target=ItemState.RELEASING,
        by=_MAIN,
        guard="its owner drains, a manager without groups gets it for the balance, or an administrator requested it",
    ),
    ItemTransition(
        cause="hand_over",
        sources=frozenset({ItemState.RELEASING}),
        target=ItemState.OWNED,
        by=_OWNER,
        guard="no document of it is offered, and its next owner accepts groups",
    ),
    ItemTransition(
        cause="let_go",
        sources=frozenset({ItemState.RELEASING}),
        target=ItemState.FREE,
        by=_OWNER,
        guard="no document of it is offered, and no manager accepts it",
    ),
    ItemTransition(
        cause="take_back",
        sources=frozenset({ItemState.RELEASING}),
        target=ItemState.OWNED,
        by=_MAIN,
        guard="its owner has ended, or did not release it within the timeout of nodes",
    ),
    ItemTransition(
        cause="retire",
        sources=frozenset(ItemState),
        target=None,
        by=_MAIN,
        guard="no work of this group is left",
    ),
)


def item_sources_of(cause: str) -> frozenset[ItemState | None]:
    """Return the states from which the transition of this cause may start."""
    return next(transition.sources for transition in ITEM_TRANSITIONS if transition.cause == cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSeen:
    """One item. While it is `releasing`, it moves to `destination`, since `releasing_for`."""

    id: int
    owner: UUID | None
    epoch: int
    state: ItemState
    weight: float = 1.0
    destination: UUID | None = None
    releasing_for: dt.timedelta = dt.timedelta()

    @property
    def holder(self) -> UUID | None:
        """Return the manager that has the item, or will have it after its move."""
        return self.destination if self.state == ItemState.RELEASING else self.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSeen:
    """One manager that has not ended. A silent manager gets no items, and keeps its own items until it is judged."""

    id: UUID
    status: NodeStatus
    is_silent: bool = False

    @property
    def takes(self) -> bool:
        """True if the manager may get items."""
        return self.status == NodeStatus.RUNNING and not self.is_silent

    @property
    def leaves(self) -> bool:
        """True if the manager drains: it gives away all its items."""
        return self.status == NodeStatus.DRAINING


def available_managers_of(managers: Iterable[ManagerSeen]) -> frozenset[UUID]:
    """Return the managers that may get items."""
    return frozenset(manager.id for manager in managers if manager.takes)
