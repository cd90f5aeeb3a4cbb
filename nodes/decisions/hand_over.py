"""
How an item goes from one live manager to another without a pause.

The main begins the move (`Release`): from then on the owner begins nothing more with the item. The
owner withdraws what it has offered and nobody has taken, and lets go (`LetGo`), straight into the hands
of the new owner, who begins at once. What others have taken goes on meanwhile. Whoever dies on the way
leaves a row that says how far it came: an owner that is gone, or lets nothing go for too long, has the
item taken back by the main (`TakeBack`).
"""

import datetime as dt
from collections.abc import Container, Iterable
from dataclasses import dataclass
from uuid import UUID

from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen, takers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The main's wish to begin a move: the item's owner is to let it go to `to`."""

    item: int
    owner: UUID
    epoch: int
    to: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """The old owner's last word about an item: it is `to`'s now, or free where nobody is there to take it."""

    item: int
    owner: UUID
    epoch: int
    to: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """The main's wish to end a move whose owner does not: the item goes to `to`."""

    item: int
    epoch: int
    to: UUID


class MoveRefused(Exception):
    """An item cannot be moved there now; nothing was changed."""


def let_go(*, items: Iterable[ItemSeen], managers: Iterable[ManagerSeen], me: UUID) -> tuple[LetGo, ...]:
    """Return what I, the owner, have to let go, as soon as nothing of it is offered any more."""
    takers = takers_of(managers) - {me}
    return tuple(
        LetGo(item=item.id, owner=me, epoch=item.epoch, to=item.destination if item.destination in takers else None)
        for item in items
        if item.state == ItemState.RELEASING and item.owner == me
    )


def is_stranded(item: ItemSeen, *, there: Container[UUID | None], timeout: dt.timedelta) -> bool:
    """Whether a move has nobody who ends it: the owner is not `there`, or was asked longer ago than `timeout`."""
    return item.state == ItemState.RELEASING and (item.owner not in there or item.releasing_for > timeout)


def move(item: ItemSeen, *, to: ManagerSeen, managers: Iterable[ManagerSeen]) -> Release | None:
    """
    Return how to begin the move of one item that somebody asked for; None where it is already.

    Raises:
        MoveRefused: its sentence says why not.
    """
    if item.state == ItemState.RELEASING:
        raise MoveRefused(f"Group {item.id} is moving already; wait until it has arrived.")
    if item.state == ItemState.FREE or item.owner is None or all(manager.id != item.owner for manager in managers):
        raise MoveRefused(
            f"Group {item.id} belongs to nobody now: it is given to a manager when one of its seeds runs."
        )
    if item.owner == to.id:
        return None
    if to.leaves:
        raise MoveRefused(f"Manager {to.id} is draining; choose one that is running.")
    if not to.takes:
        raise MoveRefused(f"Manager {to.id} is not at work ({to.status}); choose one that is running.")
    return Release(item=item.id, owner=item.owner, epoch=item.epoch, to=to.id)
