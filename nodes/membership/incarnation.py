"""
Detection of a database that has gone back in time.

A restore, a rolled-back snapshot or a failover to an asynchronous standby removes commits that a process has seen. The
process then remembers things that do not exist: written references, batches, cached ids. Its node id may still be in
the database, so the status of its row does not show the loss.

Two facts show it. The node's row counts its beats: if the row has fewer than were confirmed, the database is older than
the process. The loss may be shorter than one beat: then the incarnation has changed. The incarnation is computed and
not stored, because a dump would contain a stored value. It has four parts: the cluster of PostgreSQL, its timeline, and
the numbers of the database and of the table of nodes. A promotion changes the timeline, and a restore from a dump
changes the two numbers.

Each fence of a node and each beat compares both. A node that is refused here ends its process, which drops all its
memory. Its supervisor starts it again.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

# Condition on a row of nodes_node. Its parameters are `remembered(node_id)`.
IS_AS_REMEMBERED: Final[LiteralString] = (
    "beats >= %(beats)s AND coalesce(nodes_incarnation() = %(incarnation)s::text, true)"
)


@dataclass(frozen=True, slots=True)
class _Remembered:
    beats: int = 0
    # None before the node has registered.
    incarnation: str | None = None


# The nodes of this process: one, except in tests.
_nodes: dict[UUID, _Remembered] = {}
# Guards `_nodes`: the heartbeat writes while the working thread reads.
_lock = threading.Lock()


def remember(node_id: UUID, *, beats: int, incarnation: str) -> None:
    """Note the beats and the incarnation that the database confirmed to a node of this process."""
    with _lock:
        _nodes[node_id] = _Remembered(beats, incarnation)


def remembered(node_id: UUID | None) -> dict[str, Any]:
    """Return the parameters of `IS_AS_REMEMBERED` for a node of this process."""
    with _lock:
        known = _Remembered() if node_id is None else _nodes.get(node_id, _Remembered())
    return {"beats": known.beats, "incarnation": known.incarnation}


def why_refused(node_id: UUID, row: Mapping[str, Any]) -> str:
    """
    Return the reason why the database does not let a node write, as a sentence; '' if it does.

    `row` holds the node's `status` (None without a row) and `beats`, and the database's `incarnation`.
    """
    with _lock:
        known = _nodes.get(node_id, _Remembered())
    if known.incarnation is not None and row["incarnation"] != known.incarnation:
        return (
            f"the database went back in time, or was replaced by another one: its incarnation was {known.incarnation} and is "
            f"{row['incarnation']}. This node forgets what it remembers of the database, and ends"
        )
    if row["status"] is None:
        return f"the database does not know node {node_id}: its row was removed, or the database went back in time"
    if row["beats"] < known.beats:
        return (
            f"the database went back in time: it has {row['beats']} beats of node {node_id}, and {known.beats} were "
            "confirmed. This node forgets what it remembers of the database, and ends"
        )
    return "" if row["status"] in {"starting", "running", "draining"} else f"node {node_id} is {row['status']}"
