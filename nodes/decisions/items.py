"""
What there is to hold, and who may hold it, as the main saw both at one moment.

An item is whatever is held by one manager at a time and cannot be divided. Its epoch grows with every
change of owner, so an action that was decided on an older sight is refused by its guard.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
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
