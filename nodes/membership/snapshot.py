"""Reads the snapshot of a scope from which the decisions about its nodes are made."""

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import psycopg
from psycopg.rows import dict_row

from nodes.decisions.snapshot import ClusterSeen, NodeSeen, TermSeen
from nodes.life.identity import NodeIdentity, is_process_gone
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind, NodeStatus

# One statement, so that all ages refer to one moment. The scope `%(scope)s` may not have a row yet.
_SNAPSHOT = """
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT clock.now, term.term, term.main_id, term.since, term.resigned,
       node.id, node.kind, node.scope, node.status, node.started_at, node.timeout_seconds,
       extract(epoch FROM clock.now - node.heartbeat_at)::float8 AS heartbeat_age,
       node.boot_id, node.pid_namespace, node.pid, node.process_start
  FROM clock
  LEFT JOIN nodes_mainterm AS term ON term.scope = %(scope)s
  LEFT JOIN nodes_node AS node
         ON (node.scope = term.scope AND node.status IN ('starting', 'running', 'draining')
             AND (NOT %(only_managers)s OR node.kind = 'manager')) OR node.id = term.main_id
 ORDER BY node.started_at, node.id
"""

# All nodes with a live status outside the scope that all daemons share.
_NODES_OF_ONE_SHOTS = """
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT node.id, node.kind, node.scope, node.status, node.started_at, node.timeout_seconds,
       extract(epoch FROM clock.now - node.heartbeat_at)::float8 AS heartbeat_age,
       node.boot_id, node.pid_namespace, node.pid, node.process_start
  FROM clock, nodes_node AS node
 WHERE node.scope <> %(cluster)s AND node.status IN ('starting', 'running', 'draining')
 ORDER BY node.started_at, node.id
"""


def read_scope(
    connection: psycopg.Connection[Any],
    *,
    scope: str,
    me: NodeIdentity,
    present: Collection[str] | None = None,
    only_managers: bool = False,
) -> ClusterSeen:
    """
    Return the scope as it is now, and the processes of other nodes that have ended on the machine of `me`.

    `present` are the ids of the nodes that are members in the store of coordination; None if that is unknown. With
    `only_managers`, workers are left out: an election needs none.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_SNAPSHOT, {"scope": scope, "only_managers": only_managers}).fetchall()
    first = rows[0]
    return ClusterSeen(
        read_at=first["now"],
        me=me.id,
        scope=scope,
        term=TermSeen(
            term=first["term"] or 0,
            main_id=first["main_id"],
            since=first["since"] or first["now"],
            resigned=bool(first["resigned"]),
        ),
        nodes=tuple(_node_seen(row, me=me, present=present) for row in rows if row["id"] is not None),
    )


def read_orphaned_scopes(connection: psycopg.Connection[Any], *, me: NodeIdentity) -> tuple[NodeSeen, ...]:
    """
    Return the live nodes of one-shot scopes in which no manager lives.

    They have no main manager that could judge them, so the main manager of the cluster does.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_NODES_OF_ONE_SHOTS, {"cluster": CLUSTER_SCOPE}).fetchall()
    by_scope: dict[str, list[NodeSeen]] = defaultdict(list)
    for row in rows:
        by_scope[row["scope"]].append(_node_seen(row, me=me))
    return tuple(node for nodes in by_scope.values() if not _has_live_manager(nodes) for node in nodes)


def _has_live_manager(nodes: Iterable[NodeSeen]) -> bool:
    return any(node.kind == NodeKind.MANAGER and node.is_live for node in nodes)


def _node_seen(row: Mapping[str, Any], *, me: NodeIdentity, present: Collection[str] | None = None) -> NodeSeen:
    is_visible = me.shares_processes_with(boot_id=row["boot_id"], pid_namespace=row["pid_namespace"])
    return NodeSeen(
        id=row["id"],
        kind=NodeKind(row["kind"]),
        scope=row["scope"],
        status=NodeStatus(row["status"]),
        started_at=row["started_at"],
        heartbeat_age=dt.timedelta(seconds=row["heartbeat_age"]),
        timeout=dt.timedelta(seconds=row["timeout_seconds"]),
        same_machine_process_gone=is_visible and is_process_gone(pid=row["pid"], process_start=row["process_start"]),
        is_absent=present is not None and str(row["id"]) not in present,
    )
