"""
Prints docs/strategies.md: `python -m tests.benchmarks.strategies > docs/strategies.md`. A test compares the file with
it.

The page shows how many items change nodes, by strategy, in the large scenarios of DJM. These have 44 jobs with 372
items on 8 nodes: 32 jobs of one item, 4 of 2, 5 of 3, 2 of 16 and one of 285.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

from nodes.assignment import names
from nodes.assignment.pools import Shares, Situation, share_out

STRATEGIES: Final = ("evenly-spread", "rendezvous", "evenly-rendezvous")

_SIZES: Final = [1] * 32 + [2] * 4 + [3] * 5 + [16] * 2 + [285]
POOLS: Final = {f"job-{number}": [f"item-{item}" for item in range(size)] for number, size in enumerate(_SIZES)}

_ALL: Final = range(8)
# Scenarios: for each step, the nodes that exist. The first step places all items for the first time, so moves are
# counted from the second step on.
SCENARIOS: Final[dict[str, list[list[int]]]] = {
    "8 nodes start one after another": [list(range(count)) for count in range(1, 9)],
    "each of 8 nodes is rebooted in turn": [
        [*_ALL],
        *(step for away in _ALL for step in ([node for node in _ALL if node != away], [*_ALL])),
    ],
    "8 nodes are rebooted two by two, overlapping": [
        [*_ALL],
        *(
            [node for node in _ALL if node not in away]
            for first in range(0, 8, 2)
            for away in ({first}, {first, first + 1}, {first + 1}, set())
        ),
    ],
    "all but one stop, then start again": [list(range(count)) for count in (*range(8, 0, -1), *range(2, 9))],
}

_HEAD = """# Strategies of work pools

A strategy decides which node gets which items of a distributed job.
Choose one with `--strategy NAME` of `manage.py runjobs`, or `strategy=` of a `DistributedJobManager`:

- `evenly-rendezvous` is the default, as in DJM.
- `evenly-spread` moves the fewest items among the even strategies.
  Choose it if the start of an item is expensive.
- The two rendezvous strategies need only the names of nodes.
  After a loss of all state, or on two nodes that see the same members, they compute the same shares.

| name | shares of a job | needs the previous assignment | moves when a node comes or goes |
|---|---|---|---|
| `evenly-spread` | equal within one item | yes | the fewest that keep shares equal |
| `weighted-spread` | equal by the weights of items | yes | few |
| `rendezvous` | random by hashes | no | only items that the node had or gets |
| `evenly-rendezvous` | equal within one item | no | more than `evenly-spread` |

## Moves

The table has the number of items that move to another node.
The cluster is the one of DJM's tests: 44 jobs with 372 items on 8 nodes.
The number in brackets is the largest difference between two nodes, in items of the largest job.
This page is printed by `python -m tests.benchmarks.strategies`; do not edit it.
"""


def moves_of(name: str, steps: list[list[int]]) -> tuple[int, int]:
    """
    Return the number of items that changed nodes after the first step, and the greatest difference within the largest
    job.
    """
    strategy = names.strategy_named(name)
    previous: Shares = {}
    moved, uneven = 0, 0
    for number, nodes in enumerate(steps):
        there = [f"worker-{node}" for node in nodes]
        shares = share_out(strategy, Situation(pools=POOLS, available=dict.fromkeys(POOLS, there), previous=previous))
        moved += sum(previous[item] != node for item, node in shares.items()) if number else 0
        largest = Counter(dict.fromkeys(there, 0))
        largest.update(node for item, node in shares.items() if item.job == "job-43")
        uneven = max(uneven, max(largest.values()) - min(largest.values()))
        previous = shares
    return moved, uneven


def page() -> str:
    """Return the whole page in Markdown."""
    return "\n".join((_HEAD, *_table(), ""))


def _table() -> Iterator[str]:
    yield f"| scenario | {' | '.join(STRATEGIES)} |"
    yield f"|---|{'---|' * len(STRATEGIES)}"
    for scenario, steps in SCENARIOS.items():
        cells = [moves_of(name, steps) for name in STRATEGIES]
        yield f"| {scenario} | {' | '.join(f'{moved} ({uneven})' for moved, uneven in cells)} |"


if __name__ == "__main__":
    sys.stdout.write(page())
