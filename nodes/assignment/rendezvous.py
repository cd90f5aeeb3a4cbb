"""
Pools by rendezvous hashing: each item goes to the node whose hash with it is highest.

The previous assignment does not matter: processes that see the same nodes compute the same shares. When a node leaves,
only its items move. When a node joins, only the items that it wins move. The hash is MurmurHash3 (x64, 128 bits, seed
0, the first half as a signed number) of job, colon, item and node, as in DJM. So a cluster that migrates from DJM keeps
its items where they were.
"""

from collections import Counter
from collections.abc import Iterable

import mmh3

from nodes.assignment.pools import Shares, Situation, WorkItem


def rendezvous(situation: Situation, placed: Shares) -> Shares:
    """Place each item on the node that its hash prefers: few moves, but no guarantee of an even balance."""
    shares: dict[WorkItem, str] = {}
    for job in situation.pools:
        nodes = situation.nodes_of(job)
        for item in situation.to_place(job, placed=placed):
            shares[WorkItem(job, item)] = _preferred(nodes, WorkItem(job, item))
    return shares


def evenly_rendezvous(situation: Situation, placed: Shares) -> Shares:
    """Place each item on the node that its hash prefers among the nodes that may still get items of the job."""
    shares: dict[WorkItem, str] = {}
    for job in situation.pools:
        items = situation.to_place(job, placed=placed)
        open_ = list(situation.nodes_of(job))
        low, over = divmod(len(items), len(open_)) if open_ else (0, 0)
        # Number of nodes that may get one item more than the others; 0 if the items divide evenly.
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
    """Return the node with the highest hash, and the first node if hashes are equal."""
    key = f"{item.job}:{item.item}"
    return max(nodes, key=lambda node: mmh3.hash64(f"{key}{node}", seed=0)[0])
