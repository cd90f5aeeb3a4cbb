"""
Pools spread evenly: each job over the nodes that can execute it, with the fewest moves.

Each job is balanced by itself. If nodes have the same share of a job, the one with fewer items of all other jobs
gets an item first. Otherwise all jobs of a single item would go to the first node.
"""

from collections import Counter
from collections.abc import Mapping

from nodes.assignment.pools import Shares, Situation, WorkItem
from nodes.assignment.weighted import weighted


def evenly_spread(situation: Situation, placed: Shares) -> Shares:
    """
    Place the items of each job so that the numbers of items on two nodes differ by at most one, with the fewest moves.
    """
    return _spread(situation, placed, weights={})


def weighted_spread(situation: Situation, placed: Shares) -> Shares:
    """Place each job so that no single move would make the weights of two nodes more even, with few moves."""
    return _spread(situation, placed, weights=situation.weights)


def _spread(situation: Situation, placed: Shares, *, weights: Mapping[WorkItem, float]) -> Shares:
    carried = Counter(placed.values())
    stays: dict[str, dict[str, str | None]] = {}
    for job in sorted(situation.pools):
        nodes = frozenset(situation.nodes_of(job))
        items = situation.to_place(job, placed=placed)
        before = {item: situation.previous.get(WorkItem(job, item)) for item in items}
        stays[job] = {item: node if node in nodes else None for item, node in before.items()}
        carried.update(node for node in stays[job].values() if node is not None)
    shares: dict[WorkItem, str] = {}
    for job, before in stays.items():
        of_this_job = {item.item: node for item, node in placed.items() if item.job == job}
        carried.subtract([*(node for node in before.values() if node is not None), *of_this_job.values()])
        after = weighted(
            available=situation.nodes_of(job),
            previous=before,
            weights={item: weights.get(WorkItem(job, item), 1.0) for item in (*before, *of_this_job)},
            kept=of_this_job,
            elsewhere=carried,
        )
        carried.update([*after.values(), *of_this_job.values()])
        shares.update((WorkItem(job, item), node) for item, node in after.items())
    return shares
