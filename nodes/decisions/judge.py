"""
The decision which nodes to mark failed.

A node is failed for one of three reasons. First, it was *silent* for longer than its own timeout. An outage of the
database silences all nodes, so only a judge that has itself beaten without a gap for as long may conclude that. Second,
its *process* no longer runs: a judge on the same machine and in the same pid namespace sees that, and no wait is
needed. Third, it is *absent*: a manager that the store of coordination has lost as well is judged after a shorter
silence. A manager begins nothing beyond its trust window, and fences guard all its writes. A worker is not judged that
way, because it closes its last requests only just before its timeout.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final
from uuid import UUID

from nodes.decisions.snapshot import ClusterSeen, NodeSeen
from nodes.lifecycle import NodeKind

# Predicate: True if the judge has itself beaten for this duration, without a gap that matters for it.
Steadiness = Callable[[dt.timedelta], bool]


class FailureCause(StrEnum):
    """
    The reason why a node is failed. A silent node may beat again before it is marked. A node whose process has ended
    cannot beat again.
    """

    SILENT = "silent"
    ABSENT = "absent"
    PROCESS_GONE = "process_gone"


# Silence that each cause requires (in timeouts of the node). An absent node has begun nothing for a twelfth of its
# timeout, whatever the drift of its clock.
REQUIRED_SILENCE: Final[Mapping[FailureCause, float]] = {
    FailureCause.SILENT: 1.0,
    FailureCause.ABSENT: 0.75,
    FailureCause.PROCESS_GONE: float("-inf"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkFailed:
    """The decision to mark a node failed. `reason` is the sentence on its page and in the journal."""

    node_id: UUID
    scope: str
    cause: FailureCause
    reason: str


def judge(cluster: ClusterSeen, *, is_steady: Steadiness, orphans: Iterable[NodeSeen] = ()) -> tuple[MarkFailed, ...]:
    """
    Return the nodes that this node has to mark failed; an empty list if it is not the main manager.

    `is_steady` tells whether this node has beaten without a gap for a duration. `orphans` are the nodes of scopes
    without a live manager, so no main manager of their scope judges them. The main manager of the cluster passes them
    in.
    """
    if not cluster.i_am_main:
        return ()
    others = (node for node in cluster.nodes if node.id != cluster.me)
    verdicts = (verdict_on(node, is_steady=is_steady) for node in chain(others, orphans))
    return tuple(verdict for verdict in verdicts if verdict is not None)


def verdict_on(node: NodeSeen, *, is_steady: Steadiness) -> MarkFailed | None:
    """Return the verdict on one node; None if the node has ended already, or if there is no cause to mark it failed."""
    if node.has_ended:
        return None
    if node.same_machine_process_gone:
        return MarkFailed(
            node_id=node.id, scope=node.scope, cause=FailureCause.PROCESS_GONE, reason="its process no longer exists"
        )
    is_lost = node.is_absent and node.kind == NodeKind.MANAGER
    cause = FailureCause.ABSENT if is_lost and not node.is_silent else FailureCause.SILENT
    # The node's own timeout, not the judge's: a node with a long timeout beats seldom. After an outage of the database
    # it needs its whole timeout to beat again.
    if node.heartbeat_age > REQUIRED_SILENCE[cause] * node.timeout and is_steady(node.timeout):
        silence, timeout = node.heartbeat_age.total_seconds(), node.timeout.total_seconds()
        gone = "gone from the store of coordination, and " if cause == FailureCause.ABSENT else ""
        reason = f"{gone}silent for {silence:.1f} s, its timeout is {timeout:g} s"
        return MarkFailed(node_id=node.id, scope=node.scope, cause=cause, reason=reason)
    return None
