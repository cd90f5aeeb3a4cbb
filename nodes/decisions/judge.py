"""
Who is to be marked failed.

A node is failed for one of three reasons. It was *silent* for longer than its own timeout; since a
database that was away silences everybody, only a judge that has itself beaten without a gap for as
long may conclude that. Or its *process is gone*: whoever shares the machine and the pid namespace
can see that, and nobody needs to wait. Or it is *absent*: a manager that the store of coordination
has lost as well need not be waited for as long. It begins nothing beyond its trust window, and fences
stand before all that it writes. A worker closes its last requests only just before its timeout.
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

# Whether the judge has itself beaten for so long, without a gap that counts beside so long a silence.
Steadiness = Callable[[dt.timedelta], bool]


class FailureCause(StrEnum):
    """What makes a node a failed one. A silent node may speak again before the mark; a gone one cannot."""

    SILENT = "silent"
    ABSENT = "absent"
    PROCESS_GONE = "process_gone"


# How long a node must have been silent for each cause, in timeouts of its own. Who is absent has begun nothing for a
# twelfth of its timeout, whatever the drift of its clock.
PATIENCE: Final[Mapping[FailureCause, float]] = {
    FailureCause.SILENT: 1.0,
    FailureCause.ABSENT: 0.75,
    FailureCause.PROCESS_GONE: float("-inf"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkFailed:
    """The wish to mark a node failed; `reason` is the sentence that its page and the journal show."""

    node_id: UUID
    scope: str
    cause: FailureCause
    reason: str


def judge(cluster: ClusterSeen, *, is_steady: Steadiness, orphans: Iterable[NodeSeen] = ()) -> tuple[MarkFailed, ...]:
    """
    Return whom I have to mark failed: nobody, unless I am main.

    `is_steady` says whether I have beaten without a gap for so long. `orphans` are the nodes of
    scopes without a live manager, which have no main of their own that could judge them; the main of
    the cluster hands them in.
    """
    if not cluster.i_am_main:
        return ()
    others = (node for node in cluster.nodes if node.id != cluster.me)
    verdicts = (verdict_on(node, is_steady=is_steady) for node in chain(others, orphans))
    return tuple(verdict for verdict in verdicts if verdict is not None)


def verdict_on(node: NodeSeen, *, is_steady: Steadiness) -> MarkFailed | None:
    """Return the verdict on one node, or None when it has ended already or nothing can be said against it."""
    if node.has_ended:
        return None
    if node.same_machine_process_gone:
        return MarkFailed(
            node_id=node.id, scope=node.scope, cause=FailureCause.PROCESS_GONE, reason="its process is gone"
        )
    is_lost = node.is_absent and node.kind == NodeKind.MANAGER
    cause = FailureCause.ABSENT if is_lost and not node.is_silent else FailureCause.SILENT
    # The node's own timeout, not the judge's: after an outage of the database a node with a long
    # timeout beats seldom, and must have had all of it to be heard again.
    if node.heartbeat_age > PATIENCE[cause] * node.timeout and is_steady(node.timeout):
        silence, timeout = node.heartbeat_age.total_seconds(), node.timeout.total_seconds()
        gone = "gone from the store of coordination, and " if cause == FailureCause.ABSENT else ""
        reason = f"{gone}silent for {silence:.1f} s, its timeout is {timeout:g} s"
        return MarkFailed(node_id=node.id, scope=node.scope, cause=cause, reason=reason)
    return None
