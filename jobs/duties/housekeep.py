"""What the main keeps small: deltas become counters, and batches that are over go."""

from typing import Any

import psycopg

from jobs.duties.context import Pass
from jobs.queue import counters
from jobs.queue.release import free_places
from nodes.fences import hold_term

_FORGET_BATCHES = """
WITH old AS (
    SELECT id FROM jobs_batch
     WHERE state IN ('done', 'released') AND node_scope = %(scope)s AND created_at < %(now)s - interval '10 minutes'
     ORDER BY id LIMIT 2000 FOR UPDATE SKIP LOCKED
), turns AS (
    DELETE FROM jobs_turn WHERE batch_id IN (SELECT id FROM old)
)
DELETE FROM jobs_batch WHERE id IN (SELECT id FROM old)
"""


def fold_counters(at: Pass) -> int:
    """Fold what was counted; returns 0, since folding moves nothing that others wait for."""
    counters.fold(at.connection, term=at.office)
    return 0


def forget_old_batches(at: Pass) -> int:
    """Drop batches that have been over for a while; returns how many."""
    with at.connection.transaction():
        hold_term(at.connection, at.office)
        return at.connection.execute(_FORGET_BATCHES, {"scope": at.scope, "now": at.now}).rowcount


def forget_scope(connection: psycopg.Connection[Any], *, scope: str) -> None:
    """
    Drop what a one-shot leaves behind once nothing of it is claimed any more: its groups and batches.

    A worker that was killed after its last outcome had no time to close its turns: their places are freed.
    Its nodes and events stay, as history.
    """
    with connection.transaction():
        connection.execute(
            "UPDATE jobs_seed SET group_id = NULL WHERE group_id IN (SELECT id FROM jobs_throttlegroup WHERE node_scope = %s)",
            (scope,),
        )
        free_places(connection, scope=scope)
        connection.execute(
            "DELETE FROM jobs_turn WHERE batch_id IN (SELECT id FROM jobs_batch WHERE node_scope = %s)", (scope,)
        )
        connection.execute("DELETE FROM jobs_batch WHERE node_scope = %s", (scope,))
        connection.execute("DELETE FROM jobs_throttlegroup WHERE node_scope = %s", (scope,))
