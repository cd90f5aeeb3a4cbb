"""Nodes and clusters for tests: rows in the database, and snapshots for the pure decisions."""

import datetime as dt
from typing import Any
from uuid import UUID, uuid4

import psycopg

from nodes.decisions.judge import FailureCause, MarkFailed, Steadiness
from nodes.decisions.snapshot import ClusterSeen, NodeSeen, TermSeen
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind, NodeStatus
from nodes.membership import leadership, members
from nodes.membership.fences import TermHeld

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
BEAT = dt.timedelta(seconds=2)
TIMEOUT = dt.timedelta(seconds=10)

ELSEWHERE = {"host": "elsewhere", "boot_id": "another boot", "pid_namespace": "pid:[1]", "pid": 1, "process_start": 1}


def seconds(amount: float) -> dt.timedelta:
    return dt.timedelta(seconds=amount)


# --- Snapshots -----------------------------------------------------------------------------------


def seen_node(**facts: Any) -> NodeSeen:
    """Return a running manager that has been up for an hour and has just sent a heartbeat."""
    usual = {
        "id": uuid4(),
        "kind": NodeKind.MANAGER,
        "scope": CLUSTER_SCOPE,
        "status": NodeStatus.RUNNING,
        "started_at": NOON - seconds(3600),
        "heartbeat_age": seconds(0),
        "timeout": TIMEOUT,
    }
    return NodeSeen(**{**usual, **facts})


def seen_cluster(*nodes: NodeSeen, me: NodeSeen, main: NodeSeen | None = None, **term: Any) -> ClusterSeen:
    """Return the cluster as `me` sees it, in term 7, which began an hour ago."""
    usual = {"term": 7, "main_id": main.id if main else None, "since": NOON - seconds(3600)}
    return ClusterSeen(
        read_at=NOON, me=me.id, scope=CLUSTER_SCOPE, term=TermSeen(**{**usual, **term}), nodes=tuple(nodes)
    )


def steady_for(beaten: dt.timedelta) -> Steadiness:
    """Return the steadiness of a node that has sent heartbeats for this long without a gap."""
    return lambda duration: beaten >= duration


# --- Rows ----------------------------------------------------------------------------------------


def register_node(connection: psycopg.Connection[Any], kind: str = "manager", **facts: Any) -> NodeIdentity:
    """Register a node of another machine, and let it work."""
    usual = {
        "id": uuid4(),
        "kind": NodeKind(kind),
        "scope": CLUSTER_SCOPE,
        "name": "n",
        "timeout": TIMEOUT,
        **ELSEWHERE,
    }
    identity = NodeIdentity(**{**usual, **facts})
    members.register(connection, identity=identity)
    members.begin_work(connection, node_id=identity.id)
    return identity


def elect_main(connection: psycopg.Connection[Any], node: NodeIdentity) -> TermHeld:
    """Make the node the first main manager of its scope."""
    held = leadership.elect(connection, node_id=node.id, scope=node.scope, seen_term=0)
    assert held is not None
    return held


def fall_silent(connection: psycopg.Connection[Any], node: NodeIdentity) -> MarkFailed:
    """Make the node's last heartbeat an hour old, and return the verdict on the node."""
    connection.execute(
        "UPDATE nodes_node SET heartbeat_at = clock_timestamp() - interval '1 hour' WHERE id = %s", [node.id]
    )
    return MarkFailed(node_id=node.id, scope=node.scope, cause=FailureCause.SILENT, reason="silent for 3600.0 s")


def status_of(connection: psycopg.Connection[Any], node_id: UUID) -> str:
    (status,) = connection.execute("SELECT status FROM nodes_node WHERE id = %s", [node_id]).fetchone()
    return status


def events_of(connection: psycopg.Connection[Any], node_id: UUID) -> list[str]:
    rows = connection.execute("SELECT kind FROM nodes_nodeevent WHERE node_id = %s ORDER BY id", [node_id]).fetchall()
    return [kind for (kind,) in rows]
