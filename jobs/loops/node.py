"""The life of a node, for managers and workers: it joins, sends heartbeats, listens, applies settings and leaves."""

import datetime as dt
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

import psycopg

from jobs.loops.database import WorkConnection
from nodes.coordination.membership_session import MembershipSession, StoreSession
from nodes.coordination.port import Coordination
from nodes.database.connections import Dsn
from nodes.life.identity import NodeIdentity
from nodes.membership import members
from nodes.membership.fences import count_refused
from nodes.membership.heartbeat import HeartbeatThread, exit_immediately
from nodes.membership.members import Asks
from nodes.settings import running, versions
from nodes.settings.effective import Effective
from nodes.settings.node_settings import HEARTBEAT_INTERVAL, NODE_GIVE_UP, POOLED_DATABASE_URL

# Seconds that a stopping node waits for a database that does not answer.
_LAST_WAIT: Final = 3.0


class _OnNotification(Protocol):
    def __call__(self, channel: str, payload: str, /) -> None: ...


class Node:
    """
    A node of the cluster, from its registration to its end.

    The heartbeat thread, which also listens, and the membership session in a coordination store have their own
    connections.
    """

    def __init__(
        self,
        *,
        dsn: Dsn,
        identity: NodeIdentity,
        settings: Effective,
        store: Coordination | None,
        channels: Collection[str],
        on_notification: _OnNotification,
        asks: Asks,
        answered: Callable[[frozenset[str]], object],
        is_stopping: Callable[[], bool],
        is_candidate: bool = False,
        membership_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """
        `on_notification` is called for each notification of `channels`, and with two empty texts after a reconnect.
        `answered` is called after each heartbeat with the names of the conditions of `asks` that are true. Both run in
        the thread of the heartbeat. `is_candidate` is true if the node can become the main manager. `store` is an open
        coordination store; None if the database coordinates the nodes.
        """
        self._dsn, self._identity, self._settings, self._is_stopping = dsn, identity, settings, is_stopping
        self.heartbeats = HeartbeatThread(
            dsn=dsn,
            node_id=identity.id,
            interval=settings[HEARTBEAT_INTERVAL],
            timeout=identity.timeout,
            give_up=settings[NODE_GIVE_UP],
            abandon=exit_immediately,
            channels=channels,
            on_notification=on_notification,
            asks=asks,
            answered=answered,
        )
        self.membership = MembershipSession()
        if store is not None:
            self.membership = StoreSession(
                store,
                timeout=identity.timeout,
                is_candidate=is_candidate,
                is_fit=self.may_begin,
                changed=membership_changed,
            )

    @property
    def heartbeat(self) -> dt.timedelta:
        """Return the time between two heartbeats."""
        return self._settings[HEARTBEAT_INTERVAL]

    def may_begin(self) -> bool:
        """
        True if this node is certainly still a member. Otherwise it must stop, before other nodes take over its work.
        """
        return self.heartbeats.trust.may_begin

    def work_connection(self) -> WorkConnection:
        """
        Return a connection for the node's work. The connection is opened at its first use, and again after it breaks.

        The connection leads through the pooler, if there is one.
        """
        pooled = self._settings[POOLED_DATABASE_URL]
        return WorkConnection(
            pooled or self._dsn,
            is_pooled=bool(pooled),
            node_id=self._identity.id,
            timeout=self._identity.timeout,
            longest_pause=self._settings[HEARTBEAT_INTERVAL],
            gives_up=self._should_stop_waiting_for_database,
        )

    def join(self, connection: psycopg.Connection[Any]) -> None:
        """Register the node, and report the settings that it uses."""
        members.join(connection, identity=self._identity)
        versions.report(connection, node_id=self._identity.id, settings=running.current().report())

    def start(self) -> None:
        """Start the heartbeats and the listener. Call it after `join`."""
        self.heartbeats.start()
        self.membership.start()

    def begin_draining(self, connection: psycopg.Connection[Any]) -> None:
        """Store that this node drains: it finishes its work and gets no new work."""
        members.begin_draining(connection, node_id=self._identity.id, reason="asked to stop")

    def leave(self, connection: psycopg.Connection[Any]) -> None:
        """Store that this node has stopped normally."""
        members.stop(connection, node_id=self._identity.id, reason="asked to stop")

    def stop(self) -> None:
        """End the node's threads."""
        self.membership.stop()
        self.heartbeats.stop()

    @property
    def has_new_settings(self) -> bool:
        """True if a heartbeat saw a version of the stored settings that is newer than the one in use."""
        return self.heartbeats.settings_version > running.current().version

    def take_up_settings(self, connection: psycopg.Connection[Any]) -> Effective:
        """Apply the stored settings, report the settings in force, and return them."""
        self._settings = running.take_up_newest(connection)
        self.heartbeats.adjust(interval=self._settings[HEARTBEAT_INTERVAL], give_up=self._settings[NODE_GIVE_UP])
        versions.report(connection, node_id=self._identity.id, settings=self._settings.report())
        return self._settings

    def count_refused(self, connection: psycopg.Connection[Any]) -> None:
        """Count a write of this node that a fence refused."""
        count_refused(connection, self._identity.id)

    def _should_stop_waiting_for_database(self, failing_for: float) -> bool:
        """
        True if the node gives up a database that has not answered for `failing_for` seconds.

        A stopping node gives up early, because the main manager releases its documents anyway.
        """
        if self.heartbeats.has_given_up:
            return True
        return self._is_stopping() and failing_for > _LAST_WAIT and not self.may_begin()
