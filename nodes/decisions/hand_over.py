"""
The move of an item from one live manager to another, without a pause.

The main manager begins the move (`Release`): from then on the owner offers no further documents of the item. The owner
withdraws its untaken offers and lets the item go (`LetGo`) to the new owner, which begins immediately. Offers that
workers have taken continue during the move. If a process dies, the row of the item shows the state of the move. If the
owner has ended, or takes too long, the main manager takes the item back (`TakeBack`).
"""

import datetime as dt
from collections.abc import Container, Iterable
from dataclasses import dataclass
from uuid import UUID

from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen, available_managers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The main manager's decision to begin a move: the item's owner must let it go to `to`."""

    item: int
    owner: UUID
    epoch: int
    to: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """The old owner's last write about an item: the item belongs to `to` now, or is free if no manager can take it."""

    item: int
    owner: UUID
    epoch: int
    to: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """The main manager's decision to end a move that its owner does not end: the item goes to `to`."""

    item: int
    epoch: int
    to: UUID


class MoveRefused(Exception):
    """An item cannot be moved there now. Nothing was changed."""


def let_go(*, items: Iterable[ItemSeen], managers: Iterable[ManagerSeen], me: UUID) -> tuple[LetGo, ...]:
    """
    Return the items that `me`, their owner, must let go. Call this when none of their documents is offered any more.
    """
    available_managers = available_managers_of(managers) - {me}
    return tuple(
        LetGo(
            item=item.id,
            owner=me,
            epoch=item.epoch,
            to=item.destination if item.destination in available_managers else None,
        )
        for item in items
        if item.state == ItemState.RELEASING and item.owner == me
    )


def is_stranded(item: ItemSeen, *, live: Container[UUID | None], timeout: dt.timedelta) -> bool:
    """True if no owner will end the move: the owner is not in `live`, or did not end it within `timeout`."""
    return item.state == ItemState.RELEASING and (item.owner not in live or item.releasing_for > timeout)


def move(item: ItemSeen, *, to: ManagerSeen, managers: Iterable[ManagerSeen]) -> Release | None:
    """
    Return the action that begins a requested move of one item; None if the item is already there.

    Raises:
        MoveRefused: the item cannot be moved. The message says why.
    """
    if item.state == ItemState.RELEASING:
        raise MoveRefused(f"Group {item.id} is moving already; wait until the move has ended.")
    if item.state == ItemState.FREE or item.owner is None or all(manager.id != item.owner for manager in managers):
        raise MoveRefused(f"Group {item.id} has no owner now: it is given to a manager when one of its seeds runs.")
    if item.owner == to.id:
        return None
    if to.leaves:
        raise MoveRefused(f"Manager {to.id} is draining; choose one that is running.")
    if not to.takes:
        raise MoveRefused(f"Manager {to.id} is not running ({to.status}); choose one that is running.")
    return Release(item=item.id, owner=item.owner, epoch=item.epoch, to=to.id)
