"""
Who is to hold which item.

What nobody holds is given to who carries least. What a draining manager holds is moved to the others
in the same way. A manager that holds nothing though others have more than they need is given items,
with few moves; only moves to such a manager are made. Everything else stays where it is: where
somebody moved an item by hand, or items came to rest unevenly, only `rebalance` makes it even again.

All is decided from one sight, so it does not matter whether an earlier main came to the end of its own
decisions.
"""

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from nodes.assignment.strategy import Strategy
from nodes.decisions.hand_over import Release, TakeBack, is_stranded
from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen, takers_of
from nodes.lifecycle import NodeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Give:
    """The main's wish to give to `to` an item whose owner is nobody, or is gone."""

    item: int
    owner: UUID | None
    epoch: int
    to: UUID


def allocate(
    *, items: Collection[ItemSeen], managers: Collection[ManagerSeen], strategy: Strategy, timeout: dt.timedelta
) -> tuple[Give | Release | TakeBack, ...]:
    """
    Return what I, the main, have to do about the items of my scope.

    `timeout` is how long an owner may take to let an item go. Without a manager that takes anything,
    everything stays as it is.
    """
    takers = takers_of(managers)
    there = {manager.id for manager in managers}
    leaving = {manager.id for manager in managers if manager.leaves}
    if not takers:
        return ()
    stranded = {item.id for item in items if is_stranded(item, there=there, timeout=timeout)}
    homeless = {
        item.id
        for item in items
        if item.state != ItemState.RELEASING and (item.owner is None or item.owner not in there)
    } | stranded
    placed = _place(items, homeless=homeless, leaving=leaving, takers=takers, strategy=strategy)
    actions: list[Give | Release | TakeBack] = []
    for item in sorted(items, key=lambda one: one.id):
        if item.id not in placed:
            continue
        to = placed[item.id]
        if item.id in stranded:
            actions.append(TakeBack(item=item.id, epoch=item.epoch, to=to))
        elif item.id in homeless:
            actions.append(Give(item=item.id, owner=item.owner, epoch=item.epoch, to=to))
        else:
            actions.append(_release(item, to=to))
    return (*actions, *_welcome(items, placed=placed, takers=takers, strategy=strategy))


def rebalance(
    *, items: Collection[ItemSeen], managers: Collection[ManagerSeen], strategy: Strategy
) -> tuple[Release, ...]:
    """Return the moves that make the balance even, among the managers that take something."""
    return tuple(_level(items, placed={}, takers=takers_of(managers), strategy=strategy))


def drain(
    *, items: Collection[ItemSeen], managers: Collection[ManagerSeen], strategy: Strategy, node: UUID
) -> tuple[Release, ...]:
    """Return the moves by which a manager that is to drain gets rid of what it holds."""
    as_if = [replace(manager, status=NodeStatus.DRAINING) if manager.id == node else manager for manager in managers]
    actions = allocate(items=items, managers=as_if, strategy=strategy, timeout=dt.timedelta.max)
    return tuple(action for action in actions if isinstance(action, Release) and action.owner == node)


def _place(
    items: Collection[ItemSeen],
    *,
    homeless: Collection[int],
    leaving: Collection[UUID],
    takers: frozenset[UUID],
    strategy: Strategy,
) -> dict[int, UUID]:
    """The new holders of what has none, or one that leaves. A move that is stranded goes on to where it was bound."""
    to_place = {
        item.id: item.destination
        for item in items
        if item.id in homeless or (item.state == ItemState.OWNED and item.owner in leaving)
    }
    return strategy(
        available=takers,
        previous=to_place,
        weights=_weights(items),
        kept={item.id: holder for item in items if item.id not in to_place and (holder := item.holder)},
    )


def _welcome(
    items: Collection[ItemSeen], *, placed: Mapping[int, UUID], takers: frozenset[UUID], strategy: Strategy
) -> list[Release]:
    """The moves to managers that hold nothing, if others have something to spare."""
    holders = {placed.get(item.id, item.holder) for item in items}
    newcomers = takers - holders
    if not newcomers:
        return []
    return [
        release for release in _level(items, placed=placed, takers=takers, strategy=strategy) if release.to in newcomers
    ]


def _level(
    items: Collection[ItemSeen], *, placed: Mapping[int, UUID], takers: frozenset[UUID], strategy: Strategy
) -> list[Release]:
    """The moves of what is owned by those who take something that make the balance even."""
    movable = {
        item.id: item
        for item in items
        if item.state == ItemState.OWNED and item.owner in takers and item.id not in placed
    }
    planned = strategy(
        available=takers,
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
