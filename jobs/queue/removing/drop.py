"""
Dropping: unreached and expired documents, and those of deleted jobs, leave the outputs and the queue.

Both happen in one transaction: a document that is in an output always has a row in the queue.

Two kinds of claimed documents keep their row. A document outside the hop limits of its job leaves the outputs and
stays as HOPCOUNT_REMOVED (`Action.LEAVE`). A document that was requested again since its claim (`rescan`) stays in
its outputs and becomes due.
"""

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, Protocol

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.queue.flushing import carrying, hop_limits
from jobs.queue.flushing.history import WRITE_HISTORY, Departure, History, departures_by_lane
from jobs.queue.flushing.outcomes import JobFacts
from jobs.queue.sql.order import FRESH
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.take import Claimed
from nodes.membership.fences import hold_node


@dataclass(frozen=True, slots=True)
class Dropped:
    """
    The result of one drop: `dropped` rows were deleted, `kept` rows stay, `refused` claims were lost.

    `removed` documents left an output. The caller wakes `lanes` after the commit: they got due documents.
    """

    dropped: int = 0
    kept: int = 0
    refused: int = 0
    removed: int = 0
    lanes: frozenset[int] = frozenset()


class OutputRemover(Protocol):
    """Interface for the outputs: removes documents from them in the transaction that drops their rows."""

    def remove(
        self,
        cursor: psycopg.Cursor[Any],
        *,
        claims: Sequence[Claimed],
        jobs: Mapping[int, JobFacts],
        now: dt.datetime,
    ) -> Sequence[Departure]:
        """Remove the documents of `claims`; return the documents that left an output."""
        ...


# Locks: QueueItem by (hash, job).
_LOCK: Final[LiteralString] = """
SELECT item.hash, item.job_id, item.lane_id, item.batch_id, item.stage, item.action, item.rescan
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS wanted(hash, job_id)
  JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.job_id = wanted.job_id
 ORDER BY item.hash, item.job_id
   FOR NO KEY UPDATE OF item
"""

# A row is counted out of its own run; a departure from an output is an event of the job's run.
# Locks: none more than the rows that are held, and their links.
_DROP: Final[LiteralString] = f"""
WITH dropped AS (
    DELETE FROM jobs_queueitem AS item
     USING unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS gone(hash, job_id)
     WHERE item.hash = gone.hash AND item.job_id = gone.job_id
    RETURNING item.job_id, item.lane_id, item.run_no, item.stage
), unlinked AS (
    DELETE FROM jobs_outlinks AS link
     USING unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS gone(hash, job_id)
     WHERE link.hash = gone.hash AND link.job_id = gone.job_id
), past AS ({WRITE_HISTORY})
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, lane_id, run_no, 'stage', stage, 0, '', -count(*) FROM dropped GROUP BY job_id, lane_id, run_no, stage
 UNION ALL
SELECT job_id, lane_id, run_no, 'deleted', 0, 0, '', amount
  FROM unnest(%(removed_jobs)s::bigint[], %(removed_lanes)s::bigint[], %(removed_runs)s::int[],
              %(removed_amounts)s::bigint[]) AS removed(job_id, lane_id, run_no, amount)
"""

# Locks: none more, the rows are held.
_KEEP: Final[LiteralString] = f"""
WITH kept AS (
    UPDATE jobs_queueitem AS item
       SET stage = given.stage, batch_id = NULL, rescan = false, action = {Action.PROCESS:d}, check_time = NULL,
           seq = CASE WHEN given.stage = {Stage.PENDING:d} THEN {FRESH} END,
           indexed_before = item.indexed_before AND given.stage = {Stage.PENDING:d},
           version = CASE WHEN given.stage = {Stage.PENDING:d} THEN item.version ELSE '' END
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(stages)s::int[], %(claimed)s::int[])
           AS given(hash, job_id, stage, claimed)
     WHERE item.hash = given.hash AND item.job_id = given.job_id
    RETURNING item.job_id, item.lane_id, item.run_no, item.stage, given.claimed
)
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, lane_id, run_no, 'stage', moved.stage, 0, '', sum(moved.amount)
  FROM kept, LATERAL (VALUES (kept.stage, 1), (kept.claimed::smallint, -1)) AS moved(stage, amount)
 GROUP BY job_id, lane_id, run_no, moved.stage
"""


@retried
def drop(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID,
    claims: Sequence[Claimed],
    jobs: Mapping[int, JobFacts],
    outputs: OutputRemover,
    keeps_history: bool = True,
    now: dt.datetime,
) -> Dropped:
    """
    Remove claimed documents from the outputs and drop their rows, in one transaction.

    `claims` come from clean-up, delete and expire batches; `jobs` has the facts of each of their jobs.

    Raises:
        FenceRefused: the worker was marked failed: nothing was changed.
        OutputError: an output refused the removal: nothing was changed.
    """
    if not claims:
        return Dropped()
    with connection.transaction(), named_rows(connection, binary=True) as cursor:
        hold_node(connection, worker)
        limits_hops = hop_limits.hold(cursor, jobs.values())
        children = carrying.silence(claims, jobs=jobs).children(cursor)
        keys = sorted({(claim.document.hash, claim.job_id) for claim in claims} | children)
        rows: list[Any] = cursor.execute(
            _LOCK, {"hashes": [key for key, _ in keys], "jobs": [job for _, job in keys]}
        ).fetchall()
        held = {
            (row.hash.hex, row.job_id, row.batch_id): row
            for row in rows
            if row.stage in {Stage.BEING_CLEANED, Stage.BEING_DELETED} or row.action == Action.EXPIRE
        }
        counted = [
            (claim, held[key])
            for claim in claims
            if (key := (claim.document.hash, claim.job_id, claim.batch_id)) in held
        ]
        kept = [(row, stage) for _, row in counted if (stage := _stage_after(row)) is not None]
        gone = [row for _, row in counted if _stage_after(row) is None]
        leaving = [claim for claim, row in counted if not row.rescan]
        departures = outputs.remove(cursor, claims=leaving, jobs=jobs, now=now)
        removed = departures_by_lane(departures)
        history = History(now=now, is_kept=keeps_history)
        history.record_departures(departures, jobs=jobs)
        silenced = carrying.silence(leaving, jobs=jobs)
        changed = silenced.write(cursor, children)
        if limits_hops and gone:
            hop_limits.drop(cursor, gone, jobs=jobs)
        if kept:
            cursor.execute(
                _KEEP,
                {
                    "hashes": [row.hash for row, _ in kept],
                    "jobs": [row.job_id for row, _ in kept],
                    "stages": [int(stage) for _, stage in kept],
                    "claimed": [row.stage for row, _ in kept],
                },
            )
        cursor.execute(
            _DROP,
            {
                "hashes": [row.hash for row in gone],
                "jobs": [row.job_id for row in gone],
                "removed_jobs": [job for job, _ in removed],
                "removed_lanes": [lane for _, lane in removed],
                "removed_runs": [jobs[job].run_no for job, _ in removed],
                "removed_amounts": list(removed.values()),
                **history.parameters(),
            },
        )
        # If a lane had several batches of one removal, a later pass finds the documents that wait for it.
        lanes = {row.lane_id for row, _ in kept}
        being_deleted = {row.job_id for row in gone if row.stage == Stage.BEING_DELETED}
        lanes.update(silenced.requeue(cursor, {key for key in changed if key[1] not in being_deleted}))
    return Dropped(
        dropped=len(gone),
        kept=len(kept),
        refused=len(claims) - len(counted),
        removed=sum(removed.values()),
        lanes=frozenset(lanes),
    )


def _stage_after(row: Any) -> Stage | None:
    """Return the stage of a claimed document after its removal; None if its row is deleted."""
    if row.rescan:
        return Stage.PENDING
    return Stage.HOPCOUNT_REMOVED if row.action == Action.LEAVE else None
