"""
Releasing: documents return to the queue without an outcome.

A document keeps its number and comes first in its lane, since it already has its place in the run. The content of its
outputs is uncertain in two cases: its worker was lost after the batch was sent, or an output refused its flush or
removal, and a log among the outputs may have its line already. Such a document counts as possibly indexed, and is read
unconditionally. After a refusal or a lost removal it is also written again (`sql/doubted_documents.py`).
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.queue.rounds import make_round
from jobs.queue.sql.doubted_documents import MARK_RETURNED
from jobs.queue.sql.low_water import LOWEST_BATCH, LOWEST_TURN
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.returning import GIVE_BACK, LOSE
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.sql.states import lock_newest_states, write_states
from jobs.queue.take import Claimed
from jobs.queue.wake import postpone_lanes, wake_lanes
from jobs.throttling.pace import BYTES_WINDOW
from nodes.membership.fences import TermHeld, hold_node, hold_term

# Time for which a batch is reserved for a worker that has no room for it. This is longer than the planned work of a
# turn, so the worker should have room by then.
_KEPT_FOR: Final = "15 seconds"
# Number of batches in one transaction. If the main manager dies, each batch is either released or left to the next main
# manager.
_BATCHES_A_CHUNK: Final = 20

OFFERED_OF_STOPPED_JOBS: Final[LiteralString] = f"""
SELECT batch.id FROM jobs_batch AS batch
 WHERE batch.node_scope = %(scope)s AND batch.state = 'available' AND batch.id >= {LOWEST_BATCH} AND EXISTS (
       SELECT FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id
        WHERE item.batch_id = batch.id
          AND (NOT {RUNNABLE} OR job.phase NOT IN ('active', 'shutting_down', 'deleting')))
"""

# Locks: QueueItem by (hash, job).
_LOCK_CLAIMED: Final[LiteralString] = """
SELECT item.hash, item.job_id, item.lane_id, item.run_no, item.stage, item.action
  FROM jobs_queueitem AS item
 WHERE item.batch_id = ANY(%(batches)s) AND (%(all)s OR item.hash = ANY(%(hashes)s::uuid[]))
 ORDER BY item.hash, item.job_id
   FOR NO KEY UPDATE
"""
# Locks: Bin by id: the bins of the batches' open turns and their parents.
_LOCK_BINS: Final[LiteralString] = lock_newest_states(
    of="bin",
    numbers="""
        SELECT bin_id FROM jobs_turn WHERE batch_id = ANY(%(batches)s) AND closed_at IS NULL
         UNION
        SELECT key::bigint FROM jobs_turn, jsonb_object_keys(parents) AS key
         WHERE batch_id = ANY(%(batches)s) AND closed_at IS NULL""",
)
# The bytes that a lost worker has just read are unknown, so the bin waits for a whole window of the bytes limit.
_FREED: Final[LiteralString] = f"""
       open_turns = state.open_turns - held.turns, open_requests = state.open_requests - held.requests,
       closed_at = clock_timestamp(),
       last_start_at = CASE WHEN %(used)s THEN greatest(state.last_start_at, clock_timestamp()) ELSE state.last_start_at END,
       not_before = CASE WHEN %(used)s THEN greatest(state.not_before, clock_timestamp() + make_interval(secs => {BYTES_WINDOW}))
                         ELSE state.not_before END,
       paid_rate = CASE WHEN %(used)s THEN NULL ELSE state.paid_rate END"""
# Locks: Bin by id (of the turns that close, and of their parents), then Turn.
_CLOSE_TURNS: Final[LiteralString] = f"""
WITH bins AS MATERIALIZED ({_LOCK_BINS}
), closed AS (
    -- Checked again under the bin's lock: of two processes that close a turn, one counts it out.
    UPDATE jobs_turn SET closed_at = clock_timestamp()
     WHERE batch_id = ANY(%(batches)s) AND closed_at IS NULL AND bin_id IN (SELECT id FROM bins)
    RETURNING bin_id, requests, parents
), freed AS (
    SELECT bins.id, version, count(*) AS turns, sum(requests) AS requests
      FROM (SELECT bin_id, requests FROM closed
             UNION ALL
            SELECT above.id::bigint, requests FROM closed CROSS JOIN LATERAL jsonb_object_keys(closed.parents) AS above(id)) AS used(bin_id, requests)
      JOIN bins ON bins.id = used.bin_id
     GROUP BY bins.id, version
)
{write_states(_FREED, of="bin", held="freed")}
"""
# Batches that were sent to lost workers, and batches that are done except for a turn. A batch ends with its last
# outcome, and its turns end a moment later. A worker may die in between. Open turns are few, and indexed.
HELD_BY_LOST_WORKERS: Final[LiteralString] = f"""
WITH held AS (
    SELECT id, worker_id FROM jobs_batch WHERE node_scope = %(scope)s AND state = 'sent' AND id >= {LOWEST_BATCH}
     UNION
    SELECT batch.id, batch.worker_id FROM jobs_turn AS turn JOIN jobs_batch AS batch ON batch.id = turn.batch_id
     WHERE turn.closed_at IS NULL AND turn.id >= {LOWEST_TURN} AND batch.node_scope = %(scope)s AND batch.state = 'done'
)
SELECT held.id FROM held LEFT JOIN nodes_node AS node ON node.id = held.worker_id
 WHERE node.id IS NULL OR node.status IN ('failed', 'stopped')
 ORDER BY held.id
"""
# Batches that only one worker or tag may take, and that will not be taken. Either the worker was lost or is of
# another scope, or no worker has the tag. Or the turns ahead of them have ended, so that their bins are idle, and the
# worker still has no room.
RESERVED_FOR_ABSENT: Final[LiteralString] = f"""
SELECT batch.id FROM jobs_batch AS batch LEFT JOIN nodes_node AS node ON node.id = batch.worker_id
 WHERE batch.node_scope = %(scope)s AND batch.state = 'available' AND batch.id >= {LOWEST_BATCH}
   AND (batch.worker_id IS NOT NULL OR batch.tag <> '' AND NOT EXISTS (
           SELECT FROM nodes_node AS tagged
            WHERE tagged.scope = batch.node_scope AND tagged.kind = 'worker' AND tagged.status = 'running'
              AND batch.tag = ANY(tagged.tags)))
   AND (node.status IS NULL OR node.status NOT IN ('starting', 'running') OR node.scope <> batch.node_scope
        OR batch.created_at < %(now)s::timestamptz - interval '{_KEPT_FOR}' AND NOT EXISTS (
           SELECT FROM jobs_turn AS turn JOIN jobs_turn AS ahead ON ahead.id = turn.follows_id AND ahead.closed_at IS NULL
            WHERE turn.batch_id = batch.id))
"""
# Successors of turns that never ended are released, too, because they cannot inherit the requests of these turns.
_SUCCESSORS: Final[LiteralString] = """
SELECT DISTINCT successor.batch_id
  FROM jobs_turn AS turn JOIN jobs_turn AS successor ON successor.follows_id = turn.id AND successor.closed_at IS NULL
  JOIN jobs_batch AS batch ON batch.id = successor.batch_id AND batch.state = 'available'
 WHERE turn.batch_id = ANY(%(batches)s)
"""
_SENT: Final[LiteralString] = (
    f"SELECT id FROM jobs_batch WHERE worker_id = %s AND state = 'sent' AND id >= {LOWEST_BATCH}"
)
_GROUPS: Final[LiteralString] = "SELECT DISTINCT group_id FROM jobs_batch WHERE id = ANY(%(batches)s)"


@retried
def give_back(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID,
    claims: Sequence[Claimed],
    is_uncertain: bool = False,
    now: dt.datetime,
) -> int:
    """
    Put documents that a worker has not begun back into the queue.

    Return the number of claims that still held. Set `is_uncertain` if an output refused a flush of these documents,
    because another output may already have some of them.

    Raises:
        FenceRefused: the worker was marked failed; the main manager returns its documents.
    """
    if not claims:
        return 0
    rows = _return_claims(connection, worker=worker, claims=claims, is_uncertain=is_uncertain)
    wake_lanes(connection, (row.lane_id for row in rows), now=now)
    return len(rows)


@retried
def postpone(
    connection: psycopg.Connection[Any], *, worker: uuid.UUID, claims: Sequence[Claimed], until: dt.datetime
) -> int:
    """
    Put documents whose removal an output refused back into the queue, with the next attempt at `until`. Return their
    number.

    Raises:
        FenceRefused: the worker was marked failed.
    """
    rows = _return_claims(connection, worker=worker, claims=claims, is_uncertain=True, until=until)
    postpone_lanes(connection, (row.lane_id for row in rows), until=until)
    return len(rows)


def _return_claims(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID,
    claims: Sequence[Claimed],
    is_uncertain: bool,
    until: dt.datetime | None = None,
) -> Sequence[Any]:
    """Restore the stage before the claim; return the rows whose claim still held."""
    batches = sorted({claim.batch_id for claim in claims})
    with connection.transaction(), named_rows(connection) as cursor:
        hold_node(connection, worker)
        hashes = [claim.document.hash for claim in claims]
        rows = cursor.execute(_LOCK_CLAIMED, {"batches": batches, "all": False, "hashes": hashes}).fetchall()
        _return(cursor, rows, GIVE_BACK, is_uncertain=is_uncertain, until=until)
    return rows


def batches_of(connection: psycopg.Connection[Any], *, worker: uuid.UUID) -> set[int]:
    """Return the batches that are stored as sent to this worker."""
    rows = connection.execute(_SENT, (worker,))
    return {row[0] for row in rows}


@retried
def give_back_batches(
    connection: psycopg.Connection[Any], *, worker: uuid.UUID, batches: Iterable[int], now: dt.datetime
) -> int:
    """
    Put whole batches that a worker has not begun back into the queue. Return the number of documents.

    A batch that has ended meanwhile is left alone: requests that its turns inherited may still be open.

    Raises:
        FenceRefused: the worker was marked failed.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        hold_node(connection, worker)
        rows = _release(cursor, batches=sorted(batches), state="sent")
    wake_lanes(connection, (row.lane_id for row in rows), now=now)
    return len(rows)


@retried
def withdraw(
    connection: psycopg.Connection[Any], *, batches: Sequence[int], now: dt.datetime, term: TermHeld | None = None
) -> int:
    """
    Withdraw batches that no worker has taken yet; return the number of documents that came back.

    Any process may do this, because a batch that was sent meanwhile is left alone. A main manager passes its `term`.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        if term is not None:
            hold_term(connection, term)
        rows = _release(cursor, batches=batches, state="available")
    wake_lanes(connection, (row.lane_id for row in rows), now=now)
    return len(rows)


def _release(cursor: psycopg.Cursor[Any], *, batches: Sequence[int], state: str) -> Sequence[Any]:
    """Release unbegun batches that are still in this state; return the documents that came back."""
    # The bins are locked before the batches, by the order of locks.
    cursor.execute(_LOCK_BINS, {"batches": list(batches)})
    ours = [
        row.id
        for row in cursor.execute(
            "UPDATE jobs_batch SET state = 'released' WHERE id = ANY(%s) AND state = %s RETURNING id",
            (list(batches), state),
        )
    ]
    cursor.execute(_CLOSE_TURNS, {"batches": ours, "used": False})
    rows = cursor.execute(_LOCK_CLAIMED, {"batches": ours, "all": True, "hashes": []}).fetchall()
    _return(cursor, rows, GIVE_BACK)
    return rows


def withdraw_of_stopped_jobs(connection: psycopg.Connection[Any], *, scope: str, now: dt.datetime) -> int:
    """
    Withdraw the unsent batches of a scope whose documents belong to jobs that must stop; return the number of
    documents.
    """
    batches = [row[0] for row in connection.execute(OFFERED_OF_STOPPED_JOBS, {"scope": scope})]
    return withdraw(connection, batches=batches, now=now) if batches else 0


def withdraw_reserved_for_absent(connection: psycopg.Connection[Any], *, scope: str, now: dt.datetime) -> int:
    """
    Withdraw unsent batches whose worker cannot take them, or did not take them in time; return the number of documents.
    """
    batches = [row[0] for row in connection.execute(RESERVED_FOR_ABSENT, {"scope": scope, "now": now})]
    return withdraw(connection, batches=batches, now=now) if batches else 0


def release_of_lost_workers(
    connection: psycopg.Connection[Any],
    *,
    scope: str,
    term: TermHeld,
    now: dt.datetime,
    enough: int | None = None,
) -> int:
    """
    Put the documents of failed and stopped workers of a scope back into the queue, in chunks.

    Return the number of documents. No further chunk begins once `enough` documents are back. Each chunk is a
    transaction: if the main manager dies between two chunks, the next main manager releases the remaining documents.
    """
    released = 0
    groups: set[int] = set()
    while enough is None or released < enough:
        batches = [
            row[0] for row in connection.execute(f"{HELD_BY_LOST_WORKERS} LIMIT {_BATCHES_A_CHUNK}", {"scope": scope})
        ]
        if not batches:
            break
        documents, of_groups = _lose(connection, batches=batches, term=term, now=now)
        released += documents
        groups |= of_groups
    if groups:
        # Wake the lanes, because a flush wakes its lanes only after its commit, and the worker may have died before
        # that.
        make_round(connection, groups=sorted(groups), now=now)
    return released


@retried
def _lose(
    connection: psycopg.Connection[Any], *, batches: list[int], term: TermHeld, now: dt.datetime
) -> tuple[int, set[int]]:
    """Put the documents of these batches back into the queue. Return the number of documents, and their groups."""
    with connection.transaction(), named_rows(connection) as cursor:
        hold_term(connection, term)
        # The bins come first. Their gap starts at this moment, because a request may have just left.
        cursor.execute(_CLOSE_TURNS, {"batches": batches, "used": True})
        successors = [row.batch_id for row in cursor.execute(_SUCCESSORS, {"batches": batches})]
        cursor.execute("UPDATE jobs_batch SET state = 'released' WHERE id = ANY(%s) AND state = 'sent'", (batches,))
        rows = cursor.execute(_LOCK_CLAIMED, {"batches": batches, "all": True, "hashes": []}).fetchall()
        _return(cursor, rows, LOSE, now=now)
        groups = {row.group_id for row in cursor.execute(_GROUPS, {"batches": batches})}
    wake_lanes(connection, (row.lane_id for row in rows), now=now)
    if successors:
        withdraw(connection, batches=successors, now=now)
    return len(rows), groups


def free_places(connection: psycopg.Connection[Any], *, scope: str) -> None:
    """
    Free the places of open turns in an ended scope, because no worker of this scope is left that could close the turns.
    """
    rows = connection.execute(
        """
        SELECT turn.batch_id FROM jobs_turn AS turn JOIN jobs_batch AS batch ON batch.id = turn.batch_id
         WHERE turn.closed_at IS NULL AND batch.node_scope = %s
        """,
        (scope,),
    )
    connection.execute(_CLOSE_TURNS, {"batches": [row[0] for row in rows], "used": True})


def _return(
    cursor: psycopg.Cursor[Any],
    rows: Sequence[Any],
    statement: LiteralString,
    *,
    is_uncertain: bool = False,
    until: dt.datetime | None = None,
    now: dt.datetime | None = None,
) -> None:
    doubted = [row for row in rows if is_uncertain or (statement is LOSE and _was_removed(row))]
    if doubted:
        columns = {"hashes": [row.hash for row in doubted], "jobs": [row.job_id for row in doubted]}
        cursor.execute(MARK_RETURNED, columns)
    for stage in sorted({row.stage for row in rows}):
        of_stage = [row for row in rows if row.stage == stage]
        cursor.execute(
            statement,
            {
                "hashes": [row.hash for row in of_stage],
                "jobs": [row.job_id for row in of_stage],
                "claimed": int(stage),
                "uncertain": is_uncertain,
                "until": until,
                "now": now,
            },
        )


def _was_removed(row: Any) -> bool:
    """Return True if the document was claimed for its removal."""
    return bool(row.stage != Stage.ACTIVE or row.action == Action.EXPIRE)
