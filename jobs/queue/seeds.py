"""
Seeds: the documents that start a run. They are written once for each run.

New documents become pending, and known documents come back into the run. A claimed document stays as it is.
"""

import datetime as dt
import uuid
from collections.abc import Sequence, Set
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Reference
from jobs.connectors.repository.kind import BinKind
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Scan
from jobs.queue.discover import COUNT_INSERTED, INSERT_OR_REVIVE, Again, New, discovered, open_lanes
from jobs.queue.flushing import hop_limits, hops
from jobs.queue.flushing.hops import HopGraph
from jobs.queue.offering.hold import GroupHeld
from jobs.queue.sql.columns import columns_of
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.wake import wake_lanes
from nodes.membership.fences import MAY_WRITE, FenceRefused
from nodes.membership.incarnation import remembered

# Locks: Node KEY SHARE, ThrottleGroup SHARE, Job SHARE; then the job's hop counts if it has limits, and QueueItem by
# hash.
_HOLD: Final[LiteralString] = f"""
WITH node AS MATERIALIZED (
    SELECT id FROM nodes_node WHERE id = %(manager)s AND {MAY_WRITE} FOR KEY SHARE
), held AS MATERIALIZED (
    SELECT id FROM jobs_throttlegroup
     WHERE id = %(group)s AND owner_id = (SELECT id FROM node) AND epoch = %(epoch)s AND state = 'owned'
       FOR SHARE
)
SELECT job.run_no, job.scan, job.hop_limits, job.hop_mode FROM jobs_job AS job
 WHERE job.id = %(job)s AND EXISTS (SELECT FROM held)
   AND (job.phase = 'starting_up' AND job.stop_request = 'none' OR job.phase = 'active' AND job.seeding AND {RUNNABLE})
   FOR SHARE
"""
_EXISTING: Final[LiteralString] = """
SELECT hash, job_id, lane_id, stage, run_no, depth, outcome, result_code FROM jobs_queueitem
 WHERE job_id = %(job)s AND hash = ANY(%(hashes)s::uuid[])
 ORDER BY hash
   FOR NO KEY UPDATE
"""
_WRITE: Final[LiteralString] = f"""
WITH {INSERT_OR_REVIVE}, counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT %(job)s, lane_id, run_no, 'stage', stage, outcome, code, amount
      FROM unnest(%(count_lanes)s::bigint[], %(count_runs)s::int[], %(count_stages)s::int[], %(count_outcomes)s::int[],
                  %(count_codes)s::text[], %(count_amounts)s::bigint[])
           AS moved(lane_id, run_no, stage, outcome, code, amount)
     UNION ALL {COUNT_INSERTED}
)
SELECT hash FROM inserted
"""
_NOT_DONE: Final = frozenset({Stage.PENDING, Stage.ACTIVE})
_COUNT_COLUMNS: Final = ("count_lanes", "count_runs", "count_stages", "count_outcomes", "count_codes", "count_amounts")


@retried
def discover_seeds(
    connection: psycopg.Connection[Any],
    *,
    manager: uuid.UUID,
    group: GroupHeld,
    job_id: int,
    seed_id: int,
    urls: Sequence[str],
    bins: BinKind,
    references: list[Reference],
    version: str = "",
    again: bool = False,
    tracks_depth: bool = False,
    now: dt.datetime,
) -> int:
    """
    Insert the documents of a seed into the run of its job; return the number of documents.

    With `again`, documents that the run has already done are read once more. If the job `tracks_depth`, so are
    documents that the run found farther away from its seeds. Such documents are read without conditions, because their
    links may not have been followed at the greater depth.

    `urls` are the addresses of the seed when its source was read: a seed that changed since then is read again.
    `version` is the source's name for this seeding.

    Raises:
        FenceRefused: the manager lost its node or its group, or the job no longer starts or reseeds.
    """
    named = {reference.hash: reference for reference in references}
    lanes = open_lanes(connection, bins=bins, wanted=[(seed_id, reference.bin) for reference in named.values()])
    lane_of = {key: lanes[seed_id, reference.bin] for key, reference in named.items()}
    with connection.transaction(), named_rows(connection) as cursor:
        held = cursor.execute(
            _HOLD,
            {
                "manager": manager,
                "group": group.id,
                "epoch": group.epoch,
                "job": job_id,
                **remembered(manager),
            },
        ).fetchone()
        if held is None:
            raise FenceRefused("group", group=group.id, epoch=group.epoch, job=job_id, node=manager)
        run = held.run_no
        rules = hops.rules_of(hop_limits=held.hop_limits, hop_mode=held.hop_mode)
        if rules is not None:
            hops.hold(cursor, [job_id])
        # Lanes before documents: the lock order.
        wake_lanes(cursor, lane_of.values(), now=now)
        known_lanes: set[int] = set()
        left = set(named)
        while left:
            rows = cursor.execute(_EXISTING, {"job": job_id, "hashes": sorted(left)}).fetchall()
            known_lanes.update(row.lane_id for row in rows)
            known = {row.hash.hex: row for row in rows}
            new = [
                New(key, job_id, lane_of[key], named[key].identifier, run, 0, 0, Stage.PENDING, key)
                for key in left - set(known)
            ]
            nearer = {row.hash for row in rows if tracks_depth and row.depth > 0}
            due = [row for row in rows if _is_wanted_again(row, run_no=run, again=again or row.hash in nearer)]
            waiting = [row for row in rows if row.hash in nearer and row.run_no == run and row.stage in _NOT_DONE]
            facts = _parameters(new, due, waiting, nearer=nearer, run_no=run)
            inserted = cursor.execute(_WRITE, {"job": job_id, **facts}).fetchall()
            # Another transaction inserted the remaining documents meanwhile, perhaps with an older run. Its rows are
            # visible now.
            left = {document.hash for document in new} - {row.hash.hex for row in inserted}
        # A known document may be in another seed's lane.
        wake_lanes(cursor, known_lanes, now=now)
        cursor.execute(
            "UPDATE jobs_seed SET seeded_run = %s, seeding_version = %s WHERE id = %s AND urls = %s",
            (run, version, seed_id, list(urls)),
        )
        if rules is not None:
            woken = hop_limits.add_seeds_of_run(
                HopGraph(cursor, job_id, rules), named, run_no=run, is_full_scan=held.scan == Scan.FULL
            )
            wake_lanes(cursor, woken, now=now)
    return len(named)


def _is_wanted_again(row: Any, *, run_no: int, again: bool) -> bool:
    if row.run_no < run_no:
        return row.stage in {Stage.PENDING, Stage.DONE, Stage.HOPCOUNT_REMOVED}
    return again and row.stage == Stage.DONE


def _parameters(
    new: Sequence[New], due: Sequence[Any], waiting: Sequence[Any], *, nearer: Set[uuid.UUID], run_no: int
) -> dict[str, list[Any]]:
    """
    Return the parameters of `_WRITE` for new documents, for known documents that come back into the run, and for
    documents that the run has not done yet. `nearer` documents were farther away from the seeds until now.
    """
    revived = [_seed_of(row, stage=row.stage, run_no=run_no, rescan=row.stage == Stage.ACTIVE) for row in waiting]
    moved: list[tuple[int, int, int, int, str, int]] = []
    for row in due:
        is_nearer = row.hash in nearer
        revived.append(_seed_of(row, stage=Stage.PENDING, run_no=run_no, revived=True, unconditional=is_nearer))
        old = (row.outcome, row.result_code) if row.stage == Stage.DONE else (0, "")
        moved.append((row.lane_id, row.run_no, row.stage, *old, -1))
        moved.append((row.lane_id, run_no, Stage.PENDING, 0, "", 1))
    return discovered(new, revived) | columns_of(moved, _COUNT_COLUMNS)


def _seed_of(
    row: Any, *, stage: int, run_no: int, rescan: bool = False, revived: bool = False, unconditional: bool = False
) -> Again:
    """Return the new values of a known document that is a seed."""
    return Again(
        hash=row.hash.hex,
        job_id=row.job_id,
        stage=int(stage),
        run_no=run_no,
        depth=0,
        redirects=0,
        rescan=rescan,
        revived=revived,
        unconditional=unconditional,
        forgets=revived,
    )
