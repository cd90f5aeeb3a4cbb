"""
Gates: ManifoldCF's prerequisite events. While a gate is closed, documents behind it are not handed out.

A closed gate is a row that one document of one worker inserted. If two workers try to close a gate, one succeeds. A
flush that lets a document wait locks that row, so the worker that opens the gate finds all documents behind it. A
document either starts to wait before the gate opens, or finds the gate open and is due immediately. Jobs without gates
have no cost.
"""

import uuid
from collections.abc import Collection, Mapping
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Stage
from jobs.queue.sql.order import AGAIN
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.wake import wake_lanes
from nodes.membership.fences import TermHeld, hold_node, hold_term

# Locks: the gate that it inserts.
_CLOSE: Final[LiteralString] = """
INSERT INTO jobs_gate (name, key, node_id, closed_at) VALUES (%(gate)s, %(key)s, %(node)s, clock_timestamp())
ON CONFLICT (name) DO NOTHING
"""
# Read after the gate is inserted, because the worker that opened the gate before may have stopped the job.
_HOLDS_FOR: Final[LiteralString] = f"""
SELECT 1 FROM jobs_gate AS gate, jobs_job AS job
 WHERE gate.name = %(gate)s AND gate.key = %(key)s
   AND job.id = %(job)s AND job.phase = 'active' AND {RUNNABLE}
"""
# Locks: the gate; waits for every flush that lets a document wait behind it.
_REMOVE: Final[LiteralString] = "DELETE FROM jobs_gate WHERE name = %(gate)s AND key = %(key)s"
_LANES: Final[LiteralString] = """
SELECT DISTINCT item.lane_id FROM jobs_gateddocument AS gated JOIN jobs_queueitem AS item USING (hash, job_id)
 WHERE gated.gate_id = %(gate)s
"""
# A waiting document stays as it is if it was made due by something else, or was removed. Locks: QueueItem by (hash,
# job).
_MAKE_DUE: Final[LiteralString] = f"""
WITH gated AS (
    DELETE FROM jobs_gateddocument WHERE gate_id = %(gate)s RETURNING hash, job_id
), held AS MATERIALIZED (
    SELECT item.hash, item.job_id
      FROM gated JOIN jobs_queueitem AS item USING (hash, job_id)
     WHERE item.stage = {Stage.PENDING:d} AND item.seq IS NULL AND item.check_time IS NULL
     ORDER BY item.hash, item.job_id
       FOR NO KEY UPDATE OF item
)
UPDATE jobs_queueitem AS item SET seq = {AGAIN} FROM held WHERE item.hash = held.hash AND item.job_id = held.job_id
"""
# Locks: Gate KEY SHARE, by name.
_KEEP_CLOSED: Final[LiteralString] = (
    "SELECT name FROM jobs_gate WHERE name = ANY(%(gates)s) ORDER BY name FOR KEY SHARE"
)
_WAIT: Final[LiteralString] = """
WITH waiting AS (
    UPDATE jobs_queueitem AS item SET seq = NULL
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(gates)s::text[]) AS waiting(hash, job_id, gate)
     WHERE item.hash = waiting.hash AND item.job_id = waiting.job_id
    RETURNING item.hash, item.job_id, waiting.gate
)
INSERT INTO jobs_gateddocument (hash, job_id, gate_id) SELECT hash, job_id, gate FROM waiting
ON CONFLICT (hash, job_id) DO UPDATE SET gate_id = excluded.gate_id
"""
GATES_OF_LOST_NODES: Final[LiteralString] = """
SELECT gate.name, gate.key FROM jobs_gate AS gate LEFT JOIN nodes_node AS node ON node.id = gate.node_id
 WHERE node.id IS NULL OR node.status IN ('failed', 'stopped')
"""


@retried
def close_gate(connection: psycopg.Connection[Any], *, gate: str, key: uuid.UUID, node: uuid.UUID, job: int) -> bool:
    """
    Close a gate for a document of the job; return False if it is closed already, or the job must not continue.

    A second call with the same key returns the same result.

    Raises:
        FenceRefused: the worker was marked failed.
    """
    with connection.transaction():
        hold_node(connection, node)
        facts = {"gate": gate, "key": key, "node": node, "job": job}
        connection.execute(_CLOSE, facts)
        is_mine = connection.execute(_HOLDS_FOR, facts).fetchone() is not None
        if not is_mine:
            # The job of this gate must not continue. An earlier call whose answer was lost may have inserted it.
            _open(connection, gate=gate, key=key)
        return is_mine


@retried
def open_gate(connection: psycopg.Connection[Any], *, gate: str, key: uuid.UUID) -> None:
    """Open a gate that was closed with this key, and make the documents behind it due; do nothing for another key."""
    with connection.transaction():
        _open(connection, gate=gate, key=key)


@retried
def open_gates_of_lost_nodes(connection: psycopg.Connection[Any], *, term: TermHeld) -> int:
    """Open the gates of failed and stopped nodes; return the number of opened gates."""
    with connection.transaction():
        hold_term(connection, term)
        lost = connection.execute(f"{GATES_OF_LOST_NODES} ORDER BY gate.name").fetchall()
        for gate, key in lost:
            _open(connection, gate=gate, key=key)
    return len(lost)


def _open(connection: psycopg.Connection[Any], *, gate: str, key: uuid.UUID) -> None:
    if connection.execute(_REMOVE, {"gate": gate, "key": key}).rowcount:
        # Lanes before documents: the lock order.
        wake_lanes(connection, [row[0] for row in connection.execute(_LANES, {"gate": gate})])
        connection.execute(_MAKE_DUE, {"gate": gate})


def keep_closed(cursor: psycopg.Cursor[Any], gates: Collection[str]) -> frozenset[str]:
    """Return the gates among these that are closed. They stay closed until the transaction ends."""
    return frozenset(row.name for row in cursor.execute(_KEEP_CLOSED, {"gates": sorted(gates)}))


def let_wait(cursor: psycopg.Cursor[Any], waiting: Mapping[tuple[str, int], str]) -> None:
    """Let these locked pending documents wait behind gates that the transaction keeps closed."""
    cursor.execute(
        _WAIT,
        {
            "hashes": [key for key, _ in waiting],
            "jobs": [job for _, job in waiting],
            "gates": list(waiting.values()),
        },
    )
