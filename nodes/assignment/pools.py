"""
Work pools: several jobs, each with its items and with the nodes that can execute it, assigned in one call.

A strategy of pools gets the situation and the placements of the strategies before it, and places the items that it
wants to. So strategies can be chained: the first for special cases, the last for all remaining items. `share_out`
checks each result. If an item is lost, invented, placed twice or placed where its job cannot run, the strategy is at
fault and the result is refused.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from nodes.errors import Refused

# Largest number of items that an error names.
_NAMED: Final = 3


class WorkItem(NamedTuple):
    """The smallest part of a job. It cannot be divided."""

    job: str
    item: str


# The node of each item.
Shares = Mapping[WorkItem, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    The items to assign, and the nodes that can execute them.

    `pools` are the items of each job, `available` the nodes that can execute it. `previous` has the present node of
    each item. It may name items and nodes that no longer exist. An item without an entry in `weights` weighs 1.
    """

    pools: Mapping[str, Collection[str]]
    available: Mapping[str, Collection[str]]
    previous: Shares = field(default_factory=dict)
    weights: Mapping[WorkItem, float] = field(default_factory=dict)

    def nodes_of(self, job: str) -> tuple[str, ...]:
        """Return the nodes that can execute a job, sorted by id."""
        return tuple(sorted(set(self.available.get(job, ()))))

    def to_place(self, job: str, *, placed: Shares) -> tuple[str, ...]:
        """
        Return the items of a job that are not placed yet, sorted by id; an empty list if no node can execute the job.
        """
        if not self.nodes_of(job):
            return ()
        return tuple(sorted(item for item in set(self.pools[job]) if WorkItem(job, item) not in placed))


class PoolStrategy(Protocol):
    """Decides which node gets which item."""

    def __call__(self, situation: Situation, placed: Shares) -> Shares:
        """
        Return nodes for items that are not `placed` yet: for all of them, or for the items that the strategy wants to
        place.
        """
        ...


class StrategyRefused(Refused):
    """A strategy returned an invalid plan. The present assignment has to stay. Retrying cannot help."""


def chained(*strategies: PoolStrategy) -> PoolStrategy:
    """Return a strategy that calls these in order. Each places items that the strategies before it have left."""

    def chain(situation: Situation, placed: Shares) -> Shares:
        together: dict[WorkItem, str] = {}
        for strategy in strategies:
            together.update(_placements_by(strategy, situation, {**placed, **together}))
        return together

    return chain


def share_out(strategy: PoolStrategy, situation: Situation) -> dict[WorkItem, str]:
    """
    Return the node of each item, by this strategy: each item once, if some node can execute its job.

    Raises:
        StrategyRefused: the strategy loses or invents items, or places one where its job cannot run.
    """
    shares = dict(_placements_by(strategy, situation, {}))
    wanted = {WorkItem(job, item) for job in situation.pools for item in situation.to_place(job, placed={})}
    if lost := wanted - shares.keys():
        raise StrategyRefused(f"the strategy gave no node to {_some(lost)}; each item of a pool needs one")
    return shares


def _placements_by(strategy: PoolStrategy, situation: Situation, placed: Shares) -> Shares:
    """Return the placements of one strategy. Raise StrategyRefused if they are invalid."""
    shares = strategy(situation, placed)
    all_items = {WorkItem(job, item) for job, items in situation.pools.items() for item in items}
    if invented := shares.keys() - all_items:
        raise StrategyRefused(f"the strategy placed {_some(invented)}, which no pool has")
    if twice := shares.keys() & placed.keys():
        raise StrategyRefused(f"the strategy placed {_some(twice)}, which an earlier strategy has placed")
    nodes = {job: frozenset(situation.available.get(job, ())) for job in situation.pools}
    if astray := {item for item, node in shares.items() if node not in nodes[item.job]}:
        where = ", ".join(sorted({shares[item] for item in astray})[:_NAMED])
        raise StrategyRefused(f"the strategy placed {_some(astray)} on {where}, where that job cannot run")
    return shares


def _some(items: Iterable[WorkItem]) -> str:
    in_order = sorted(items)
    named = ", ".join(f"{item.job}/{item.item}" for item in in_order[:_NAMED])
    return named if len(in_order) <= _NAMED else f"{named} and {len(in_order) - _NAMED} more"
