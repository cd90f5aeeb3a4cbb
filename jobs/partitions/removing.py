"""
The removal of a partition that no longer has slots or documents.

The control partition removes it from the databases of all partitions. Each database first notes that the partition
leaves: from then on its main manager makes no exchange with it. Then both sides drop their subscriptions, publications
and slots, and the rows of the exchange. Finally, its name is deleted from the noted names. Each step can be
repeated, so the same command completes an interrupted removal.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.partitions.agreement import note_names, noted_names
from jobs.partitions.exchange import drop_exchange, has_exchange
from jobs.partitions.move_notes import is_on
from jobs.partitions.placement import Placement
from jobs.partitions.slots import read_map
from nodes.errors import Invalid, Refused

# Longest wait (seconds) for a database.
_CONNECT_WITHIN: Final = 5
# Longest wait (seconds) for the end of the readers of slots, and the pause between two checks.
_ENDS_WITHIN: Final = 10.0
_PAUSE: Final = 0.1
_RUNNING: Final[LiteralString] = """
SELECT job.name FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
 WHERE job.phase <> 'inactive' ORDER BY job.name LIMIT 1
"""
_DOCUMENTS: Final[LiteralString] = """
SELECT job.name FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id LIMIT 1
"""
_REFERENCES: Final[LiteralString] = (
    "SELECT EXISTS (SELECT FROM jobs_foreignreference WHERE %(name)s IN (source, target) AND source <> target)"
)
# The facts that a partition sent to itself are its own notes, and stay.
_FORGET: Final[Sequence[LiteralString]] = (
    "DELETE FROM jobs_partitionfact WHERE %(name)s IN (source, target) AND source <> target",
    "DELETE FROM jobs_appliedreferences WHERE source = %(name)s",
)


class NotRemovable(Refused):
    """
    A partition cannot be removed: it still takes part in the crawl, or a database does not answer. The message has the
    reason.
    """

    code = "partition_in_use"


@dataclass(frozen=True, slots=True)
class Removal:
    """A possible removal of a partition: the databases that it changes, by the names of their partitions."""

    name: str
    databases: Sequence[str]


def plan_removal(placement: Placement, addresses: Mapping[str, str], name: str) -> Removal:
    """
    Check that a partition may be removed. Nothing is changed.

    Raises:
        Invalid: the settings name no such partition.
        NotRemovable: the partition is the control partition, has slots or documents, or takes part in a run or a move.
    """
    with ExitStack() as opened:
        return _plan(placement, _open_all(opened, placement, addresses, name), name)


def remove(placement: Placement, addresses: Mapping[str, str], name: str) -> Removal:
    """
    Remove a partition from all databases. The operator changes the settings afterwards.

    Raises:
        Invalid, NotRemovable: as for the plan, or the exchange is still in use.
    """
    with ExitStack() as opened:
        databases = _open_all(opened, placement, addresses, name)
        planned = _plan(placement, databases, name)
        finish_removal(placement, databases, name)
    return planned


def finish_removal(placement: Placement, databases: Mapping[str, psycopg.Connection[Any]], name: str) -> None:
    """
    End the exchange with a partition in these databases, and delete its name from their notes.

    Raises:
        NotRemovable: the exchange is still in use.
    """
    for database in databases.values():
        note_names(database, leaving=name)
    _drop_all(placement, databases, name)
    for database in databases.values():
        for statement in _FORGET:
            database.execute(statement, {"name": name})
    # The control partition comes last: as long as it has the name, the command knows that the removal is not complete.
    for partition in reversed([one for one in placement.names if one in databases]):
        note_names(databases[partition], removed=name)


def _drop_all(placement: Placement, databases: Mapping[str, psycopg.Connection[Any]], name: str) -> None:
    """Drop the exchange with a partition on both sides. The server needs a moment to end the readers of slots."""
    sides = [
        (
            database,
            replace(placement, here=partition),
            [one for one in placement.names if one != name] if partition == name else [name],
        )
        for partition, database in databases.items()
    ]
    until = time.monotonic() + _ENDS_WITHIN
    while True:
        for side in sides:
            drop_exchange(*side)
        if not any(has_exchange(*side) for side in sides):
            return
        if time.monotonic() > until:
            raise NotRemovable(f"The exchange with partition {name} is still in use. Repeat the command.")
        time.sleep(_PAUSE)


def _plan(placement: Placement, databases: Mapping[str, psycopg.Connection[Any]], name: str) -> Removal:
    own = databases[placement.here]
    if is_on(own):
        raise NotRemovable("Slots move now. Wait for the end of the move: `crawlctl partition list` shows it.")
    if amount := len(read_map(own, placement.names).slots_of(name)):
        raise NotRemovable(f"Partition {name} has {amount} slots. Give them away: crawlctl partition drain {name}")
    for partition, database in databases.items():
        if (job := first_running_job(database)) is not None:
            raise NotRemovable(f"Job {job} is in a run in partition {partition}. Wait for its end, or abort it.")
        if database.execute(_REFERENCES, {"name": name}).fetchone() == (True,):
            raise NotRemovable(
                f"Partition {partition} has references from or for {name}. Its main manager forgets them after the run."
            )
    if (job := _first(databases[name], _DOCUMENTS)) is not None:
        raise NotRemovable(f"Partition {name} has documents of job {job}. Move or delete them first.")
    return Removal(name, tuple(databases))


def _open_all(
    opened: ExitStack, placement: Placement, addresses: Mapping[str, str], name: str
) -> dict[str, psycopg.Connection[Any]]:
    """Return connections to the databases of all partitions, the removed partition first."""
    check_name(placement, name)
    found = {}
    for partition in (name, *(one for one in placement.names if one != name)):
        found[partition] = opened.enter_context(open_one(addresses, partition))
        noted = noted_names(found[partition])
        if noted is None or noted["here"] != partition:
            raise NotRemovable(f"The address of {partition} leads to a database of another partition.")
    return found


def check_name(placement: Placement, name: str) -> None:
    """
    Check that a name belongs to a partition that may be removed.

    Raises:
        Invalid: the settings name no such partition.
        NotRemovable: the partition is the control partition.
    """
    if name not in placement.names:
        known = ", ".join(placement.others)
        raise Invalid({"name": [f"There is no partition {name!r}. CRAWLCTL_PARTITIONS names others: {known}."]})
    if name == placement.control:
        raise NotRemovable(f"{name} is the control partition, which cannot be removed.")


def open_one(addresses: Mapping[str, str], name: str) -> psycopg.Connection[Any]:
    """
    Return a connection to the database of a partition, in autocommit mode.

    Raises:
        NotRemovable: the database does not answer.
    """
    try:
        return psycopg.connect(addresses[name], autocommit=True, connect_timeout=_CONNECT_WITHIN)
    except psycopg.Error as error:
        problem = str(error).strip()
        raise NotRemovable(f"Partition {name} does not answer, so nothing was changed: {problem}") from error


def first_running_job(database: psycopg.Connection[Any]) -> str | None:
    """Return the name of a job of partitions that is in a run; None if there is none."""
    return _first(database, _RUNNING)


def _first(database: psycopg.Connection[Any], statement: LiteralString) -> str | None:
    row = database.execute(statement).fetchone()
    return None if row is None else str(row[0])
