"""
The role of the main manager. A manager takes the role, keeps it, or gives it up; while it has the role, it marks silent
nodes as failed.
"""

import logging
import time
from typing import Any, Final

import psycopg

from jobs.duties.mirrored_owners import read_owners
from jobs.loops.node import Node
from jobs.queue.wake import notify
from jobs.state import channels
from nodes.decisions.elect import Elect, Resign, elect
from nodes.decisions.judge import judge
from nodes.decisions.snapshot import ClusterSeen
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind, NodeStatus
from nodes.membership import leadership, snapshot
from nodes.membership.fences import TermHeld
from nodes.metrics import node_metrics

# Number of times that a manager reads the state of the cluster in one heartbeat interval. The main manager does this
# always, and the other managers while the main manager seems to be lost. Each change of a job's state causes another
# read.
_CHECKS_A_HEARTBEAT: Final = 2

logger = logging.getLogger(__name__)


class MainRole:
    """
    The role of this manager: main manager, or a candidate.

    `term` is None while this manager is not the main manager. `misses_node` is true if a node seems to be lost.
    `workers` is the number of running workers while this manager is the main manager.
    """

    def __init__(self, *, me: NodeIdentity, node: Node) -> None:
        self._me = me
        self._node = node
        self.term: TermHeld | None = None
        self.misses_node = False
        self.workers: int | None = None
        self._checked_at = float("-inf")

    def may_act(self) -> bool:
        """True if this manager may still begin a duty of the main manager."""
        return self._node.may_begin() and self._node.membership.is_chosen is not False

    def lost(self) -> None:
        """Record that this node is no longer the main manager. Another node may have the role, or none."""
        self.term = self.workers = None

    def read_nodes_soon(self) -> None:
        """Make the next pass read the nodes of the scope, even if the heartbeats gave no reason for it."""
        self._checked_at = float("-inf")

    def keep_if_due(self, connection: psycopg.Connection[Any]) -> bool:
        """Call `keep` if it is due and can change anything. Return its result, or False."""
        # A node that is absent from the coordination store is judged as soon as the database's rules allow it.
        pause = 0.0 if self.misses_node else self._node.heartbeat.total_seconds() / _CHECKS_A_HEARTBEAT
        if time.monotonic() - self._checked_at <= pause:
            return False
        must_read = self._checked_at == float("-inf") or self._must_read_scope
        self._checked_at = time.monotonic()
        return must_read and self.keep(connection)

    @property
    def _must_read_scope(self) -> bool:
        """
        True if this manager has to read its scope, because it is the main manager, or does not know another main
        manager for certain.

        The other managers of a large cluster rely on their heartbeats, which show the main manager.
        """
        main = self._node.heartbeats.main
        if self.term is not None or main is None or self._node.heartbeats.main_id == self._me.id:
            return True
        return main.seems_lost() or bool(self._node.membership.is_chosen)

    def keep(self, connection: psycopg.Connection[Any]) -> bool:
        """
        Check the term, and take it or give it up. While this manager holds the term, mark failed nodes.

        Return True if the duties of the main manager have new work: the term is new, or a node failed.
        """
        membership, heartbeats = self._node.membership, self._node.heartbeats
        # Only the main manager judges workers.
        only_managers = self.term is None
        cluster = snapshot.read_scope(
            connection,
            scope=self._me.scope,
            me=self._me,
            present=membership.present,
            only_managers=only_managers,
        )
        self.misses_node = any(
            node.is_absent and node.is_live and node.heartbeat_age > node.timeout / 2 for node in cluster.nodes
        )
        is_chosen = membership.is_chosen
        decision = elect(cluster, beat=self._node.heartbeat, is_steady=heartbeats.is_steady, is_chosen=is_chosen)
        match decision:
            case Elect():
                self._take(connection, decision)
            case Resign():
                leadership.resign(
                    connection, term=TermHeld(scope=decision.scope, term=decision.term, main_id=self._me.id)
                )
                notify(connection, channels.LEADERSHIP, decision.scope)
                self.lost()
            case None:
                self.term = self._term_in(cluster)
        if self.term is None:
            return False
        running = [node for node in cluster.nodes if node.status == NodeStatus.RUNNING]
        self.workers = None if only_managers else sum(node.kind == NodeKind.WORKER for node in running)
        has_judged = self._judge(connection, cluster, term=self.term)
        if is_chosen:
            membership.note_leading()
            membership.mirror(read_owners(connection, scope=self._me.scope))
        return has_judged or isinstance(decision, Elect)

    def _take(self, connection: psycopg.Connection[Any], decision: Elect) -> None:
        self.term = leadership.elect(
            connection,
            node_id=self._me.id,
            scope=decision.scope,
            seen_term=decision.seen_term,
            replaces=decision.replaces,
        )
        if self.term is not None:
            node_metrics.ELECTIONS.add(1, "failed main" if decision.replaces else "nobody")
            node_metrics.MARKED_FAILED.add(decision.replaces is not None)

    def _term_in(self, cluster: ClusterSeen) -> TermHeld | None:
        if not cluster.i_am_main:
            return None
        return TermHeld(scope=cluster.scope, term=cluster.term.term, main_id=self._me.id)

    def _judge(self, connection: psycopg.Connection[Any], cluster: ClusterSeen, *, term: TermHeld) -> bool:
        """Mark failed nodes; return True if there was one."""
        orphans = snapshot.read_orphaned_scopes(connection, me=self._me) if self._me.scope == CLUSTER_SCOPE else ()
        has_judged = False
        for verdict in judge(cluster, is_steady=self._node.heartbeats.is_steady, orphans=orphans):
            if leadership.mark_failed(connection, verdict=verdict, term=term):
                logger.warning("marked node %s as failed: %s", verdict.node_id, verdict.reason)
                node_metrics.MARKED_FAILED.add()
                has_judged = True
        return has_judged
