"""
The main manager of a scope and its term: elections, resignations, and its writes to other nodes.

`nodes.decisions` decides from a snapshot, which may be out of date when the decision is applied. So each write here is
guarded by the facts of the snapshot: it takes its locks first, reads again, and changes nothing if the facts have
changed.
"""

from typing import Any
from uuid import UUID

import psycopg

from nodes.decisions.judge import REQUIRED_SILENCE, MarkFailed
from nodes.lifecycle import LIVE_STATUSES, NodeStatus, sources_of
from nodes.membership.fences import TermHeld, hold_node, hold_term
from nodes.membership.journal import record
from nodes.membership.rows import (
    VACATE,
    end_node,
    end_sessions,
    first_row,
    give_up_term,
    lock_node,
    lock_terms,
    move,
)

# A term and a final status must survive a crash of the server, even if the server need not keep every commit.
_BE_DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"

# Locks: the scope's MainTerm NO KEY UPDATE. It waits for every transaction that holds the term fence. If two candidates
# saw the same term, the second waits here, checks the term again and finds no row.
_LOCK_TERM_SEEN = """
SELECT main_id, resigned FROM nodes_mainterm WHERE scope = %(scope)s AND term = %(seen_term)s FOR NO KEY UPDATE
"""

# Locks: held already by the statement above.
_BEGIN_TERM = """
UPDATE nodes_mainterm SET main_id = %(node_id)s, term = term + 1, since = clock_timestamp(), resigned = false
 WHERE scope = %(scope)s
RETURNING term
"""


def elect(
    connection: psycopg.Connection[Any],
    *,
    node_id: UUID,
    scope: str,
    seen_term: int,
    replaces: MarkFailed | None = None,
) -> TermHeld | None:
    """
    Make the node main manager of the scope, with the next term. Return None if the facts have changed since the
    snapshot.

    A recorded main manager that has neither resigned nor ended must be named by `replaces`. It is marked failed in the
    same transaction, so that two main managers never pass their fences at the same time.

    Raises:
        FenceRefused: the node itself is no longer a member.
    """
    if replaces is not None:
        end_sessions(connection, verdict=replaces, scope=scope, term=seen_term)
    with connection.transaction():
        connection.execute(_BE_DURABLE)
        seen = first_row(connection, _LOCK_TERM_SEEN, {"scope": scope, "seen_term": seen_term})
        if seen is None:
            return None
        has_main = seen["main_id"] is not None and not seen["resigned"]
        if has_main and not _remove_main(connection, main_id=seen["main_id"], verdict=replaces):
            return None
        hold_node(connection, node_id)
        taken = first_row(connection, _BEGIN_TERM, {"scope": scope, "node_id": node_id})
        assert taken is not None
        record(
            connection,
            node_id=node_id,
            scope=scope,
            kind="elected",
            message=f"main manager of {scope} in term {taken['term']}",
            detail={"term": taken["term"], "after": None if seen["main_id"] is None else str(seen["main_id"])},
        )
    return TermHeld(scope=scope, term=taken["term"], main_id=node_id)


def resign(connection: psycopg.Connection[Any], *, term: TermHeld) -> bool:
    """
    Give up the leadership, so that the next main manager need not wait for a timeout. Return True if it was still held.
    """
    with connection.transaction():
        return give_up_term(connection, term=term)


def mark_failed(connection: psycopg.Connection[Any], *, verdict: MarkFailed, term: TermHeld) -> bool:
    """
    Mark a node failed permanently. Return False if it has already ended, or has beaten meanwhile.

    After the commit no write of the node passes its fence, and no write that passed it before is still running. The
    work of the node can be given to other nodes.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    end_sessions(connection, verdict=verdict, scope=term.scope, term=term.term)
    with connection.transaction():
        connection.execute(_BE_DURABLE)
        hold_term(connection, term)
        return _fail(connection, verdict=verdict)


def drain(connection: psycopg.Connection[Any], *, node_id: UUID, term: TermHeld, reason: str) -> bool:
    """
    Let a node finish what it has begun, take nothing new, and stop. Return True if it was running until now.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    with connection.transaction():
        hold_term(connection, term)
        return move(connection, node_id=node_id, cause="drain", target=NodeStatus.DRAINING, reason=reason)


def _remove_main(connection: psycopg.Connection[Any], *, main_id: UUID, verdict: MarkFailed | None) -> bool:
    """Mark the recorded main manager failed, if it has not ended. Return True if it no longer leads."""
    if verdict is not None and verdict.node_id == main_id and _fail(connection, verdict=verdict):
        return True
    node = lock_node(connection, node_id=main_id)
    return node is None or node.status not in LIVE_STATUSES


def _fail(connection: psycopg.Connection[Any], *, verdict: MarkFailed) -> bool:
    terms = lock_terms(connection, node_id=verdict.node_id)
    node = lock_node(connection, node_id=verdict.node_id)
    if node is None or node.status not in sources_of("mark_failed"):
        return False
    if node.silence <= REQUIRED_SILENCE[verdict.cause]:
        return False
    # If the main manager of the cluster fails the main manager of a one-shot scope, the term of that scope ends with
    # it. Otherwise the failed process could wake and write as main manager, because its scope has elected no other.
    for term in terms:
        connection.execute(VACATE, {"scope": term.scope})
    end_node(connection, node=node, status=NodeStatus.FAILED, reason=verdict.reason)
    return True
