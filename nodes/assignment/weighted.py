"""
Balance by weight, with few moves.

First everything stays that can stay, and what has no holder any more goes to who carries least, the
heaviest first. Then the balance is made, one move at a time: the busiest holder gives to the idlest
the item that brings the two closest together. A move is made only where it lowers the heavier of the
two, so nothing goes to and fro, and what is balanced is left alone.

Balanced means that no single move would help: of any two holders, the difference is at most the
lightest item of the heavier one. With equal weights that is a difference of one item at most, by as few
moves as can be.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Mapping
from typing import Final

from nodes.assignment.strategy import Holder, Item

# Sums of weights in another order differ by less than this: no reason to move anything.
_ROUNDING: Final = 1 - 1e-9


def weighted(
    *,
    available: Collection[Holder],
    previous: Mapping[Item, Holder | None],
    weights: Mapping[Item, float],
    kept: Mapping[Item, Holder] | None = None,
    elsewhere: Mapping[Holder, float] | None = None,
) -> dict[Item, Holder]:
    """
    Return an assignment in which no single move would make the weights of two holders more even.

    `elsewhere` is what holders carry that counts in no balance here: of two that carry the same, who carries
    less of it is given something first.
    """
    # From here on a holder is his number: the first of several that are alike is the first to be given something.
    others = elsewhere or {}
    holders = sorted(available, key=lambda holder: (others.get(holder, 0.0), holder))
    if not holders:
        return {}
    number = {holder: place for place, holder in enumerate(holders)}
    held: list[list[tuple[float, Item]]] = [[] for _ in holders]
    loads = [0.0] * len(holders)
    if kept:
        for item, keeper in kept.items():
            if keeper in number:
                loads[number[keeper]] += weights.get(item, 1.0)
    homeless: list[tuple[float, Item]] = []
    for item, holder in previous.items():
        weight = weights.get(item, 1.0)
        if holder is None or holder not in number:
            homeless.append((weight, item))
        else:
            held[number[holder]].append((weight, item))
            loads[number[holder]] += weight
    for items in held:
        items.sort()
    _place(sorted(homeless, key=lambda one: (-one[0], one[1])), held=held, loads=loads)
    _level(held=held, loads=loads)
    return {item: holder for holder, items in zip(holders, held, strict=True) for _weight, item in items}


def _place(homeless: list[tuple[float, Item]], *, held: list[list[tuple[float, Item]]], loads: list[float]) -> None:
    """Give each item to who carries least by then; among equals to who holds the fewest."""
    idlest = [(loads[holder], len(items), holder) for holder, items in enumerate(held)]
    heapq.heapify(idlest)
    for weight, item in homeless:
        load, count, holder = idlest[0]
        insort(held[holder], (weight, item))
        loads[holder] = load + weight
        heapq.heapreplace(idlest, (loads[holder], count + 1, holder))


def _level(*, held: list[list[tuple[float, Item]]], loads: list[float]) -> None:
    """Move items from the busiest to the idlest for as long as that helps."""
    # An entry whose load is no longer the holder's is passed over: a fresh one is in the heap.
    idlest = [(load, holder) for holder, load in enumerate(loads)]
    busiest = [(-load, holder) for holder, load in enumerate(loads)]
    heapq.heapify(idlest)
    heapq.heapify(busiest)
    while busiest:
        load, giver = -busiest[0][0], busiest[0][1]
        if load != loads[giver]:
            heapq.heappop(busiest)
            continue
        while idlest[0][0] != loads[idlest[0][1]]:
            heapq.heappop(idlest)
        taker = idlest[0][1]
        place = _best(held[giver], difference=load - loads[taker])
        if place is None:
            # Nor can it give later: the idlest will only carry more, and this one is not given anything.
            heapq.heappop(busiest)
            continue
        weight, item = held[giver].pop(place)
        insort(held[taker], (weight, item))
        loads[giver] -= weight
        loads[taker] += weight
        for holder in (giver, taker):
            heapq.heappush(idlest, (loads[holder], holder))
            heapq.heappush(busiest, (-loads[holder], holder))


def _best(items: list[tuple[float, Item]], *, difference: float) -> int | None:
    """Where the item stands that halves the difference best, of those that lower the heavier side; None without one."""
    half = difference / 2
    above = bisect_left(items, half, key=_weight)
    candidates = [above - 1]
    if above < len(items):
        # Of equally heavy ones the last: they are sorted by id.
        candidates.append(bisect_right(items, items[above][0], key=_weight) - 1)
    helping = [place for place in candidates if place >= 0 and 0 < items[place][0] < difference * _ROUNDING]
    return min(helping, key=lambda place: (abs(items[place][0] - half), items[place][0]), default=None)


def _weight(one: tuple[float, object]) -> float:
    return one[0]
