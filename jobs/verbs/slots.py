"""
Moves slots between partitions, and removes a partition without slots. All of this happens in the control partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from jobs.partitions import lost_partition, removing, this_partition
from jobs.partitions.lost_partition import Loss
from jobs.partitions.move_notes import MoveRefused, cancel_move, newest_map, plan_move, request_move
from jobs.partitions.moving import Move
from jobs.partitions.placement import Placement
from jobs.partitions.removing import Removal
from nodes.errors import Refused

__all__ = [
    "Loss",
    "MoveRefused",
    "NoControlPartition",
    "PlannedMove",
    "Removal",
    "begin",
    "cancel",
    "plan",
    "plan_loss",
    "plan_removal",
    "remove",
    "remove_lost",
]


class NoControlPartition(Refused):
    """Slots are moved in the control partition only."""

    code = "no_control_partition"


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """
    A move of `slots` from one partition to `targets`: each slot goes to the next target, and after the last target to
    the first one. `keeps` is the number of slots that stay.
    """

    source: str
    targets: Sequence[str]
    slots: Sequence[int]
    keeps: int

    @property
    def by_target(self) -> dict[str, int]:
        return {
            target: len(range(place, len(self.slots), len(self.targets))) for place, target in enumerate(self.targets)
        }


def plan(
    connection: psycopg.Connection[Any],
    *,
    source: str,
    targets: Sequence[str] = (),
    slots: Sequence[int] | None = None,
    count: int | None = None,
) -> PlannedMove:
    """
    Return the plan of a move of these `slots` of a partition, of its last `count` slots, or of all. Nothing is changed.

    Without targets, each other partition gets some of the slots.

    Raises:
        Invalid: a partition is unknown, or does not have the slots.
        NoControlPartition: this is not the control partition.
    """
    placement = _control_placement()
    owners = newest_map(connection, placement.names)
    wanted = list(dict.fromkeys(targets)) or [name for name in placement.names if name != source]
    moved = plan_move(owners, placement.names, source=source, targets=wanted, slots=slots, count=count)
    return PlannedMove(source, wanted, moved, keeps=len(owners.slots_of(source)) - len(moved))


def begin(connection: psycopg.Connection[Any], planned: PlannedMove) -> Move:
    """
    Begin a planned move, and return the move. The main managers of all partitions carry it out.

    Raises:
        MoveRefused: another move is not over.
        NoControlPartition: this is not the control partition.
    """
    return request_move(connection, _control_placement(), slots=planned.slots, targets=planned.targets)


def cancel(connection: psycopg.Connection[Any]) -> Move:
    """
    Cancel a move that still waits for jobs, and return it. All jobs continue with the old map of slots.

    Raises:
        MoveRefused: no move is in progress, or the copying of documents has begun.
        NoControlPartition: this is not the control partition.
    """
    return cancel_move(connection, _control_placement())


def plan_removal(name: str) -> Removal:
    """
    Return the plan of the removal of a partition. Nothing is changed.

    Raises:
        Invalid: there is no such partition.
        NotRemovable: the partition has slots or documents, or takes part in a run or a move.
        NoControlPartition: this is not the control partition.
    """
    return removing.plan_removal(_control_placement(), this_partition.addresses(), name)


def remove(name: str) -> Removal:
    """
    Remove a partition from the databases of all partitions. A repetition completes an interrupted removal.

    Raises:
        Invalid, NotRemovable, NoControlPartition: as `plan_removal`.
    """
    return removing.remove(_control_placement(), this_partition.addresses(), name)


def plan_loss(name: str) -> Loss:
    """
    Return the loss that comes with the removal of a partition whose database is lost. Nothing is changed.

    Raises:
        Invalid, NotRemovable, NoControlPartition: as for the removal.
    """
    return lost_partition.plan_loss(_control_placement(), this_partition.addresses(), name)


def remove_lost(name: str) -> Loss:
    """
    Remove a partition whose database is lost; a repetition completes an interrupted removal.

    Raises:
        Invalid: there is no such partition.
        NotRemovable: the partition answers, another partition does not answer or is in a run, or slots move without the
        partition or wait for jobs. NoControlPartition: this is not the control partition.
    """
    return lost_partition.remove_lost(_control_placement(), this_partition.addresses(), name)


def _control_placement() -> Placement:
    placement = this_partition.placement()
    if placement is None:
        raise NoControlPartition("This database is the only one. Set CRAWLCTL_PARTITIONS to have partitions.")
    if not placement.is_control:
        raise NoControlPartition(
            f"This is partition {placement.here}. Move slots in the control partition, {placement.control}."
        )
    return placement
