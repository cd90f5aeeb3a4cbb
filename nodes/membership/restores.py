"""
The first registration after a restore of the database.

A restored database has the nodes, the terms and the numbers of the time of its backup. Processes that ran before the
restore are refused, because the incarnation has changed. But numbers would be used a second time, also in places that
do not know the incarnation: files, stores, other databases, clients of the API. So the transaction of the first
registration marks all live nodes as failed, and raises all numbers above the ones of the lost changes.

Lock order: MainTerm, DatabaseIncarnation, Node, then what the statements of other packages lock.
"""

import logging
from typing import Any, Final, LiteralString

import psycopg
from psycopg.rows import dict_row

from nodes.lifecycle import CLUSTER_SCOPE, NodeStatus
from nodes.membership.rows import end_node, lock_node

logger = logging.getLogger(__name__)

_IS_KNOWN: Final[LiteralString] = """
SELECT coalesce((SELECT incarnation = nodes_incarnation() FROM nodes_databaseincarnation), false) AS is_known
"""
# Locks: all MainTerm NO KEY UPDATE, ordered by scope.
_LOCK_TERMS: Final[LiteralString] = "SELECT 1 FROM nodes_mainterm ORDER BY scope FOR NO KEY UPDATE"
_FIRST: Final[LiteralString] = """
INSERT INTO nodes_databaseincarnation (id, incarnation) VALUES (1, nodes_incarnation()) ON CONFLICT (id) DO NOTHING
"""
# Locks: DatabaseIncarnation.
_LOCK: Final[LiteralString] = """
SELECT incarnation AS before, nodes_incarnation() AS after FROM nodes_databaseincarnation FOR UPDATE
"""
_CHANGE: Final[LiteralString] = """
UPDATE nodes_databaseincarnation SET incarnation = %(after)s, since = clock_timestamp()
"""
_LIVE: Final[LiteralString] = """
SELECT id FROM nodes_node WHERE status IN ('starting', 'running', 'draining') ORDER BY id
"""
_RAISE_TERMS: Final[LiteralString] = """
WITH of_coordination AS (UPDATE nodes_coordinationcluster SET term = term + 1000)
UPDATE nodes_mainterm SET main_id = NULL, term = term + 1000, since = clock_timestamp()
"""
# Sequences with large numbers are raised further: they number documents and batches, of which a short time creates very
# many.
_RAISE_SEQUENCES: Final[LiteralString] = """
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass,
              least(last_value + CASE WHEN last_value < 100000 THEN 1000 ELSE 10000000 END, max_value))
  FROM pg_sequences WHERE schemaname = current_schema() AND last_value IS NOT NULL AND increment_by = 1
"""
_RECORD: Final[LiteralString] = """
INSERT INTO nodes_databaserestore (as_of, before, after, nodes_ended)
SELECT (SELECT max(heartbeat_at) FROM nodes_node), %(before)s, %(after)s, %(nodes)s
RETURNING to_char(as_of AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') AS as_of
"""
_JOURNAL: Final[LiteralString] = """
INSERT INTO nodes_nodeevent (at, scope, kind, message, detail)
VALUES (clock_timestamp(), %(scope)s, 'changed', %(message)s, jsonb_build_object('by', 'crawlctl'))
"""
_statements_of_others: list[LiteralString] = []


def raise_at_restore(statement: LiteralString) -> None:
    """
    Register a statement that the first registration after a restore executes. It raises numbers of another package.
    """
    if statement not in _statements_of_others:
        _statements_of_others.append(statement)


def notice_restore(connection: psycopg.Connection[Any]) -> bool:
    """
    If the database was restored since the last registration, mark all live nodes as failed, raise all numbers, and
    return True. The caller has a transaction.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_IS_KNOWN).fetchone()
        if row is None or row["is_known"]:
            return False
        cursor.execute(_LOCK_TERMS)
        if cursor.execute(_FIRST).rowcount:
            return False
        seen = cursor.execute(_LOCK).fetchone()
        if seen is None or seen["before"] == seen["after"]:
            return False
        cursor.execute(_CHANGE, seen)
        live = [found["id"] for found in cursor.execute(_LIVE).fetchall()]
        for node_id in live:
            node = lock_node(connection, node_id=node_id)
            if node is not None:
                end_node(connection, node=node, status=NodeStatus.FAILED, reason="the database was restored")
        for statement in (_RAISE_TERMS, *_statements_of_others, _RAISE_SEQUENCES):
            cursor.execute(statement)
        made = cursor.execute(_RECORD, {**seen, "nodes": len(live)}).fetchone()
        assert made is not None
        message = (
            f"the database was restored: it is as of {made['as_of'] or 'an unknown time'} UTC. "
            "Its outputs will be verified and repaired"
        )
        cursor.execute(_JOURNAL, {"scope": CLUSTER_SCOPE, "message": message})
    logger.warning("%s", message)
    return True
