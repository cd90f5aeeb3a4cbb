"""Open connections of a process that wait for their next user."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from psycopg.pq import TransactionStatus

from nodes.database.connections import ConnectionWithTimeouts

# Largest number of waiting connections. Further connections are closed after their use.
_MOST: Final = 4
# Longest wait for the next user (seconds).
_IDLE_AT_MOST: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Idle:
    connection: ConnectionWithTimeouts[Any]
    parameters: Mapping[str, Any]
    since: float


class IdleConnections:
    """
    Open connections without a user, for the threads of a server that runs each request in a separate thread.

    A new connection needs a new process of PostgreSQL, which reads the definitions of all tables again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The connection that was used last is at the end, and is taken first.
        self._waiting: list[_Idle] = []

    def take(self, parameters: Mapping[str, Any]) -> ConnectionWithTimeouts[Any] | None:
        """
        Return the last used connection, which the server may have ended meanwhile. If it has other parameters than
        these, close all waiting connections and return None.
        """
        with self._lock:
            self._close_idle()
            if self._waiting and self._waiting[-1].parameters == parameters:
                return self._waiting.pop().connection
        self.close()
        return None

    def give_back(self, connection: ConnectionWithTimeouts[Any], parameters: Mapping[str, Any]) -> bool:
        """Keep a connection for its next user, and return True. Return False if its user has to close it."""
        with self._lock:
            self._close_idle()
            if len(self._waiting) >= _MOST or not _is_unused(connection):
                return False
            self._waiting.append(_Idle(connection, parameters, time.monotonic()))
            return True

    def close(self) -> None:
        """Close all waiting connections."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().connection.close()

    def _close_idle(self) -> None:
        while self._waiting and time.monotonic() - self._waiting[0].since > _IDLE_AT_MOST:
            self._waiting.pop(0).connection.close()


def _is_unused(connection: ConnectionWithTimeouts[Any]) -> bool:
    """
    Return True if no transaction of the last user is open. Pages and the API change settings of a session only within
    transactions.
    """
    return connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
