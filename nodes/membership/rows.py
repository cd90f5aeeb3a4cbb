"""
Locks and writes of single rows of nodes and terms, for the functions of this package.

Lock order: MainTerm, Node. A node's status becomes final only under FOR UPDATE of its row, taken in a statement
*before* the UPDATE. The UPDATE alone takes FOR NO KEY UPDATE, which does not conflict with the KEY SHARE of the node
fence: a write of the failed node could still commit after it.
"""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import class_row, dict_row

from nodes.decisions.judge import REQUIRED_SILENCE, MarkFailed
from nodes.lifecycle import NodeStatus, sources_of
from nodes.membership.fences import TermHeld
from nodes.membership.journal import record

logger = logging.getLogger(__name__)

# Locks: the node's row NO KEY UPDATE. For transitions between live states, after which writes continue.
_MOVE = """
UPDATE nodes_node SET status = %(target)s, reason = %(reason)s
 WHERE id = %(node_id)s AND status = ANY(%(sources)s)
RETURNING scope, kind, name
"""

# Locks: the MainTerm rows that name the node as main manager, NO KEY UPDATE, ordered by scope.
_TERMS_OF = """
SELECT scope, term, main_id FROM nodes_mainterm
 WHERE main_id = %(node_id)s AND NOT resigned
 ORDER BY scope FOR NO KEY UPDATE
"""

# Locks: the scope's MainTerm NO KEY UPDATE. It waits for the main manager's own transactions.
_GIVE_UP_TERM = """
UPDATE nodes_mainterm SET resigned = true, since = clock_timestamp()
 WHERE scope = %(scope)s AND term = %(term)s AND main_id = %(main_id)s AND NOT resigned
RETURNING term
"""

# Locks: held already, by `_TERMS_OF`.
VACATE = "UPDATE nodes_mainterm SET main_id = NULL, since = clock_timestamp() WHERE scope = %(scope)s"

# Locks: the node's row UPDATE. It waits for every transaction that holds its fence.
_LOCK_NODE = """
SELECT id, kind, name, scope, status,
       extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 / timeout_seconds AS silence
  FROM nodes_node WHERE id = %(node_id)s FOR UPDATE
"""

# Locks: held already by the statement above.
_END_NODE = """
UPDATE nodes_node SET status = %(status)s, reason = %(reason)s, stopped_at = clock_timestamp() WHERE id = %(node_id)s
"""

# Locks: none. It checks the conditions of the write that follows, without locks: a main manager that was replaced, or
# that is mistaken about a silence, must not end the sessions of a healthy node.
_END_SESSIONS = """
SELECT pg_terminate_backend(session.pid)
  FROM pg_stat_activity AS session
 WHERE session.datname = current_database()
   AND starts_with(session.application_name, %(name)s)
   AND EXISTS (SELECT FROM nodes_mainterm WHERE scope = %(scope)s AND term = %(term)s)
   AND EXISTS (SELECT FROM nodes_node
                WHERE id = %(node_id)s AND status IN ('starting', 'running', 'draining')
                  AND extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 / timeout_seconds > %(required_silence)s)
"""


class LockedNode(NamedTuple):
    # Status and kind are the strings of the database, which compare equal to those of `nodes.lifecycle`. The silence is
    # in timeouts.
    id: UUID
    kind: str
    name: str
    scope: str
    status: str
    silence: float


def lock_terms(connection: psycopg.Connection[Any], *, node_id: UUID) -> list[TermHeld]:
    """Lock and return the terms in which the node is main manager: mostly none, seldom more than one."""
    with connection.cursor(row_factory=class_row(TermHeld)) as cursor:
        return cursor.execute(_TERMS_OF, {"node_id": node_id}).fetchall()


def give_up_term(connection: psycopg.Connection[Any], *, term: TermHeld) -> bool:
    facts = {"scope": term.scope, "term": term.term, "main_id": term.main_id}
    if first_row(connection, _GIVE_UP_TERM, facts) is None:
        return False
    record(
        connection,
        node_id=term.main_id,
        scope=term.scope,
        kind="resigned",
        message=f"the main manager of {term.scope} resigned in term {term.term}",
        detail={"term": term.term},
    )
    return True


def lock_node(connection: psycopg.Connection[Any], *, node_id: UUID) -> LockedNode | None:
    with connection.cursor(row_factory=class_row(LockedNode)) as cursor:
        return cursor.execute(_LOCK_NODE, {"node_id": node_id}).fetchone()


def end_node(connection: psycopg.Connection[Any], *, node: LockedNode, status: NodeStatus, reason: str) -> None:
    connection.execute(_END_NODE, {"node_id": node.id, "status": status.value, "reason": reason})
    kind = "marked_failed" if status == NodeStatus.FAILED else "stopped"
    record(
        connection,
        node_id=node.id,
        scope=node.scope,
        kind=kind,
        message=f"{node.kind} {node.name} is {status}: {reason}",
    )


def end_sessions(connection: psycopg.Connection[Any], *, verdict: MarkFailed, scope: str, term: int) -> None:
    """
    End the database sessions of a node before it is marked failed, as far as the database permits.

    A frozen process may have an open transaction that holds its fence. The mark would have to wait until the server
    ends that transaction.
    """
    try:
        connection.execute(
            _END_SESSIONS,
            {
                "name": str(verdict.node_id),
                "node_id": verdict.node_id,
                "required_silence": REQUIRED_SILENCE[verdict.cause],
                "scope": scope,
                "term": term,
            },
        )
    except psycopg.errors.InsufficientPrivilege as error:
        logger.info("this account may not end the database sessions of node %s: %s", verdict.node_id, error)


def first_row(
    connection: psycopg.Connection[Any], query: str, parameters: Mapping[str, object]
) -> dict[str, Any] | None:
    """Return the first row as a dict, whatever the connection's own row factory; None without a row."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, parameters).fetchone()


def move(
    connection: psycopg.Connection[Any], *, node_id: UUID, cause: str, target: NodeStatus, reason: str = ""
) -> bool:
    sources = [status.value for status in sources_of(cause)]
    with connection.transaction():
        node = first_row(
            connection, _MOVE, {"node_id": node_id, "sources": sources, "target": target.value, "reason": reason}
        )
        if node is None:
            return False
        message = f"{node['kind']} {node['name']} is {target}" + (f": {reason}" if reason else "")
        record(connection, node_id=node_id, scope=node["scope"], kind=target.value, message=message)
    return True
