"""
Dropping: documents leave the outputs and the queue, because a run did not reach them, because they expired, or because
their job is deleted.

Both happen in one transaction, so that a document in an output always has a row in the queue.

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

from jobs.connectors.repository.base import Document
from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.endings import LAST_RESULT, NOTHING
from jobs.queue.flushing import carrying, hop_limits
from jobs.queue.flushing.history import WRITE_HISTORY, Departure, History, departures_by_lane
from jobs.queue.flushing.outcomes import JobFacts
from jobs.queue.sql.doubted_documents import MARK_RECORDS
from jobs.queue.sql.order import FRESH
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.stages import UNCLAIMED
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

# A deleted row is subtracted from the counts of its own run. A departure from an output counts as an event of the job's
# present run. Locks: the links of the rows that the caller holds.
_DROP: Final[LiteralString] = f"""
WITH dropped AS (
    DELETE FROM jobs_queueitem AS item
     USING unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(compared_runs)s::int[]) AS gone(hash, job_id, compared_run)
     WHERE item.hash = gone.hash AND item.job_id = gone.job_id
    RETURNING item.job_id, item.lane_id, item.run_no, item.stage, item.identifier, gone.compared_run,
              {LAST_RESULT} AS last_result,
              CASE WHEN item.stage = {Stage.DONE:d} THEN item.outcome ELSE 0 END AS outcome,
              CASE WHEN item.stage = {Stage.DONE:d} THEN item.result_code ELSE '' END AS code
), unlinked AS (
    DELETE FROM jobs_outlinks AS link
     USING unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS gone(hash, job_id)
     WHERE link.hash = gone.hash AND link.job_id = gone.job_id
), forgotten AS (
    DELETE FROM jobs_documentversion AS version
     USING unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS gone(hash, job_id)
     WHERE version.hash = gone.hash AND version.job_id = gone.job_id
), unrated AS (
    DELETE FROM jobs_changerate AS rate
     USING unnest(%(hashes)s::uuid[], %(lanes)s::bigint[]) AS gone(hash, lane_id)
     WHERE rate.hash = gone.hash AND rate.lane_id = gone.lane_id
), past AS ({WRITE_HISTORY})
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount, example)
SELECT job_id, lane_id, run_no, 'stage', stage, outcome, code, -count(*), '' FROM dropped
 GROUP BY job_id, lane_id, run_no, stage, outcome, code
 UNION ALL
SELECT job_id, lane_id, compared_run, 'differs', last_result, {NOTHING}, '', count(*), min(identifier) FROM dropped
 WHERE compared_run > 1 AND last_result <> {NOTHING}
 GROUP BY job_id, lane_id, compared_run, last_result
 UNION ALL
SELECT job_id, lane_id, run_no, 'deleted', 0, 0, '', amount, ''
  FROM unnest(%(removed_jobs)s::bigint[], %(removed_lanes)s::bigint[], %(removed_runs)s::int[],
              %(removed_amounts)s::bigint[]) AS removed(job_id, lane_id, run_no, amount)
"""

# Locks: none. The caller holds the rows.
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
        children = carrying.passing_nothing(claims, jobs=jobs).children(cursor)
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
        history = History(now=now, is_kept=keeps_history, worker=worker)
        history.record_departures(departures, jobs=jobs)
        withdrawn = carrying.passing_nothing(leaving, jobs=jobs)
        changed = withdrawn.write(cursor, children)
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
        _delete(cursor, gone, removed=removed, jobs=jobs, history=history)
        # Wake these lanes, so that a later pass finds the documents that wait for another batch of the same removal.
        lanes = {row.lane_id for row, _ in kept}
        being_deleted = {row.job_id for row in gone if row.stage == Stage.BEING_DELETED}
        lanes.update(withdrawn.requeue(cursor, {key for key in changed if key[1] not in being_deleted}))
    return Dropped(
        dropped=len(gone),
        kept=len(kept),
        refused=len(claims) - len(counted),
        removed=sum(removed.values()),
        lanes=frozenset(lanes),
    )


# Rows of the same document in other jobs are locked, too, so that no job can claim it before this transaction ends.
# Locks: Bin, then QueueItem by (hash, job).
_LOCK_BINS: Final[LiteralString] = """
SELECT FROM jobs_binstate
 WHERE bin_id IN (SELECT lane.bin_id FROM jobs_queueitem AS item JOIN jobs_lane AS lane ON lane.id = item.lane_id
                   WHERE item.hash = ANY(%(hashes)s::uuid[]) AND item.job_id = %(job)s)
 ORDER BY bin_id
   FOR NO KEY UPDATE
"""
_LOCK_UNCLAIMED: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT item.hash, item.job_id, item.lane_id, item.batch_id, item.stage, item.action, item.rescan, item.identifier,
           item.indexed_before
      FROM jobs_queueitem AS item
     WHERE item.hash = ANY(%(hashes)s::uuid[]) OR (item.job_id = %(job)s AND item.hash = ANY(%(children)s::uuid[]))
     ORDER BY item.hash, item.job_id
       FOR NO KEY UPDATE
)
SELECT locked.*, lane.seed_id FROM locked JOIN jobs_lane AS lane ON lane.id = locked.lane_id
 WHERE locked.job_id = %(job)s AND locked.hash = ANY(%(hashes)s::uuid[])
   AND locked.stage IN {UNCLAIMED}
   AND NOT EXISTS (SELECT FROM locked AS other WHERE other.hash = locked.hash AND other.batch_id IS NOT NULL)
 ORDER BY locked.hash
"""


def drop_unclaimed(
    cursor: psycopg.Cursor[Any],
    *,
    hashes: Sequence[uuid.UUID],
    job: JobFacts,
    carries: bool,
    outputs: OutputRemover | None,
    keeps_history: bool,
    now: dt.datetime,
) -> Dropped:
    """
    Remove documents that no batch has claimed from the outputs, and drop their rows, for an operator.

    The caller has the transaction and holds the job, so its run does not change. Without `outputs`, only documents that
    were never in an output are dropped. A document that is claimed in any job is kept.

    Raises:
        OutputError: an output refused the removal: the transaction must be rolled back.
    """
    jobs = {job.id: job}
    limits_hops = hop_limits.hold(cursor, jobs.values())
    cursor.execute(_LOCK_BINS, {"hashes": list(hashes), "job": job.id})
    passing = carrying.passing_nothing([_claim_of(hash_, job, carries=carries) for hash_ in hashes], jobs=jobs)
    children = passing.children(cursor)
    facts = {"hashes": list(hashes), "job": job.id, "children": [key for key, _ in children]}
    rows: list[Any] = cursor.execute(_LOCK_UNCLAIMED, facts).fetchall()
    gone = [row for row in rows if outputs is not None or not row.indexed_before]
    if not gone:
        return Dropped(kept=len(hashes))
    claims = [_claim_of(row.hash, job, carries=carries, row=row) for row in gone]
    departures = outputs.remove(cursor, claims=claims, jobs=jobs, now=now) if outputs is not None else ()
    removed = departures_by_lane(departures)
    history = History(now=now, is_kept=keeps_history)
    history.record_departures(departures, jobs=jobs)
    withdrawn = carrying.passing_nothing(claims, jobs=jobs)
    changed = withdrawn.write(cursor, children)
    if limits_hops:
        hop_limits.drop(cursor, gone, jobs=jobs)
    _delete(cursor, gone, removed=removed, jobs=jobs, history=history)
    lanes = withdrawn.requeue(cursor, set(changed))
    return Dropped(
        dropped=len(gone), kept=len(hashes) - len(gone), removed=sum(removed.values()), lanes=frozenset(lanes)
    )


# Locks: QueueItem by hash, then IndexedDocument by (output, hash). The caller holds the bins.
_DOUBT: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT hash, job_id FROM jobs_queueitem
     WHERE job_id = %(job)s AND hash = ANY(%(hashes)s::uuid[]) AND indexed_before AND batch_id IS NULL
     ORDER BY hash
       FOR NO KEY UPDATE
), doubted AS (
    UPDATE jobs_queueitem AS item SET version = ''
      FROM locked WHERE item.hash = locked.hash AND item.job_id = locked.job_id
    RETURNING item.hash, item.job_id
), {MARK_RECORDS}
"""


def doubt(connection: psycopg.Connection[Any], *, hashes: Sequence[uuid.UUID], job_id: int) -> None:
    """
    Record that outputs may lack these documents: before their removal (`drop_unclaimed`), in a separate transaction.

    If the documents stay, they are read unconditionally, and written again (`sql/doubted_documents.py`).
    """
    facts = {"hashes": list(hashes), "job": job_id}
    with connection.transaction():
        # Stuffing locks the bins first, too. So stuffing and this transaction never wait for each other at the same
        # time.
        connection.execute(_LOCK_BINS, facts)
        connection.execute(_DOUBT, facts)


def _claim_of(hash_: uuid.UUID, job: JobFacts, *, carries: bool, row: Any = None) -> Claimed:
    """Return a document in the form of a claim without a batch, which the outputs and the carried data need."""
    document = Document(
        hash=hash_.hex,
        identifier=row.identifier if row else "",
        depth=0,
        redirects=0,
        version="",
        validators="",
        failures=0,
        failing_for=0.0,
    )
    return Claimed(
        document=document,
        job_id=job.id,
        run_no=job.run_no,
        seed_id=row.seed_id if row else 0,
        lane_id=row.lane_id if row else 0,
        batch_id=0,
        specification_version=job.specification_version,
        carries=carries,
    )


def _delete(
    cursor: psycopg.Cursor[Any],
    gone: Sequence[Any],
    *,
    removed: Mapping[tuple[int, int], int],
    jobs: Mapping[int, JobFacts],
    history: History,
) -> None:
    """Delete locked rows with their links. Count the deleted rows, and the documents that left an output."""
    cursor.execute(
        _DROP,
        {
            "hashes": [row.hash for row in gone],
            "jobs": [row.job_id for row in gone],
            "lanes": [row.lane_id for row in gone],
            "compared_runs": [_compared_run(jobs[row.job_id]) for row in gone],
            "removed_jobs": [job for job, _ in removed],
            "removed_lanes": [lane for _, lane in removed],
            "removed_runs": [jobs[job].run_no for job, _ in removed],
            "removed_amounts": list(removed.values()),
            **history.parameters(),
        },
    )


def _compared_run(job: JobFacts) -> int:
    """Return the run whose documents are compared with the run before; 0 if no run of the job ends."""
    return job.run_no if job.intervals is None else 0


def _stage_after(row: Any) -> Stage | None:
    """Return the stage of a claimed document after its removal; None if its row is deleted."""
    if row.rescan:
        return Stage.PENDING
    return Stage.HOPCOUNT_REMOVED if row.action == Action.LEAVE else None
