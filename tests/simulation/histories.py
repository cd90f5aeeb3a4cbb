"""Runs many histories one after the other until one fails, and prints one in full."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from tests.simulation.checker import Violation
from tests.simulation.process import BEAT
from tests.simulation.rules import NAMES, Rules
from tests.simulation.world import World

_BEAT = BEAT.total_seconds()


@dataclass(slots=True)
class Summary:
    """The result of the histories. `failed` is the text of the failed one, with the command that replays it."""

    histories: int = 0
    nodes: int = 0
    most_nodes: int = 0
    elections: int = 0
    marks: int = 0
    moves: int = 0
    refused: int = 0
    failed: str | None = field(default=None, repr=False)

    def add(self, world: World) -> None:
        self.histories += 1
        self.nodes += len(world.processes)
        self.most_nodes = max(self.most_nodes, world.most_alive)
        self.elections += sum(world.checker.terms.values())
        self.marks += world.checker.marks
        self.moves += world.checker.moves
        self.refused += world.store.refused

    def figures(self) -> dict[str, int]:
        return {
            "histories": self.histories,
            "nodes": self.nodes,
            "nodes at a time, at most": self.most_nodes,
            "elections": self.elections,
            "nodes marked failed": self.marks,
            "groups given": self.moves,
            "writes refused by a fence": self.refused,
            "violations": int(self.failed is not None),
        }


@dataclass(frozen=True, slots=True)
class Told:
    text: str
    violation: str | None


def run_histories(seeds: Iterable[int], *, rules: Rules | None = None) -> Summary:
    """Run histories until one fails. `rules` are all rules, unless some are switched off."""
    rules = rules or Rules()
    summary = Summary()
    for seed in seeds:
        world = World(seed, rules)
        try:
            world.run()
        except Violation:
            summary.failed = replay(seed, rules=rules).text
        summary.add(world)
        if summary.failed is not None:
            break
    return summary


def takeover(seed: int) -> float:
    """
    Freeze the main manager of an otherwise undisturbed cluster. Return the time from its timeout until the next main
    manager (in intervals of heartbeats).
    """
    world = World(seed)
    world.start(NodeKind.MANAGER)
    world.scheduler.run(until=world.scheduler.random.uniform(8, 10) * _BEAT)
    main, term = world.main, world.checker.terms[CLUSTER_SCOPE]
    assert main is not None
    main.is_frozen = main.is_lost = True
    main.begin_trouble()
    began_at = world.scheduler.now
    while world.checker.terms[CLUSTER_SCOPE] == term:
        world.scheduler.run(until=world.scheduler.now + _BEAT / 50)
    return (world.scheduler.now - began_at - main.timeout_seconds) / _BEAT


def replay(seed: int, *, rules: Rules | None = None) -> Told:
    """Run one history again, and record its lines."""
    rules = rules or Rules()
    world = World(seed, rules, keeps_lines=True)
    violation: str | None = None
    try:
        world.run()
    except Violation as found:
        violation = str(found)
    ending = "VIOLATION: " + violation if violation else "all as it should be"
    world.log(ending)
    without = "".join(f" --without {name}" for name in NAMES if not getattr(rules, name))
    head = f'history {seed}; to see it again: make simulate ARGS="--replay {seed}{without}"'
    return Told("\n".join([head, *world.lines, ""]), violation)
