"""
The rule for the end of a run of several partitions. Pure functions, without a database.

References move between partitions, so no partition alone can know that no document is left. The control partition asks
all of them for their figures, in numbered rounds. A run has ended when two rounds in a row found every partition quiet,
with the same figures, and with each sent reference applied (Mattern's four counters: F. Mattern, "Algorithms for
distributed termination detection", Distributed Computing 2, 1987, section 4). One round is not enough: a reference may
arrive after its receiver has answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figures:
    """
    The counts of a partition for one run: the references that it `sent` to each partition and `applied` from each.

    It is `quiet` if none of its documents is waiting or in progress.
    """

    quiet: bool
    sent: Mapping[str, int]
    applied: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        return {"quiet": self.quiet, "sent": dict(self.sent), "applied": dict(self.applied)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Figures":
        return cls(bool(body["quiet"]), body["sent"], body["applied"])


def is_settled(figures: Mapping[str, Figures]) -> bool:
    """
    True if every partition is quiet, and has applied all references that the others sent. The figures are given by
    partition.
    """
    return all(one.quiet for one in figures.values()) and all(
        one.sent.get(target, 0) == other.applied.get(source, 0)
        for source, one in figures.items()
        for target, other in figures.items()
        if source != target
    )


def has_ended(before: Mapping[str, Figures] | None, now: Mapping[str, Figures]) -> bool:
    """True if the figures of two rounds in a row prove that the run has ended."""
    return before is not None and is_settled(now) and before == now
