"""The connection of a node's heartbeats: it sends beats with conditions, and listens for notifications between them."""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import sql

from nodes.database.connections import Dsn, connect
from nodes.life.trust_window import seconds_since_boot
from nodes.membership import members
from nodes.membership.members import ASKS_NOTHING, Asks, Beat

# Longest wait for notifications before the thread checks whether it must stop (seconds).
LISTEN: Final = 0.5
# Number of beats without conditions that follow a beat whose conditions got no answer.
_BEATS_WITHOUT_CONDITIONS: Final = 4

logger = logging.getLogger(__name__)


class BeatConnection:
    """A connection that is opened at its first use, and again after a failure. Only one thread uses it."""

    def __init__(
        self,
        dsn: Dsn,
        *,
        node_id: UUID,
        timeout: dt.timedelta,
        channels: Collection[str],
        on_notification: Callable[[str, str], None],
        asks: Asks,
        stopping: threading.Event,
    ) -> None:
        """
        `on_notification`, `channels` and `asks` are those of `HeartbeatThread`. `stopping` ends a wait for
        notifications.
        """
        self._dsn, self._node_id, self._timeout = dsn, node_id, timeout
        self._channels, self._on_notification, self._asks = tuple(channels), on_notification, asks
        self._stopping = stopping
        # Number of beats that must still go without conditions.
        self._asks_nothing_for = 0
        self._connection: psycopg.Connection[Any] | None = None

    def beat(self, facts: Mapping[str, object]) -> Beat:
        """
        Send a beat with these facts about the work. It also reads the conditions under which the node has work.

        If the conditions get no answer, send a beat without them. All conditions then count as true, so that the node
        searches for work by itself.

        Raises:
            psycopg.Error: the database does not answer.
        """
        connection = self._connection or self._connect()
        asks = ASKS_NOTHING if self._asks_nothing_for else self._asks
        self._asks_nothing_for = max(0, self._asks_nothing_for - 1)
        try:
            return members.beat(connection, node_id=self._node_id, progress=facts, asks=asks)
        except psycopg.Error as error:
            if not asks or connection.closed:
                raise
            # A table that the conditions read is locked, or being restored.
            logger.warning("node %s sends heartbeats without the queries for waiting work: %s", self._node_id, error)
            self._asks_nothing_for = _BEATS_WITHOUT_CONDITIONS
            beat = members.beat(connection, node_id=self._node_id, progress=facts)
            return replace(beat, answers=frozenset(asks))

    def listen(self, pause: float) -> bool:
        """Listen for a time (seconds), or less if the connection breaks. Return False if the thread must stop."""
        until = seconds_since_boot() + pause
        while not self._stopping.is_set():
            left = until - seconds_since_boot()
            if left <= 0:
                return True
            if self._connection is None or not self._channels:
                return not self._stopping.wait(left)
            try:
                for note in self._connection.notifies(timeout=min(left, LISTEN)):
                    self._on_notification(note.channel, note.payload)
            except psycopg.Error as error:
                logger.info("node %s lost the connection on which it listens: %s", self._node_id, error)
                self.close()
                # Send the next beat now: it connects again.
                return True
        return False

    def close(self) -> None:
        """Close the connection. The next beat opens another connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self) -> psycopg.Connection[Any]:
        connection = connect(self._dsn, node_id=self._node_id, purpose="beat", timeout=self._timeout)
        self._connection = connection
        for channel in self._channels:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self._on_notification("", "")
        return connection
