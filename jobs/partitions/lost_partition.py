"""
The removal of a partition whose database is lost: the other partitions take its slots, and find its documents again by
crawling.

If a move copies documents, it first continues without the lost partition (`jobs.partitions.moving`). The removal
follows when the move is done and all runs have ended.

The control partition removes it from the databases of all other partitions, while no job is in a run. Each partition
adopts a new map of slots, and reads all seeds again. A document that names documents of the lost partition is fetched
without conditions in the next run, because an answer without a body would not name them again. Each step can be
repeated, so the same command completes an interrupted removal.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.partitions.agreement import noted_names
from jobs.partitions.move_notes import continue_without_partition, is_on, read_move
from jobs.partitions.moving import Move, MovePhase, change_owner
from jobs.partitions.placement import Placement
from jobs.partitions.removing import NotRemovable, check_name, finish_removal, first_running_job, open_one
from jobs.partitions.slots import SlotMap, adopt_map, read_map

_LIFE: Final[LiteralString] = """
SELECT body, sent_at FROM jobs_partitionfact
 WHERE source = %(name)s AND key = 'life:all' ORDER BY number DESC LIMIT 1
"""
_LINKS: Final[LiteralString] = "SELECT hash, job_id, bin FROM jobs_foreignlink WHERE target = %(name)s"
_COUNT_LINKS: Final[LiteralString] = "SELECT count(*) FROM jobs_foreignlink WHERE target = %(name)s"
# Number of links that are read, and handed over to other partitions, together.
_AT_ONCE: Final = 5_000
# Locks: ForeignLink by hash.
_HAND_OVER: Final[LiteralString] = """
UPDATE jobs_foreignlink AS link SET target = given.target
  FROM (SELECT * FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(targets)s::text[]) AS given(hash, job_id, target)
         ORDER BY hash, job_id) AS given
 WHERE link.hash = given.hash AND link.job_id = given.job_id
"""
# Documents of this partition with links to documents of the lost partition. Each of them loses its validators, so that
# it is read without conditions. The statement reads the stored links of each job once. Locks: QueueItem by hash, then
# ForeignLink by hash.
_READ_AGAIN: Final[LiteralString] = """
WITH naming AS (
    SELECT DISTINCT links.hash, links.job_id FROM jobs_outlinks AS links CROSS JOIN LATERAL unnest(links.targets) AS named(hash)
      JOIN jobs_foreignlink AS link ON link.hash = named.hash AND link.job_id = links.job_id AND link.target = %(name)s
), locked AS (
    SELECT item.hash, item.job_id FROM jobs_queueitem AS item JOIN naming USING (hash, job_id)
     WHERE item.validators <> '' ORDER BY item.hash, item.job_id FOR NO KEY UPDATE OF item
)
UPDATE jobs_queueitem AS item SET validators = '' FROM locked
 WHERE item.hash = locked.hash AND item.job_id = locked.job_id
"""
_FORGET_LINKS: Final[LiteralString] = "DELETE FROM jobs_foreignlink WHERE target = %(name)s"


@dataclass(frozen=True, slots=True)
class Loss:
    """
    The loss of a partition.

    - `slots` is the number of its slots, and `given` is the number that each other partition gets.
    - `documents` is the number of its documents that it last reported, at the time `told_at`.
    - `links` is the number of links in other partitions that lead to its documents.
    - `ends_a_move` is true while a move copies documents: then the removal only gives its slots to others.
    """

    name: str
    slots: int
    given: Mapping[str, int]
    documents: int | None
    told_at: dt.datetime | None
    links: int
    ends_a_move: bool = False


def plan_loss(placement: Placement, addresses: Mapping[str, str], name: str) -> Loss:
    """
    Return the losses of a removal of a partition without its database. Nothing is changed.

    Raises:
        Invalid: the settings name no such partition.
        NotRemovable: the partition answers or is the control partition; another partition does not answer or is in a
        run; or slots move without the lost partition, or wait for jobs.
    """
    with ExitStack() as opened:
        databases = _open_remaining(opened, placement, addresses, name)
        return _plan_move(placement, databases, name) or _plan(placement, databases, name)


def remove_lost(placement: Placement, addresses: Mapping[str, str], name: str) -> Loss:
    """
    Remove a partition whose database is lost from all other databases. The operator changes the settings afterwards.

    While a move copies documents, only let the move continue without the partition, and return a loss that
    `ends_a_move`.

    Raises:
        Invalid, NotRemovable: as for the plan, or the exchange is still in use.
    """
    with ExitStack() as opened:
        databases = _open_remaining(opened, placement, addresses, name)
        moving = _plan_move(placement, databases, name)
        if moving is not None:
            continue_without_partition(databases[placement.here], placement, name)
            return moving
        planned = _plan(placement, databases, name)
        new = _map_without(databases[placement.here], placement, name)
        # The control partition comes last, because the others take their slots from its map.
        for partition in reversed(list(databases)):
            _take_over(databases[partition], replace(placement, here=partition), name, new)
        finish_removal(placement, databases, name)
    return planned


def _take_over(database: psycopg.Connection[Any], placement: Placement, name: str, new: SlotMap) -> None:
    """Let a partition adopt the new map, and repair its links to lost documents."""
    if read_map(database, placement.names).slots_of(name):
        with database.transaction():
            adopt_map(database, placement, new)
    placed = replace(placement, owners=new.owners)
    for chunk in _chunks(database, name):
        handed = [(key, job, owner) for key, job, host in chunk if (owner := placed.foreign(host)) is not None]
        hashes, jobs, targets = ([row[place] for row in handed] for place in range(3))
        database.execute(_HAND_OVER, {"hashes": hashes, "jobs": jobs, "targets": targets})
    with database.transaction():
        database.execute(_READ_AGAIN, {"name": name})
        database.execute(_FORGET_LINKS, {"name": name})


def _chunks(database: psycopg.Connection[Any], name: str) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yield the links to documents of the lost partition, as they were before the first repair."""
    with database.transaction(), database.cursor(name="lost_links", withhold=True) as cursor:
        cursor.execute(_LINKS, {"name": name})
        while chunk := cursor.fetchmany(_AT_ONCE):
            yield chunk


def _map_without(own: psycopg.Connection[Any], placement: Placement, name: str) -> SlotMap:
    present, move = read_map(own, placement.names), read_move(own)
    left = [one for one in placement.names if one != name]
    number = max(present.epoch, move.number if move else 0) + 1
    return change_owner(present, present.slots_of(name), left, number=number)


def _plan_move(placement: Placement, databases: Mapping[str, psycopg.Connection[Any]], name: str) -> Loss | None:
    """
    Return the loss in a move that copies documents; None if no slots move.

    Raises:
        NotRemovable: the move can be cancelled, or does not wait for this partition any more.
    """
    own = databases[placement.here]
    move = read_move(own)
    if move is None or not is_on(own):
        return None
    if move.phase == MovePhase.HOLDING:
        raise NotRemovable("Slots move now. Cancel the move: crawlctl partition cancel-move")
    if name in move.without:
        raise NotRemovable(f"Move {move.number} goes on without {name}. Wait for its end: crawlctl partition list")
    return replace(_loss_of(placement, databases, name, move), ends_a_move=True)


def _plan(placement: Placement, databases: Mapping[str, psycopg.Connection[Any]], name: str) -> Loss:
    for partition, database in databases.items():
        if (job := first_running_job(database)) is not None:
            raise NotRemovable(f"Job {job} is in a run in partition {partition}. Abort it: crawlctl job {job} abort")
    return _loss_of(placement, databases, name, None)


def _loss_of(
    placement: Placement, databases: Mapping[str, psycopg.Connection[Any]], name: str, move: Move | None
) -> Loss:
    own = databases[placement.here]
    before = read_map(own, placement.names) if move is None else move.to
    lost, gone = before.slots_of(name), {name, *(move.without if move is not None else ())}
    left = [one for one in placement.names if one not in gone]
    new = change_owner(before, lost, left, number=before.epoch + 1)
    row = own.execute(_LIFE, {"name": name}).fetchone()
    body, told_at = row if row is not None else ({}, None)
    links = 0
    for database in databases.values():
        ((amount,),) = database.execute(_COUNT_LINKS, {"name": name}).fetchall()
        links += amount
    given = {one: sum(new.owners[slot] == one for slot in lost) for one in databases}
    return Loss(name, len(lost), given, body.get("documents"), told_at, links)


def _open_remaining(
    opened: ExitStack, placement: Placement, addresses: Mapping[str, str], name: str
) -> dict[str, psycopg.Connection[Any]]:
    """Return connections to the databases of all other partitions, with the control partition first."""
    check_name(placement, name)
    try:
        with open_one(addresses, name) as answered:
            noted = noted_names(answered)
    except (NotRemovable, psycopg.Error):
        noted = None
    if noted is not None and noted["here"] == name:
        raise NotRemovable(f"Partition {name} answers, so it is not lost. Drain it, then remove it without --lost.")
    left = [one for one in placement.names if one != name]
    found = {one: opened.enter_context(open_one(addresses, one)) for one in left}
    for one, database in found.items():
        noted = noted_names(database)
        if noted is None or noted["here"] != one:
            raise NotRemovable(f"The address of {one} leads to a database of another partition.")
    return found
