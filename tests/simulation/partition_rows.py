"""The databases of simulated partitions, and the rules that keep them consistent."""

import dataclasses
from collections import Counter
from dataclasses import dataclass

from jobs.partitions.end_of_run import Figures
from jobs.partitions.moving import Move, Report
from jobs.partitions.slots import SlotMap
from tests.simulation.checker import Violation

SLOTS_HERE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """The rules that keep partitions consistent. All are on, unless one is switched off to see whether a check notices."""

    # A partition reports its jobs as held when no document is in progress.
    hold: bool = True
    # Documents are copied when all partitions hold all jobs, and no reference is on its way.
    settled_before_copies: bool = True
    # A partition keeps its chunks until all are applied.
    keeps_chunks: bool = True
    # A document that exists stays as it is if a chunk brings it again.
    existing_stay: bool = True
    # The chunks of a restored database are a new series.
    new_series: bool = True
    # A new subscription begins with a copy of all rows that still exist.
    copy_of_rows: bool = True
    # The other partitions send the control partition the move that they know, because a restore may have made it forget
    # the move.
    send_back: bool = True
    # A partition takes back its chunks for a lost partition.
    take_back: bool = True
    # A move continues without a lost partition.
    without_lost: bool = True
    # Two rounds end a run only if all sent references are applied.
    settled_end: bool = True

    def without(self, name: str) -> "PartitionRules":
        return dataclasses.replace(self, **{name: False})


PARTITION_RULES = tuple(field.name for field in dataclasses.fields(PartitionRules))


def require(holds: object, what: str) -> None:
    if not holds:
        raise Violation(what)


def slot_of(document: int) -> int:
    return document % SLOTS_HERE


class Partition:
    """
    The database of one partition: all that a crash leaves. Each step of the world is one transaction.

    `documents` has True for the fetched ones. `claimed` are with its workers.
    """

    def __init__(self, name: str, owners: tuple[str, ...]) -> None:
        self.name, self.series = name, f"{name}0"
        self.map = SlotMap(0, owners)
        self.documents: dict[int, bool] = {}
        self.is_held, self.report = False, Report(0, 0)
        self.move: Move | None = None
        self.claimed: set[int] = set()
        self.chunks: dict[tuple[str, str, int], tuple[tuple[int, bool], ...]] = {}
        self.amounts: Counter[str] = Counter()
        self.applied: dict[str, Counter[str]] = {}
        self.references: dict[str, list[int]] = {}
        self.received: Counter[str] = Counter()
        # Number of the last round of questions that the partition received, or sent as the control partition.
        self.round = 0

    @property
    def sent(self) -> dict[str, int]:
        return {target: len(rows) for target, rows in self.references.items()}

    @property
    def figures(self) -> Figures:
        is_quiet = not self.claimed and all(self.documents.values())
        return Figures(is_quiet, self.sent, dict(self.received))

    def owner_of(self, document: int) -> str:
        return self.map.owners[slot_of(document)]

    def has(self, document: int) -> bool:
        return self.owner_of(document) == self.name
