"""
Allocation of items to managers.

Items without an owner go to the manager with the least weight. Items of a draining manager move to the others in the
same way. A manager without items gets some, with few moves, if that makes the balance more even. No other moves are
made: after moves by hand, or an uneven start, only `rebalance` evens the assignment.

All decisions follow from one snapshot, so it does not matter whether an earlier main manager completed its decisions.
"""

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from nodes.assignment.strategy import Strategy
from nodes.decisions.hand_over import Release, TakeBack, is_stranded
from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen, available_managers_of
from nodes.lifecycle import NodeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Give:
    """The main manager's decision to give an item without a live owner to `to`."""

    item: int
    owner: UUID | None
    epoch: int
    to: UUID


def allocate(
    *, items: Collection[ItemSeen], managers: Collection[ManagerSeen], strategy: Strategy, timeout: dt.timedelta
) -> tuple[Give | Release | TakeBack, ...]:
    """
    Return the actions of the main manager for the items of its scope.

    `timeout` is the longest time that an owner may take to let an item go. If no manager takes items, no action is
    returned.
    """
    available_managers = available_managers_of(managers)
    live = {manager.id for manager in managers}
    leaving = {manager.id for manager in managers if manager.leaves}
    if not available_managers:
        return ()
    stranded = {item.id for item in items if is_stranded(item, live=live, timeout=timeout)}
    unassigned = {
        item.id
        for item in items
        if item.state != ItemState.RELEASING and (item.owner is None or item.owner not in live)
    } | stranded
    placed = _place(
        items, unassigned=unassigned, leaving=leaving, available_managers=available_managers, strategy=strategy
    )
    actions: list[Give | Release | TakeBack] = []
    for item in sorted(items, key=lambda one: one.id):
        if item.id not in placed:
            continue
        to = placed[item.id]
        if item.id in stranded:
            actions.append(TakeBack(item=item.id, epoch=item.epoch, to=to))
        elif item.id in unassigned:
            actions.append(Give(item=item.id, owner=item.owner, epoch=item.epoch, to=to))
        else:
            actions.append(_release(item, to=to))
    return (
        *actions,
        *_moves_to_newcomers(items, placed=placed, available_managers=available_managers, strategy=strategy),
    )


def rebalance(
    *, items: Collection[ItemSeen], managers: Collection[ManagerSeen], strategy: Strategy
) -> tuple[Release, ...]:
    """Return the moves that even the balance among the managers that take items."""
    return tuple(_level(items, placed={}, available_managers=available_managers_of(managers), strategy=strategy))


def drain(
    *, items: Collection[ItemSeen], managers: Collection[ManagerSeen], strategy: Strategy, node: UUID
) -> tuple[Release, ...]:
    """Return the moves that take all items from a manager that is to drain."""
    as_if = [replace(manager, status=NodeStatus.DRAINING) if manager.id == node else manager for manager in managers]
    actions = allocate(items=items, managers=as_if, strategy=strategy, timeout=dt.timedelta.max)
    return tuple(action for action in actions if isinstance(action, Release) and action.owner == node)


def _place(
    items: Collection[ItemSeen],
    *,
    unassigned: Collection[int],
    leaving: Collection[UUID],
    available_managers: frozenset[UUID],
    strategy: Strategy,
) -> dict[int, UUID]:
    """
    Return new holders for items whose holder is missing or leaves. A stranded move goes to its destination.
    """
    to_place = {
        item.id: item.destination
        for item in items
        if item.id in unassigned or (item.state == ItemState.OWNED and item.owner in leaving)
    }
    return strategy(
        available=available_managers,
        previous=to_place,
        weights=_weights(items),
        kept={item.id: holder for item in items if item.id not in to_place and (holder := item.holder)},
    )


def _moves_to_newcomers(
    items: Collection[ItemSeen], *, placed: Mapping[int, UUID], available_managers: frozenset[UUID], strategy: Strategy
) -> list[Release]:
    """Return the moves to managers that hold nothing, if others have items to spare."""
    holders = {placed.get(item.id, item.holder) for item in items}
    newcomers = available_managers - holders
    if not newcomers:
        return []
    return [
        release
        for release in _level(items, placed=placed, available_managers=available_managers, strategy=strategy)
        if release.to in newcomers
    ]


def _level(
    items: Collection[ItemSeen], *, placed: Mapping[int, UUID], available_managers: frozenset[UUID], strategy: Strategy
) -> list[Release]:
    """Return the moves that make the balance even, between the managers that take items."""
    movable = {
        item.id: item
        for item in items
        if item.state == ItemState.OWNED and item.owner in available_managers and item.id not in placed
    }
    planned = strategy(
        available=available_managers,
        previous={item.id: item.owner for item in movable.values()},
        weights=_weights(items),
        kept={
            item.id: holder for item in items if item.id not in movable and (holder := placed.get(item.id, item.holder))
        },
    )
    return [_release(movable[item], to=to) for item, to in sorted(planned.items()) if to != movable[item].owner]


def _weights(items: Collection[ItemSeen]) -> dict[int, float]:
    return {item.id: item.weight for item in items}


def _release(item: ItemSeen, *, to: UUID) -> Release:
    assert item.owner is not None
    return Release(item=item.id, owner=item.owner, epoch=item.epoch, to=to)
