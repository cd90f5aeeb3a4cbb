"""
Stuffing of removals: documents that a finished run did not reach, that left the hop limits of their job, or that
belong to a deleted job.

Removals have no pace, since they send no request to a source. As in all stuffing, the transaction locks the bins, and
leaves out documents that another job has claimed.
"""

import datetime as dt
import uuid
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Phase, Scan
from jobs.models import Batch
from jobs.queue.offering.hold import DRAW_IDS, OFFER, GroupHeld, Held, JobHeld, Stuffed, hold
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.stages import CLAIMED, PENDING_OR_DONE, UNCLAIMED
from jobs.queue.sql.states import write_states

# Largest numbers of documents: of one clean-up batch, and of all batches of a lane in one pass. The second limit
# matters if one lane has all documents of a job.
_REMOVALS_A_BATCH: Final = 100
_REMOVALS_A_LANE: Final = 1000
# Delay of the next scan of a lane whose documents are all locked.
_ASK_AGAIN: Final = dt.timedelta(milliseconds=250)
_EVERY_RUN: Final = 2**31 - 1
_NO_RUN: Final = 0

# Documents that a finished run did not reach, or all documents of a job that is being deleted.
# Locks: QueueItem, skipping locked rows.
_REMOVABLE: Final[LiteralString] = f"""
SELECT wanted.lane_id, item.hash, item.job_id, item.stage, item.run_no, item.outcome, item.result_code
  FROM unnest(%(lanes)s::bigint[], %(jobs)s::bigint[], %(before)s::int[]) AS wanted(lane_id, job_id, before)
 CROSS JOIN LATERAL (
       SELECT hash, job_id, stage, run_no, outcome, result_code FROM jobs_queueitem AS old
        WHERE lane_id = wanted.lane_id AND run_no < wanted.before AND stage IN {UNCLAIMED}
          AND NOT EXISTS (SELECT FROM jobs_queueitem AS other
                           WHERE other.hash = old.hash AND other.job_id <> old.job_id AND other.stage IN {CLAIMED})
        LIMIT %(most)s
          FOR NO KEY UPDATE SKIP LOCKED) AS item
"""

# Documents of this run that left their job's hop limits and may be in an output.
# Locks: QueueItem, skipping locked rows.
_OUTSIDE: Final[LiteralString] = f"""
SELECT wanted.lane_id, item.hash, item.job_id, item.stage, item.run_no, item.outcome, item.result_code
  FROM unnest(%(lanes)s::bigint[], %(runs)s::int[]) AS wanted(lane_id, run_no)
 CROSS JOIN LATERAL (
       SELECT hash, job_id, stage, run_no, outcome, result_code FROM jobs_queueitem AS outside
        WHERE lane_id = wanted.lane_id AND run_no = wanted.run_no AND stage = {Stage.HOPCOUNT_REMOVED:d} AND indexed_before
          AND NOT EXISTS (SELECT FROM jobs_queueitem AS other
                           WHERE other.hash = outside.hash AND other.job_id <> outside.job_id AND other.stage IN {CLAIMED})
        LIMIT %(most)s
          FOR NO KEY UPDATE SKIP LOCKED) AS item
"""

# Documents of continuous jobs that have expired.
# Locks: QueueItem, skipping locked rows.
_EXPIRED: Final[LiteralString] = f"""
SELECT wanted.lane_id, item.hash, item.job_id, item.stage, item.run_no, item.outcome, item.result_code
  FROM unnest(%(lanes)s::bigint[], %(jobs)s::bigint[], %(before)s::int[]) AS wanted(lane_id, job_id, before)
 CROSS JOIN LATERAL (
       SELECT hash, job_id, stage, run_no, outcome, result_code FROM jobs_queueitem AS old
        WHERE lane_id = wanted.lane_id AND check_time <= %(now)s AND stage IN {PENDING_OR_DONE} AND run_no <= wanted.before
          AND action = {Action.EXPIRE:d}
          AND NOT EXISTS (SELECT FROM jobs_queueitem AS other
                           WHERE other.hash = old.hash AND other.job_id <> old.job_id AND other.stage IN {CLAIMED})
        ORDER BY check_time
        LIMIT %(most)s
          FOR NO KEY UPDATE SKIP LOCKED) AS item
"""

_CLAIM_REMOVALS: Final[LiteralString] = f"""
WITH counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', stage, CASE WHEN stage = {Stage.DONE:d} THEN outcome ELSE 0 END,
           CASE WHEN stage = {Stage.DONE:d} THEN code ELSE '' END, -1
      FROM unnest(%(count_jobs)s::bigint[], %(count_lanes)s::bigint[], %(runs)s::int[], %(stages)s::int[],
                  %(outcomes)s::int[], %(codes)s::text[]) AS gone(job_id, lane_id, run_no, stage, outcome, code)
    UNION ALL
    SELECT job_id, lane_id, run_no, 'stage', %(stage)s, 0, '', 1
      FROM unnest(%(count_jobs)s::bigint[], %(count_lanes)s::bigint[], %(runs)s::int[]) AS gone(job_id, lane_id, run_no)
)
UPDATE jobs_queueitem AS item
   SET stage = %(stage)s, batch_id = taken.batch_id, seq = NULL, action = %(action)s,
       -- An expired document stays due if its claim is lost.
       check_time = CASE WHEN %(expires)s THEN item.check_time END
  FROM unnest(%(hashes)s::uuid[], %(count_jobs)s::bigint[], %(batches)s::bigint[]) AS taken(hash, job_id, batch_id)
 WHERE item.hash = taken.hash AND item.job_id = taken.job_id
"""
# Lanes that gave no documents sleep. If another job or a flush holds their documents, they are scanned again soon.
# Locks: none. An earlier statement holds the lanes.
_NEXT_READY: Final[LiteralString] = f"""
       served_at = %(now)s,
       ready_at = CASE WHEN EXISTS (SELECT FROM jobs_queueitem AS item
                                     WHERE item.lane_id = held.id AND item.run_no < held.before
                                       AND item.stage IN {UNCLAIMED})
                         OR (held.takes_out AND EXISTS (
                             SELECT FROM jobs_queueitem AS item
                              WHERE item.lane_id = held.id AND item.run_no = held.run_no
                                AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before))
                       THEN %(soon)s::timestamptz END"""
_PUT_TO_SLEEP: Final[LiteralString] = f"""
WITH empty AS (
    SELECT *
      FROM unnest(%(lanes)s::bigint[], %(versions)s::bigint[], %(before)s::int[], %(runs)s::int[], %(take_out)s::bool[])
           AS empty(id, version, before, run_no, takes_out)
)
{write_states(_NEXT_READY, of="lane", held="empty")}
"""


@retried
def stuff_removals(
    connection: psycopg.Connection[Any], *, manager: uuid.UUID, group: GroupHeld, room: int, now: dt.datetime
) -> Stuffed:
    """
    Offer the documents that a finished run did not reach (clean), and the documents of deleted jobs (delete).

    Raises:
        FenceRefused: the manager was marked failed, or the group is no longer its own.
    """
    offered = batches = 0
    for kind in (Batch.Kind.CLEAN, Batch.Kind.DELETE):
        stuffed = _stuff(connection, kind, manager=manager, group=group, room=room, now=now)
        offered, batches = offered + stuffed.documents, batches + stuffed.batches
    return Stuffed(documents=offered, batches=batches, open_batches=batches)


@retried
def stuff_expired(
    connection: psycopg.Connection[Any], *, manager: uuid.UUID, group: GroupHeld, room: int, now: dt.datetime
) -> Stuffed:
    """
    Offer the expired documents of continuous jobs, so that they leave outputs and queue.

    Raises:
        FenceRefused: the manager was marked failed, or the group is no longer its own.
    """
    return _stuff(connection, Batch.Kind.EXPIRE, manager=manager, group=group, room=room, now=now)


@retried
def stuff_outside(
    connection: psycopg.Connection[Any], *, manager: uuid.UUID, group: GroupHeld, room: int, now: dt.datetime
) -> Stuffed:
    """
    Offer documents that left the hop limits of continuous jobs, whose runs have no end with a clean-up.

    Raises:
        FenceRefused: the manager was marked failed, or the group is no longer its own.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        held = hold(cursor, manager=manager, group=group, phases=[Phase.ACTIVE], now=now)
        if not held.lanes:
            return Stuffed()
        rows = _read_outside(cursor, held, most=_most_of_a_lane(held, room=room))
        return _offer(
            cursor, held, rows, kind=Batch.Kind.CLEAN, stage=Stage.BEING_CLEANED, action=Action.LEAVE, now=now
        )


# The phase in which documents are offered for removal, and their stage while they are claimed.
_REMOVALS: Final = {
    Batch.Kind.CLEAN: (Phase.SHUTTING_DOWN, Stage.BEING_CLEANED),
    Batch.Kind.DELETE: (Phase.DELETING, Stage.BEING_DELETED),
    Batch.Kind.EXPIRE: (Phase.ACTIVE, Stage.ACTIVE),
}


def _stuff(
    connection: psycopg.Connection[Any],
    kind: Batch.Kind,
    *,
    manager: uuid.UUID,
    group: GroupHeld,
    room: int,
    now: dt.datetime,
) -> Stuffed:
    phase, stage = _REMOVALS[kind]
    with connection.transaction(), named_rows(connection) as cursor:
        held = hold(cursor, manager=manager, group=group, phases=[phase], now=now)
        if not held.lanes:
            return Stuffed()
        return _offer_removals(cursor, held, kind=kind, stage=stage, room=room, now=now)


def _before(kind: Batch.Kind, job: JobHeld) -> int:
    """
    Return a run number: documents of earlier runs are removed. Only a full scan removes documents that it did not
    reach.
    """
    match kind:
        case Batch.Kind.DELETE:
            return _EVERY_RUN
        case Batch.Kind.CLEAN:
            return job.run_no if job.scan == Scan.FULL else _NO_RUN
        case _:
            return job.run_no


def _offer_removals(
    cursor: psycopg.Cursor[Any], held: Held, *, kind: Batch.Kind, stage: Stage, room: int, now: dt.datetime
) -> Stuffed:
    lanes, jobs = held.lanes, held.jobs
    most = _most_of_a_lane(held, room=room)
    rows = cursor.execute(
        _EXPIRED if kind == Batch.Kind.EXPIRE else _REMOVABLE,
        {
            "lanes": [lane.id for lane in lanes],
            "jobs": [lane.job_id for lane in lanes],
            "before": [_before(kind, jobs[lane.job_id]) for lane in lanes],
            "most": most,
            "now": now,
        },
    ).fetchall()
    if kind == Batch.Kind.EXPIRE:
        return _offer(cursor, held, rows, kind=kind, stage=stage, action=Action.EXPIRE, now=now)
    outside = _read_outside(cursor, held, most=most) if kind == Batch.Kind.CLEAN else []
    given = {row.lane_id for row in (*rows, *outside)}
    stuffed = [
        _offer(cursor, held, rows, kind=kind, stage=stage, now=now),
        _offer(cursor, held, outside, kind=kind, stage=stage, action=Action.LEAVE, now=now),
    ]
    empty = [lane for lane in lanes if lane.id not in given]
    cursor.execute(
        _PUT_TO_SLEEP,
        {
            "lanes": [lane.id for lane in empty],
            "versions": [held.versions[lane.id] for lane in empty],
            "before": [_before(kind, jobs[lane.job_id]) for lane in empty],
            "runs": [jobs[lane.job_id].run_no for lane in empty],
            "take_out": [kind == Batch.Kind.CLEAN and jobs[lane.job_id].takes_out for lane in empty],
            "now": now,
            "soon": now + _ASK_AGAIN,
        },
    )
    batches = sum(one.batches for one in stuffed)
    return Stuffed(documents=sum(one.documents for one in stuffed), batches=batches, open_batches=batches)


def _most_of_a_lane(held: Held, *, room: int) -> int:
    return max(1, min(_REMOVALS_A_LANE, room // len(held.lanes)))


def _read_outside(cursor: psycopg.Cursor[Any], held: Held, *, most: int) -> list[Any]:
    lanes = [lane for lane in held.lanes if held.jobs[lane.job_id].takes_out]
    if not lanes:
        return []
    runs = [held.jobs[lane.job_id].run_no for lane in lanes]
    return cursor.execute(_OUTSIDE, {"lanes": [lane.id for lane in lanes], "runs": runs, "most": most}).fetchall()


def _offer(
    cursor: psycopg.Cursor[Any],
    held: Held,
    rows: list[Any],
    *,
    kind: Batch.Kind,
    stage: Stage,
    action: Action = Action.PROCESS,
    now: dt.datetime,
) -> Stuffed:
    """Claim these documents for removal, and offer them in batches of this kind."""
    if not rows:
        return Stuffed()
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
            "offer_preferred": [None] * len(ids),
            # A removal sends no request to a source, so it needs no tag.
            "offer_tags": [""] * len(ids),
            "offer_documents": [len(chunk) for chunk in chunks],
            "now": now,
        },
    )
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
            "action": int(action),
            "stage": int(stage),
            "expires": kind == Batch.Kind.EXPIRE,
        },
    )
    return Stuffed(documents=len(rows), batches=len(ids), open_batches=len(ids))
