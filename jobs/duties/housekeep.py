"""
Housekeeping of the main manager: folds deltas into counters, deletes ended batches and old nodes, and links bins to
their addresses.
"""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg

from jobs.duties.context import Pass
from jobs.queue.counting import counters
from jobs.queue.pace import addresses
from jobs.queue.release import free_places
from jobs.queue.sql.low_water import raise_marks
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term

# Time for which an ended node can be looked up.
_REMEMBERED: Final = dt.timedelta(days=14)

# The oldest have the lowest ids.
# Locks: the batches that it deletes.
_FORGET_BATCHES = """
WITH old AS (
    SELECT id FROM jobs_batch
     WHERE id IN (SELECT id FROM jobs_batch ORDER BY id LIMIT 2000)
       AND state IN ('done', 'released') AND node_scope = %(scope)s AND created_at < %(now)s - interval '10 minutes'
     ORDER BY id FOR UPDATE SKIP LOCKED
), turns AS (
    DELETE FROM jobs_turn WHERE batch_id IN (SELECT id FROM old)
)
DELETE FROM jobs_batch WHERE id IN (SELECT id FROM old)
"""

OLD_NODES: Final[LiteralString] = "SELECT FROM nodes_node WHERE stopped_at < now() - interval '14 days'"
# The oldest have the lowest ids.
# Locks: the events that it deletes.
_FORGET_EVENTS: Final[LiteralString] = """
DELETE FROM nodes_nodeevent
 WHERE id IN (SELECT id FROM (SELECT id, at FROM nodes_nodeevent ORDER BY id LIMIT 2000) AS oldest WHERE at < %(before)s)
"""
# The terms of ended one-shot commands, except for scopes with a waiting job.
# Locks: MainTerm.
_FORGET_TERMS: Final[LiteralString] = """
DELETE FROM nodes_mainterm AS term
 WHERE term.scope NOT IN (%(cluster)s, %(scope)s) AND term.since < %(before)s
   AND NOT EXISTS (SELECT FROM nodes_node AS node WHERE node.scope = term.scope AND node.stopped_at IS NULL)
   AND NOT EXISTS (SELECT FROM jobs_job AS job WHERE job.node_scope = term.scope)
"""
# Locks: the requests that it deletes.
_FORGET_REQUESTS: Final[LiteralString] = (
    "DELETE FROM nodes_clusterrequest WHERE scope = %(scope)s AND ended_at < %(before)s"
)
OLD_ANSWERS: Final[LiteralString] = "SELECT FROM nodes_keptanswer WHERE made_at < now() - interval '1 day'"
# Locks: the answers that it deletes.
_FORGET_ANSWERS: Final[LiteralString] = """
DELETE FROM nodes_keptanswer
 WHERE id IN (SELECT id FROM nodes_keptanswer WHERE made_at < now() - interval '1 day' ORDER BY made_at LIMIT 2000)
"""
# Locks: Node, skipping what is locked.
_FORGET_NODES: Final[LiteralString] = """
DELETE FROM nodes_node
 WHERE id IN (SELECT node.id FROM nodes_node AS node
               WHERE node.stopped_at < %(before)s
                 AND NOT EXISTS (SELECT FROM nodes_nodeevent AS event WHERE event.node_id = node.id)
                 AND NOT EXISTS (SELECT FROM nodes_mainterm AS term WHERE term.main_id = node.id)
                 AND NOT EXISTS (SELECT FROM jobs_throttlegroup AS held WHERE held.owner_id = node.id)
               ORDER BY node.id LIMIT 500 FOR UPDATE SKIP LOCKED)
"""


def fold_counters(at: Pass) -> int:
    """Fold the counter deltas; return 0, since no other work waits for it."""
    counters.fold(at.connection, term=at.office)
    return 0


def place_bins(at: Pass) -> int:
    """Link the next bins to their addresses as policies require it; return how many were examined."""
    return addresses.place_some(at.connection, term=at.office)


def raise_low_water_marks(at: Pass) -> int:
    """Raise the low-water marks above finished work; return 0."""
    raise_marks(at.connection)
    return 0


def forget_old_batches(at: Pass) -> int:
    """Delete batches that ended some minutes ago; return how many."""
    with at.connection.transaction():
        hold_term(at.connection, at.office)
        return at.connection.execute(_FORGET_BATCHES, {"scope": at.scope, "now": at.now}).rowcount


def forget_old_nodes(at: Pass) -> int:
    """Delete nodes that ended long ago, with events, requests and terms, unless a group names them; return 0."""
    facts = {"before": at.now - _REMEMBERED, "cluster": CLUSTER_SCOPE, "scope": at.scope}
    with at.connection.transaction():
        hold_term(at.connection, at.office)
        for statement in (_FORGET_TERMS, _FORGET_EVENTS, _FORGET_REQUESTS, _FORGET_NODES):
            at.connection.execute(statement, facts)
    return 0


def forget_old_answers(at: Pass) -> int:
    """Delete answers that were kept for their Idempotency-Key for a day; return how many."""
    with at.connection.transaction():
        hold_term(at.connection, at.office)
        return at.connection.execute(_FORGET_ANSWERS).rowcount


def forget_scope(connection: psycopg.Connection[Any], *, scope: str) -> None:
    """
    Delete the groups and batches of a one-shot command once none of its documents is claimed.

    A worker that was killed after its last outcome had no time to close its turns: their places are freed. Its nodes
    and events stay, as history.
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
