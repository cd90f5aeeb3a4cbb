"""
What there is to hold, and who may hold it, as the main saw both at one moment.

An item is whatever is held by one manager at a time and cannot be divided. Its epoch grows with every
change of owner, so an action that was decided on an older sight is refused by its guard.
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
    Where an item is between its owners.

    free: nobody holds it; the main gives it.
    owned: its owner works on it. Set by the main that gives it, or by the owner before who let it go to him.
    releasing: the main wants it elsewhere; its owner begins nothing more and lets it go. Set by the main.
    """

    FREE = "free"
    OWNED = "owned"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True)
class ItemTransition:
    """
    One move that an item may make: why, from where, to where, by whom, and if what holds; None is that it is not there.

    With each that changes its owner its epoch grows.
    """

    cause: str
    sources: frozenset[ItemState | None]
    target: ItemState | None
    by: str
    guard: str


_MAIN: Final = "the main of its scope"
_OWNER: Final = "the manager that owns it"

ITEM_TRANSITIONS: Final = (
    ItemTransition(
        cause="open",
        sources=frozenset({None}),
        target=ItemState.FREE,
        by=_MAIN,
        guard="there is work that belongs to it",
    ),
    ItemTransition(
        cause="give",
        sources=frozenset({ItemState.FREE, ItemState.OWNED}),
        target=ItemState.OWNED,
        by=_MAIN,
        guard="nobody owns it, or its owner has ended",
    ),
    ItemTransition(
        cause="release",
        sources=frozenset({ItemState.OWNED}),
        target=ItemState.RELEASING,
        by=_MAIN,
        guard="its owner drains, a manager that holds nothing takes it for the balance, or an administrator wishes it",
    ),
    ItemTransition(
        cause="hand_over",
        sources=frozenset({ItemState.RELEASING}),
        target=ItemState.OWNED,
        by=_OWNER,
        guard="nothing of it is offered any more, and the manager that it is bound for takes something",
    ),
    ItemTransition(
        cause="let_go",
        sources=frozenset({ItemState.RELEASING}),
        target=ItemState.FREE,
        by=_OWNER,
        guard="nothing of it is offered any more, and nobody is there to take it",
    ),
    ItemTransition(
        cause="take_back",
        sources=frozenset({ItemState.RELEASING}),
        target=ItemState.OWNED,
        by=_MAIN,
        guard="its owner has ended, or was asked to let it go longer ago than the timeout of nodes",
    ),
    ItemTransition(
        cause="retire",
        sources=frozenset(ItemState),
        target=None,
        by=_MAIN,
        guard="there is no work any more that belongs to it",
    ),
)


def item_sources_of(cause: str) -> frozenset[ItemState | None]:
    """Return the states that the transition of this cause may start from."""
    return next(transition.sources for transition in ITEM_TRANSITIONS if transition.cause == cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSeen:
    """One item. While it is `releasing`, it is bound for `destination`, since `releasing_for`."""

    id: int
    owner: UUID | None
    epoch: int
    state: ItemState
    weight: float = 1.0
    destination: UUID | None = None
    releasing_for: dt.timedelta = dt.timedelta()

    @property
    def holder(self) -> UUID | None:
        """Who has the item, or will have it when its move has ended."""
        return self.destination if self.state == ItemState.RELEASING else self.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSeen:
    """One manager that has not ended. A silent one is given nothing, and keeps what it has until it is judged."""

    id: UUID
    status: NodeStatus
    is_silent: bool = False

    @property
    def takes(self) -> bool:
        """Whether it may be given something."""
        return self.status == NodeStatus.RUNNING and not self.is_silent

    @property
    def leaves(self) -> bool:
        """Whether it works, and wants to be rid of all that it holds."""
        return self.status == NodeStatus.DRAINING


def takers_of(managers: Iterable[ManagerSeen]) -> frozenset[UUID]:
    """Those who may be given something."""
    return frozenset(manager.id for manager in managers if manager.takes)
