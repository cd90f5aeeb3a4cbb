"""What a node does with the share of items that it was given: which jobs begin and end, and how items go to threads."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

# How many runs of a job there are at once on a node, for the items that it has there.
RunningStrategy = Callable[[frozenset[str]], int]


def one_thread(items: frozenset[str]) -> int:
    """All items in one run."""
    del items
    return 1


def thread_per_item(items: frozenset[str]) -> int:
    """As many runs side by side as there are items, each with one of them."""
    return len(items)


def threads(count: int) -> RunningStrategy:
    """
    So many runs side by side, or fewer where there are fewer items.

    Raises:
        ValueError: it is none at all.
    """
    if count < 1:
        raise ValueError(f"{count} threads cannot be: a job needs 1 or more")
    return lambda _items: count


def split(items: Collection[str], count: int) -> tuple[frozenset[str], ...]:
    """
    Return the items in `count` groups whose sizes differ by one at most; no group is empty.

    Raises:
        ValueError: no item can be done by no thread.
    """
    if count < 1:
        raise ValueError(f"{count} threads cannot be: a job needs 1 or more")
    in_order = sorted(items)
    groups = min(count, len(in_order))
    return tuple(frozenset(in_order[first::groups]) for first in range(groups))


@dataclass(frozen=True, slots=True)
class Change:
    """What a new assignment asks for: jobs that end here, and jobs that begin or go on with other items."""

    ends: frozenset[str]
    begins: Mapping[str, frozenset[str]]


def change_of(running: Mapping[str, frozenset[str]], assigned: Mapping[str, frozenset[str]]) -> Change:
    """Return what has to be done; a job whose items are the same is left alone."""
    has = {job: items for job, items in running.items() if items}
    wanted = {job: items for job, items in assigned.items() if items}
    return Change(
        ends=frozenset(has) - frozenset(wanted),
        begins={job: items for job, items in sorted(wanted.items()) if has.get(job) != items},
    )
