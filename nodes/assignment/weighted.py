"""
Balance by weight, with few moves.

First, all items stay that can stay. Items without a holder go to the holder with the least weight, the heaviest item
first. Then items move one at a time: the heaviest holder gives to the lightest the item that brings the two closest
together. A move happens only if it lowers the heavier of the two. So no item moves back and forth, and a balanced
assignment stays as it is.

An assignment is balanced if no single move would help: the difference between two holders is at most the lightest item
of the heavier one. With equal weights that is a difference of at most one item, by the fewest moves.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Mapping
from typing import Final

from nodes.assignment.strategy import Holder, Item

# Factor just below 1, by which the heavier load is multiplied before it is compared. So a rounding error of a sum is
# never a reason to move an item. The factor applies to the load, not to the difference of two loads. Otherwise an item
# that is lighter than the rounding error of two nearly equal loads would move back and forth forever.
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

    `elsewhere` is weight that holders carry outside of this balance. If two holders have equal weights, the holder with
    less weight elsewhere gets an item first.
    """
    # From here on, a holder is represented by its place in this order. Among equal holders the first one gets an item
    # first.
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
    unassigned: list[tuple[float, Item]] = []
    for item, holder in previous.items():
        weight = weights.get(item, 1.0)
        if holder is None or holder not in number:
            unassigned.append((weight, item))
        else:
            held[number[holder]].append((weight, item))
            loads[number[holder]] += weight
    for items in held:
        items.sort()
    _place(sorted(unassigned, key=lambda one: (-one[0], one[1])), held=held, loads=loads)
    _level(held=held, loads=loads)
    return {item: holder for holder, items in zip(holders, held, strict=True) for _weight, item in items}


def _place(unassigned: list[tuple[float, Item]], *, held: list[list[tuple[float, Item]]], loads: list[float]) -> None:
    """
    Give each item to the holder with the least weight at that point. Among equal holders, the one with the fewest items
    gets it.
    """
    least_loaded = [(loads[holder], len(items), holder) for holder, items in enumerate(held)]
    heapq.heapify(least_loaded)
    for weight, item in unassigned:
        load, count, holder = least_loaded[0]
        insort(held[holder], (weight, item))
        loads[holder] = load + weight
        heapq.heapreplace(least_loaded, (loads[holder], count + 1, holder))


def _level(*, held: list[list[tuple[float, Item]]], loads: list[float]) -> None:
    """Move items from the heaviest to the lightest holder while that helps."""
    # Entries of the heaps are not updated. If the load of a holder has changed, its old entry is skipped: the heap has
    # a newer one.
    least_loaded = [(load, holder) for holder, load in enumerate(loads)]
    busiest = [(-load, holder) for holder, load in enumerate(loads)]
    heapq.heapify(least_loaded)
    heapq.heapify(busiest)
    while busiest:
        load, source = -busiest[0][0], busiest[0][1]
        if load != loads[source]:
            heapq.heappop(busiest)
            continue
        while least_loaded[0][0] != loads[least_loaded[0][1]]:
            heapq.heappop(least_loaded)
        target = least_loaded[0][1]
        place = _best(held[source], difference=load * _ROUNDING - loads[target])
        if place is None:
            # This holder cannot give an item later either: the lightest holder only becomes heavier, and this holder
            # receives no item.
            heapq.heappop(busiest)
            continue
        weight, item = held[source].pop(place)
        insort(held[target], (weight, item))
        loads[source] -= weight
        loads[target] += weight
        for holder in (source, target):
            heapq.heappush(least_loaded, (loads[holder], holder))
            heapq.heappush(busiest, (-loads[holder], holder))


def _best(items: list[tuple[float, Item]], *, difference: float) -> int | None:
    """
    Return the index of the item that best halves the difference, among the items that lower the heavier side; None
    without one.
    """
    half = difference / 2
    above = bisect_left(items, half, key=_weight)
    candidates = [above - 1]
    if above < len(items):
        # The last of equally heavy items moves. They are sorted by id, so each process chooses the same one.
        candidates.append(bisect_right(items, items[above][0], key=_weight) - 1)
    helping = [place for place in candidates if place >= 0 and 0 < items[place][0] < difference]
    return min(helping, key=lambda place: (abs(items[place][0] - half), items[place][0]), default=None)


def _weight(one: tuple[float, object]) -> float:
    return one[0]
