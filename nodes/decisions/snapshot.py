"""
The cluster as one node saw it at one moment.

Ages are by the database's clock, taken in the read that made the snapshot. No moment here
comes from the clock of a machine, so machines may disagree about the time by hours.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from nodes.lifecycle import FINAL_STATUSES, LIVE_STATUSES, NodeKind, NodeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """
    One node. `same_machine_process_gone` is known only to processes that share the node's machine and pid namespace. To
    all others it is False. `is_absent` is True if the main manager uses a store of coordination in addition to the
    database, and the node is not a member there.
    """

    id: UUID
    kind: NodeKind
    scope: str
    status: NodeStatus
    started_at: dt.datetime
    heartbeat_age: dt.timedelta
    timeout: dt.timedelta
    same_machine_process_gone: bool = False
    is_absent: bool = False

    @property
    def has_ended(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def is_silent(self) -> bool:
        return self.heartbeat_age > self.timeout

    @property
    def is_live(self) -> bool:
        return self.status in LIVE_STATUSES and not self.is_silent and not self.same_machine_process_gone

    @property
    def seniority(self) -> tuple[dt.datetime, UUID]:
        """Return the key that sorts the oldest node first, in the same way on every node."""
        return (self.started_at, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSeen:
    """The recorded main manager of a scope, or the one that resigned last. Term 0 had no main manager yet."""

    term: int
    main_id: UUID | None
    since: dt.datetime
    resigned: bool = False

    @property
    def is_vacant(self) -> bool:
        return self.main_id is None or self.resigned


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """
    One scope, as read by the node `me` at `read_at` (the database's time).

    `nodes` are all nodes that have not ended, and the recorded main manager even if it has ended.
    """

    read_at: dt.datetime
    me: UUID
    scope: str
    term: TermSeen
    nodes: tuple[NodeSeen, ...]

    def node(self, node_id: UUID | None) -> NodeSeen | None:
        return next((node for node in self.nodes if node.id == node_id), None)

    @property
    def i_am_main(self) -> bool:
        return self.term.main_id == self.me and not self.term.resigned

    @property
    def live_managers(self) -> Iterator[NodeSeen]:
        return (node for node in self.nodes if node.kind == NodeKind.MANAGER and node.is_live)
