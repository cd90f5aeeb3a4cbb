"""
Stuffing of clean-up: what a finished run no longer reaches, what has come to stand outside the hop limits of
its job, and what a deleted job held.

It has no pace, since nothing is asked of a source, but it locks the bins like any stuffing: a document that
another job holds claimed is left alone.
"""

import datetime as dt
import uuid
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Phase
from jobs.models import Batch
from jobs.queue.hold import DRAW_IDS, OFFER, GroupHeld, Held, Stuffed, hold
from jobs.queue.retrying import retried
from jobs.queue.rows import named_rows

# Documents of one clean-up batch of a lane.
_REMOVALS_A_BATCH: Final = 100
_EVERY_RUN: Final = 2**31 - 1

# Documents that a finished run did not reach, or all of a job that is being deleted.
# Locks: QueueItem, skipping what is locked.
_REMOVABLE: Final[LiteralString] = """
SELECT wanted.lane_id, item.hash, item.job_id, item.stage, item.run_no, item.outcome, item.result_code
  FROM unnest(%(lanes)s::bigint[], %(jobs)s::bigint[], %(before)s::int[]) AS wanted(lane_id, job_id, before)
 CROSS JOIN LATERAL (
       SELECT hash, job_id, stage, run_no, outcome, result_code FROM jobs_queueitem AS old
        WHERE lane_id = wanted.lane_id AND run_no < wanted.before AND stage IN (0, 2, 5)
          AND NOT EXISTS (SELECT FROM jobs_queueitem AS other
                           WHERE other.hash = old.hash AND other.job_id <> old.job_id AND other.stage IN (1, 3, 4))
        LIMIT %(most)s
          FOR NO KEY UPDATE SKIP LOCKED) AS item
"""

# Documents of this run that have come to stand outside their job's hop limits, and may be in an output.
# Locks: QueueItem, skipping what is locked.
_OUTSIDE: Final[LiteralString] = f"""
SELECT wanted.lane_id, item.hash, item.job_id, item.stage, item.run_no, item.outcome, item.result_code
  FROM unnest(%(lanes)s::bigint[], %(runs)s::int[]) AS wanted(lane_id, run_no)
 CROSS JOIN LATERAL (
       SELECT hash, job_id, stage, run_no, outcome, result_code FROM jobs_queueitem AS outside
        WHERE lane_id = wanted.lane_id AND run_no = wanted.run_no AND stage = {Stage.HOPCOUNT_REMOVED:d} AND indexed_before
          AND NOT EXISTS (SELECT FROM jobs_queueitem AS other
                           WHERE other.hash = outside.hash AND other.job_id <> outside.job_id AND other.stage IN (1, 3, 4))
        LIMIT %(most)s
          FOR NO KEY UPDATE SKIP LOCKED) AS item
"""

_CLAIM_REMOVALS: Final[LiteralString] = """
WITH counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', stage, CASE WHEN stage = 2 THEN outcome ELSE 0 END,
           CASE WHEN stage = 2 THEN code ELSE '' END, -1
      FROM unnest(%(count_jobs)s::bigint[], %(count_lanes)s::bigint[], %(runs)s::int[], %(stages)s::int[],
                  %(outcomes)s::int[], %(codes)s::text[]) AS gone(job_id, lane_id, run_no, stage, outcome, code)
    UNION ALL
    SELECT job_id, lane_id, run_no, 'stage', %(stage)s, 0, '', 1
      FROM unnest(%(count_jobs)s::bigint[], %(count_lanes)s::bigint[], %(runs)s::int[]) AS gone(job_id, lane_id, run_no)
), parked AS (
    UPDATE jobs_lane SET ready_at = NULL, served_at = %(now)s WHERE id = ANY(%(empty)s)
)
UPDATE jobs_queueitem AS item
   SET stage = %(stage)s, batch_id = taken.batch_id, seq = NULL, check_time = NULL, action = taken.action
  FROM unnest(%(hashes)s::uuid[], %(count_jobs)s::bigint[], %(batches)s::bigint[], %(actions)s::int[])
       AS taken(hash, job_id, batch_id, action)
 WHERE item.hash = taken.hash AND item.job_id = taken.job_id
"""


@retried
def stuff_removals(
    connection: psycopg.Connection[Any], *, manager: uuid.UUID, group: GroupHeld, room: int, now: dt.datetime
) -> Stuffed:
    """
    Offer what a finished run no longer reaches (clean) and what a deleted job held (delete).

    Raises:
        FenceRefused: the manager was marked failed, or the group is no longer its own.
    """
    offered = batches = 0
    for kind, phase, stage in (
        (Batch.Kind.CLEAN, Phase.SHUTTING_DOWN, Stage.BEING_CLEANED),
        (Batch.Kind.DELETE, Phase.DELETING, Stage.BEING_DELETED),
    ):
        with connection.transaction(), named_rows(connection) as cursor:
            held = hold(cursor, manager=manager, group=group, phases=[phase], now=now)
            if held.lanes:
                stuffed = _offer_removals(cursor, held, kind=kind, stage=stage, room=room, now=now)
                offered, batches = offered + stuffed.documents, batches + stuffed.batches
    return Stuffed(documents=offered, batches=batches)


def _offer_removals(
    cursor: psycopg.Cursor[Any], held: Held, *, kind: Batch.Kind, stage: Stage, room: int, now: dt.datetime
) -> Stuffed:
    lanes = held.lanes
    before = [held.jobs[lane.job_id].run_no if kind == Batch.Kind.CLEAN else _EVERY_RUN for lane in lanes]
    most = max(1, min(_REMOVALS_A_BATCH, room // len(lanes)))
    rows = cursor.execute(
        _REMOVABLE,
        {
            "lanes": [lane.id for lane in lanes],
            "jobs": [lane.job_id for lane in lanes],
            "before": before,
            "most": most,
        },
    ).fetchall()
    outside = _read_outside(cursor, held, most=most) if kind == Batch.Kind.CLEAN else []
    rows += outside
    chunks = [rows[i : i + _REMOVALS_A_BATCH] for i in range(0, len(rows), _REMOVALS_A_BATCH)]
    ids = [row.id for row in cursor.execute(DRAW_IDS, {"count": len(chunks)})]
    cursor.execute(
        OFFER,
        {
            "group": held.group.id,
            "scope": held.scope,
            "manager": held.manager,
            "kind": kind.value,
            "offer_ids": ids,
            "offer_workers": [None] * len(ids),
            "offer_documents": [len(chunk) for chunk in chunks],
            "now": now,
        },
    )
    given = {row.lane_id for row in rows}
    cursor.execute(
        _CLAIM_REMOVALS,
        {
            "count_jobs": [row.job_id for row in rows],
            "count_lanes": [row.lane_id for row in rows],
            "runs": [row.run_no for row in rows],
            "stages": [row.stage for row in rows],
            "outcomes": [row.outcome for row in rows],
            "codes": [row.result_code for row in rows],
            "hashes": [row.hash for row in rows],
            "batches": [batch for batch, chunk in zip(ids, chunks, strict=True) for _ in chunk],
            "actions": [int(Action.LEAVE if row in outside else Action.PROCESS) for row in rows],
            "stage": int(stage),
            "empty": [lane.id for lane in lanes if lane.id not in given],
            "now": now,
        },
    )
    return Stuffed(documents=len(rows), batches=len(ids))


def _read_outside(cursor: psycopg.Cursor[Any], held: Held, *, most: int) -> list[Any]:
    lanes = [lane for lane in held.lanes if held.jobs[lane.job_id].limits_hops]
    if not lanes:
        return []
    runs = [held.jobs[lane.job_id].run_no for lane in lanes]
    return cursor.execute(_OUTSIDE, {"lanes": [lane.id for lane in lanes], "runs": runs, "most": most}).fetchall()
