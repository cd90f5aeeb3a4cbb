"""
The states of a node and the transitions between them, as data.

A node is one run of one process: it gets a new id at every start, so its life goes one way only. A *live* node takes
part in elections and is judged by its heartbeat. A *working* node passes the node fence. `stopped` and `failed` are
final: a trigger of the database refuses any transition out of them (migration 0001). A frozen process may wake years
later and must not be able to declare itself alive.
"""

from dataclasses import dataclass
from enum import StrEnum


class NodeKind(StrEnum):
    """The role of a process in the cluster."""

    MANAGER = "manager"
    WORKER = "worker"


class NodeStatus(StrEnum):
    """
    The state of a node.

    - starting: registered. The process is getting ready. It is judged but may not work.
    - running: it works. Set by the node itself.
    - draining: it finishes what it has begun and takes nothing new. Set by the node itself, or by the main manager.
    - stopped: it has ended in good order. Set by the node itself, as its last write.
    - failed: it was silent for too long, or its process ended. Set by the main manager, or by the manager that replaces
      it.
    """

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


LIVE_STATUSES = frozenset({NodeStatus.STARTING, NodeStatus.RUNNING, NodeStatus.DRAINING})
WORKING_STATUSES = frozenset({NodeStatus.RUNNING, NodeStatus.DRAINING})
FINAL_STATUSES = frozenset({NodeStatus.STOPPED, NodeStatus.FAILED})

# The scope that all daemons share. A one-shot `crawl` has a separate scope: "crawl:<uuid>".
CLUSTER_SCOPE = "cluster"


class Owner(StrEnum):
    """The process that may make a transition."""

    NODE = "the node itself"
    MAIN = "the main manager of its scope, or of the cluster if its scope has no live manager"
    NEW_MAIN = "the manager that takes the place of a silent main"


@dataclass(frozen=True, slots=True)
class NodeTransition:
    """One transition of a node's status: its cause, source states, target, owner and condition."""

    cause: str
    sources: frozenset[NodeStatus]
    target: NodeStatus
    by: Owner
    guard: str


TRANSITIONS = (
    NodeTransition(
        cause="begin_work",
        sources=frozenset({NodeStatus.STARTING}),
        target=NodeStatus.RUNNING,
        by=Owner.NODE,
        guard="its work loop starts",
    ),
    NodeTransition(
        cause="begin_draining",
        sources=frozenset({NodeStatus.STARTING, NodeStatus.RUNNING}),
        target=NodeStatus.DRAINING,
        by=Owner.NODE,
        guard="the process received a signal to stop",
    ),
    NodeTransition(
        cause="drain",
        sources=frozenset({NodeStatus.STARTING, NodeStatus.RUNNING}),
        target=NodeStatus.DRAINING,
        by=Owner.MAIN,
        guard="an administrator requested it; the node reads it with its next heartbeat, and stops when it holds nothing",
    ),
    NodeTransition(
        cause="stop",
        sources=LIVE_STATUSES,
        target=NodeStatus.STOPPED,
        by=Owner.NODE,
        guard="none of its transactions is open; a main manager resigns in the same commit",
    ),
    NodeTransition(
        cause="mark_failed",
        sources=LIVE_STATUSES,
        target=NodeStatus.FAILED,
        by=Owner.MAIN,
        guard="its process no longer exists, or it is silent for longer than its own timeout and the judging manager had no gap in its own heartbeats",
    ),
    NodeTransition(
        cause="elect",
        sources=LIVE_STATUSES,
        target=NodeStatus.FAILED,
        by=Owner.NEW_MAIN,
        guard="it is the recorded main manager, has not resigned, and meets the condition of mark_failed",
    ),
)


def sources_of(cause: str) -> frozenset[NodeStatus]:
    """Return the states from which the transition of this cause may start."""
    return next(transition.sources for transition in TRANSITIONS if transition.cause == cause)
