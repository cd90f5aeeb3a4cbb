"""
Measures the decisions of the main manager and their duration: `python -m tests.benchmarks.decisions`.

Arithmetic only, without a database: one snapshot of 10, 100 and 1,000 managers that hold 1,000 to 100,000 groups,
decided by the code of the daemons. The report shows the median time of a decision. It also shows how many groups change
managers in three cases: a manager has died, a manager has come, or an administrator rebalances. Before the rebalance,
half of the managers hold everything.
"""

import argparse
import datetime as dt
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from nodes.assignment.evenly import evenly
from nodes.decisions.allocate import allocate, rebalance
from nodes.decisions.elect import elect
from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen
from nodes.decisions.judge import judge
from nodes.decisions.snapshot import ClusterSeen
from nodes.lifecycle import NodeStatus
from tests.support.cluster import BEAT, NOON, TIMEOUT, seconds, seen_cluster, seen_node, steady_for

_T = TypeVar("_T")

_MANAGERS = (10, 100, 1_000)
_GROUPS = (1_000, 10_000, 100_000)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="decisions", description="Measure the decisions of the main manager.")
    parser.add_argument("--rounds", type=int, default=5, help="of each decision; medians count (%(default)s)")
    options = parser.parse_args(arguments)
    for managers in _MANAGERS:
        took, _ = _measure(partial(_look_after, _seen(managers)), rounds=options.rounds)
        _report(f"electing and judging, {managers:,} managers: {1000 * took:.2f} ms")
    for managers in _MANAGERS:
        for groups in _GROUPS:
            if groups > managers:
                _measure_moves(managers=managers, groups=groups, rounds=options.rounds)
    return 0


def _seen(managers: int) -> ClusterSeen:
    nodes = [
        seen_node(id=_id(number), started_at=NOON - seconds(number), heartbeat_age=seconds(number % 12))
        for number in range(managers)
    ]
    return seen_cluster(*nodes, me=nodes[0], main=nodes[0])


def _look_after(cluster: ClusterSeen) -> None:
    """Make the decisions of each look: is this node still the main manager, and which nodes have failed."""
    elect(cluster, beat=BEAT, is_steady=steady_for(TIMEOUT))
    judge(cluster, is_steady=steady_for(TIMEOUT))


def _measure_moves(*, managers: int, groups: int, rounds: int) -> None:
    everybody, all_but_one = _managers(managers), _managers(managers - 1)
    by_all, by_all_but_one, by_half = (_held(groups, by=by) for by in (managers, managers - 1, managers // 2))
    cases: dict[str, Callable[[], Sequence[object]]] = {
        "one has died": partial(_allocate, by_all, all_but_one),
        "one has come": partial(_allocate, by_all_but_one, everybody),
        "half hold all, made even": partial(rebalance, items=by_half, managers=everybody, strategy=evenly),
    }
    for case, decide in cases.items():
        took, actions = _measure(decide, rounds=rounds)
        _report(f"{case}, {managers:,} managers, {groups:,} groups: {1000 * took:.0f} ms, {len(actions):,} moves")


def _allocate(items: Sequence[ItemSeen], managers: Sequence[ManagerSeen]) -> Sequence[object]:
    return allocate(items=items, managers=managers, strategy=evenly, timeout=dt.timedelta(seconds=10))


def _managers(count: int) -> list[ManagerSeen]:
    return [ManagerSeen(id=_id(number), status=NodeStatus.RUNNING) for number in range(count)]


def _held(groups: int, *, by: int) -> list[ItemSeen]:
    return [
        ItemSeen(id=number, owner=_id(number % by), epoch=1, state=ItemState.OWNED) for number in range(1, groups + 1)
    ]


def _measure(decide: Callable[[], _T], *, rounds: int) -> tuple[float, _T]:
    taken = []
    for _ in range(rounds):
        began_at = time.process_time()
        decided = decide()
        taken.append(time.process_time() - began_at)
    return statistics.median(taken), decided


def _id(number: int) -> UUID:
    return UUID(int=number + 1)


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
