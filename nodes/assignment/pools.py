"""
Work pools: several jobs, each with its items and with the nodes that can do it, shared out in one go.

A strategy of pools is given the situation, and what strategies before it have placed already, and places
what it wants to: so strategies can be chained, the first for what is special and the last for the rest.
Whatever it returns is looked at before it counts (`share_out`): an item that is lost, invented, placed twice
or placed where its job cannot run is the mistake of the strategy, and no plan at all.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

# As many items are named in an error at most.
_NAMED: Final = 3


class WorkItem(NamedTuple):
    """The smallest piece of a job that cannot be divided."""

    job: str
    item: str


# Who holds what.
Shares = Mapping[WorkItem, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    What there is to be done, and by whom it can be.

    `pools` are the items of each job, `available` the nodes that can do it. `previous` says who held what, also
    what is gone since. An item that `weights` does not name weighs 1.
    """

    pools: Mapping[str, Collection[str]]
    available: Mapping[str, Collection[str]]
    previous: Shares = field(default_factory=dict)
    weights: Mapping[WorkItem, float] = field(default_factory=dict)

    def nodes_of(self, job: str) -> tuple[str, ...]:
        """The nodes that can do a job, in the order of their ids."""
        return tuple(sorted(set(self.available.get(job, ()))))

    def to_place(self, job: str, *, placed: Shares) -> tuple[str, ...]:
        """The items of a job that nobody has placed, in the order of their ids; none where nobody can do the job."""
        if not self.nodes_of(job):
            return ()
        return tuple(sorted(item for item in set(self.pools[job]) if WorkItem(job, item) not in placed))


class PoolStrategy(Protocol):
    """Decides which node does which item."""

    def __call__(self, situation: Situation, placed: Shares) -> Shares:
        """Return who is to do what is not `placed` yet, or as much of it as the strategy wants to say."""
        ...


class StrategyRefused(Exception):
    """A strategy returned what cannot be; the assignment that there is has to stay. Trying again cannot help."""


def chained(*strategies: PoolStrategy) -> PoolStrategy:
    """Return the strategy that lets each of these place what those before it have left."""

    def chain(situation: Situation, placed: Shares) -> Shares:
        together: dict[WorkItem, str] = {}
        for strategy in strategies:
            together.update(_by(strategy, situation, {**placed, **together}))
        return together

    return chain


def share_out(strategy: PoolStrategy, situation: Situation) -> dict[WorkItem, str]:
    """
    Return who does what, by this strategy: each item whose job somebody can do, once.

    Raises:
        StrategyRefused: the strategy loses or invents items, or places one where its job cannot run.
    """
    shares = dict(_by(strategy, situation, {}))
    wanted = {WorkItem(job, item) for job in situation.pools for item in situation.to_place(job, placed={})}
    if lost := wanted - shares.keys():
        raise StrategyRefused(f"the strategy placed {_some(lost)} nowhere; each item of a pool needs a node")
    return shares


def _by(strategy: PoolStrategy, situation: Situation, placed: Shares) -> Shares:
    """What one strategy places, if it can be."""
    shares = strategy(situation, placed)
    there = {WorkItem(job, item) for job, items in situation.pools.items() for item in items}
    if invented := shares.keys() - there:
        raise StrategyRefused(f"the strategy placed {_some(invented)}: no pool has that")
    if twice := shares.keys() & placed.keys():
        raise StrategyRefused(f"the strategy placed {_some(twice)}, which a strategy before it has placed")
    nodes = {job: frozenset(situation.available.get(job, ())) for job in situation.pools}
    if astray := {item for item, node in shares.items() if node not in nodes[item.job]}:
        where = ", ".join(sorted({shares[item] for item in astray})[:_NAMED])
        raise StrategyRefused(f"the strategy placed {_some(astray)} on {where}, where that job cannot run")
    return shares


def _some(items: Iterable[WorkItem]) -> str:
    in_order = sorted(items)
    named = ", ".join(f"{item.job}/{item.item}" for item in in_order[:_NAMED])
    return named if len(in_order) <= _NAMED else f"{named} and {len(in_order) - _NAMED} more"
