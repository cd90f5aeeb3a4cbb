"""The start of verifications in all partitions. Each partition verifies its own part, by a task of its own workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from jobs.partitions import this_partition
from jobs.partitions.merged import Placed, change_elsewhere, change_in
from nodes.errors import Invalid, Refused, Unknown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Begun(Generic[T]):
    """
    The scheduled verifications. If this partition has one, it comes first.

    `silent` partitions did not answer. `refused` has the reason of each partition that refused, by its name.
    """

    rows: Sequence[Placed[T]]
    silent: Sequence[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    made: T | None = None
    refused: str = ""


def covers_others(partition: str) -> bool:
    """
    True if a verification of `partition` ("" means all partitions) concerns another partition than this one.
    """
    return partition != this_partition.name() if partition else bool(this_partition.control_name())


def begin(partition: str, *, own: Callable[[], T] | None, start_there: Callable[[], T | None]) -> Begun[T]:
    """
    Schedule a verification in one partition, or in all for "".

    `own` schedules it here; None leaves this partition out. `start_there` schedules it in the database of another partition,
    and returns None if that partition has nothing to verify.

    Raises:
        Invalid: no partition has this name.
        Invalid, Refused: as `own`, if no partition schedules one.
        PartitionAway: the only partition does not answer.
    """
    if not covers_others(partition):
        return Begun([] if own is None else [Placed(own())])
    if partition:
        return _begin_in(partition, start_there)
    rows, refused = [], {}
    problem: Exception | None = None
    if own is not None:
        try:
            rows.append(Placed(own()))
        except (Invalid, Refused) as error:
            problem = error
            refused[this_partition.name()] = str(error)

    def ask(_name: str) -> _Answer[T]:
        try:
            return _Answer(start_there())
        except (Invalid, Refused) as error:
            return _Answer(refused=str(error))

    asked = change_elsewhere(ask)
    for name, answer in sorted(asked.others.items()):
        if answer is not None and answer.made is not None:
            rows.append(Placed(answer.made, name))
        elif answer is not None and answer.refused:
            refused[name] = answer.refused
    if problem is not None and not rows:
        raise problem
    return Begun(rows, [one.name for one in asked.silent], refused)


def _begin_in(partition: str, start_there: Callable[[], T | None]) -> Begun[T]:
    try:
        made = change_in(partition, start_there)
    except Unknown as unknown:
        raise Invalid({"partition": [str(unknown)]}) from None
    if made is None:
        raise Refused(f"Partition {partition} has nothing to verify yet.")
    return Begun([Placed(made, partition)])
