"""Histories of partitions: runs them until one fails, and prints one in full."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.checker import Violation
from tests.simulation.partition_rows import PARTITION_RULES, PartitionRules
from tests.simulation.partition_world import PartitionWorld

__all__ = ["PARTITION_RULES", "PartitionRules", "replay_partitions", "run_partitions"]


@dataclass(slots=True)
class PartitionSummary:
    """The result of histories of partitions. `failed` is the text of the failed one."""

    histories: int = 0
    moves: int = 0
    ends: int = 0
    restored: int = 0
    lost: int = 0
    failed: str | None = field(default=None, repr=False)

    def figures(self) -> dict[str, int]:
        return {
            "histories of partitions": self.histories,
            "moves of slots done": self.moves,
            "runs ended": self.ends,
            "histories with restores": self.restored,
            "histories with a lost partition": self.lost,
            "violations among partitions": int(self.failed is not None),
        }


def run_partitions(seeds: Iterable[int], *, rules: PartitionRules | None = None) -> PartitionSummary:
    """Run histories of partitions until one fails. `rules` are all rules, unless some are switched off."""
    summary = PartitionSummary()
    for seed in seeds:
        world, violation = _run(seed, rules or PartitionRules(), keeps_lines=False)
        summary.histories += 1
        if world is not None:
            summary.moves += world.moves
            summary.ends += world.has_run_ended
            summary.restored += world.was_restored
            summary.lost += bool(world.is_without)
        if violation is not None:
            summary.failed = replay_partitions(seed, rules=rules)
            break
    return summary


def replay_partitions(seed: int, *, rules: PartitionRules | None = None) -> str:
    """Run one history again, and return its lines."""
    rules = rules or PartitionRules()
    world, violation = _run(seed, rules, keeps_lines=True)
    ending = f"VIOLATION: {violation}" if violation else "all as it should be"
    without = "".join(f" --without {name}" for name in PARTITION_RULES if not getattr(rules, name))
    head = f'history {seed} of partitions; to see it again: make simulate ARGS="--replay-partitions {seed}{without}"'
    return "\n".join([head, *((world.lines or []) if world else []), ending, ""])


def _run(seed: int, rules: PartitionRules, *, keeps_lines: bool) -> tuple[PartitionWorld | None, str | None]:
    world = None
    try:
        world = PartitionWorld(seed, rules, keeps_lines=keeps_lines)
        world.run()
    except Violation as violation:
        return world, str(violation)
    return world, None
