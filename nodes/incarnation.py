"""
Detection of a database that has gone back in time.

A restore, a snapshot that is rolled back, or the failover to an asynchronous standby takes commits away that a
process has seen. Its memory of them is void: references that it takes for written, batches, cached ids.
Its node id may still be in the database, so the status of its row does not show the loss.

Two facts show it. The node's row counts its beats: if the row has fewer than were confirmed, the database is older
than the process. Less than one beat may be lost, too: then the incarnation has changed. It is computed, not
stored, since a dump would carry a stored one along. It names the cluster of PostgreSQL and its timeline, which
a promotion changes, and the database and the table of nodes, which a restore creates again.

Each fence of a node and each beat compares both. A node that is refused here forgets everything by ending its
process; its supervisor starts it again.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

# A condition on a row of nodes_node. Its parameters are `remembered(node_id)`.
IS_AS_REMEMBERED: Final[LiteralString] = (
    "beats >= %(beats)s AND coalesce(nodes_incarnation() = %(incarnation)s::text, true)"
)


@dataclass(frozen=True, slots=True)
class _Remembered:
    beats: int = 0
    # None before the node has registered.
    incarnation: str | None = None


# The nodes of this process: one, but for tests.
_nodes: dict[UUID, _Remembered] = {}
# The heart writes while the working thread reads.
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
    Return why the database does not let a node write, as a sentence; '' if it does.

    `row` has the node's `status` (None without a row) and `beats`, and the database's `incarnation`.
    """
    with _lock:
        known = _nodes.get(node_id, _Remembered())
    if known.incarnation is not None and row["incarnation"] != known.incarnation:
        return (
            f"the database went back in time or is another one: its incarnation was {known.incarnation} and is "
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
