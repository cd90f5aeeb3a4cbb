"""Arithmetic over the share of a node: the jobs that begin and end, and the items of each thread."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

# A function that returns the number of parallel runs of a job on a node, for its items there.
RunningStrategy = Callable[[frozenset[str]], int]


def one_thread(items: frozenset[str]) -> int:
    """Return 1, so that one run has all items."""
    del items
    return 1


def thread_per_item(items: frozenset[str]) -> int:
    """Return the number of items, so that each item has a separate run."""
    return len(items)


def threads(count: int) -> RunningStrategy:
    """
    Return a strategy of `count` parallel runs, or fewer if there are fewer items.

    Raises:
        ValueError: `count` is not positive.
    """
    if count < 1:
        raise ValueError(f"{count} threads are too few: a job needs at least 1")
    return lambda _items: count


def split(items: Collection[str], count: int) -> tuple[frozenset[str], ...]:
    """
    Return the items in `count` groups whose sizes differ by at most one. No group is empty.

    Raises:
        ValueError: `count` is not positive.
    """
    if count < 1:
        raise ValueError(f"{count} threads are too few: a job needs at least 1")
    in_order = sorted(items)
    groups = min(count, len(in_order))
    return tuple(frozenset(in_order[first::groups]) for first in range(groups))


@dataclass(frozen=True, slots=True)
class Change:
    """The difference to a new assignment: jobs that end here, and jobs that begin or continue with other items."""

    ends: frozenset[str]
    begins: Mapping[str, frozenset[str]]


def change_of(running: Mapping[str, frozenset[str]], assigned: Mapping[str, frozenset[str]]) -> Change:
    """Return the difference between two assignments. A job with the same items is in neither part."""
    has = {job: items for job, items in running.items() if items}
    wanted = {job: items for job, items in assigned.items() if items}
    return Change(
        ends=frozenset(has) - frozenset(wanted),
        begins={job: items for job, items in sorted(wanted.items()) if has.get(job) != items},
    )
