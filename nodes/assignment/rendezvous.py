"""
Pools by rendezvous: each item goes to the node whose hash with it is highest.

Nobody has to know who held what before: any two that see the same nodes come to the same shares. When a
node goes, only its items move; when one comes, only what it wins. The hash is MurmurHash3 (x64, 128 bits,
seed 0, the first half as a signed number) of job, colon, item and node, as the original has it, so that a
cluster that comes from there finds its items where they were.
"""

from collections import Counter
from collections.abc import Iterable

import mmh3

from nodes.assignment.pools import Shares, Situation, WorkItem


def rendezvous(situation: Situation, placed: Shares) -> Shares:
    """Place each item on the node that its hash prefers: few moves, and no promise of evenness."""
    shares: dict[WorkItem, str] = {}
    for job in situation.pools:
        nodes = situation.nodes_of(job)
        for item in situation.to_place(job, placed=placed):
            shares[WorkItem(job, item)] = _preferred(nodes, WorkItem(job, item))
    return shares


def evenly_rendezvous(situation: Situation, placed: Shares) -> Shares:
    """Place each item on the node that its hash prefers among those that have not their share of the job yet."""
    shares: dict[WorkItem, str] = {}
    for job in situation.pools:
        items = situation.to_place(job, placed=placed)
        open_ = list(situation.nodes_of(job))
        low, over = divmod(len(items), len(open_)) if open_ else (0, 0)
        # As many nodes may have one more than the others. Where it comes out even, all have the same.
        may_have_more = over
        counts = Counter[str]()
        for item in items:
            node = _preferred(open_, WorkItem(job, item))
            shares[WorkItem(job, item)] = node
            counts[node] += 1
            if may_have_more and counts[node] == low + 1:
                open_.remove(node)
                may_have_more -= 1
            if not may_have_more:
                open_ = [one for one in open_ if counts[one] < low]
    return shares


def _preferred(nodes: Iterable[str], item: WorkItem) -> str:
    """The node of the highest hash; of equal ones the first."""
    key = f"{item.job}:{item.item}"
    return max(nodes, key=lambda node: mmh3.hash64(f"{key}{node}", seed=0)[0])
