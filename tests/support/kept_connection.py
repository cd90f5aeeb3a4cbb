"""
A plain connection that many tests use, one after another.

A new backend of PostgreSQL reads the definitions of all tables and plans each statement of the queue, which costs more
than the statements themselves. The kept backend knows both.
"""

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

# Statements that restore the backend after a test, except for its prepared statements.
_RESET = """
SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP
"""


class KeptConnection:
    """A connection to one database, in autocommit mode. It is replaced if a test leaves it in another state."""

    def __init__(self) -> None:
        self._kept: psycopg.Connection[Any] | None = None
        self._as_opened: tuple[Any, ...] = ()

    def open(self, dsn: str) -> psycopg.Connection[Any]:
        """Return the connection in the state of a new one."""
        from jobs.queue.sql.arrays import register_arrays

        # A test without this fixture may have ended all backends.
        self.give_back()
        if self._kept is None:
            self._kept = psycopg.connect(dsn, autocommit=True)
            register_arrays(self._kept)
            self._as_opened = _state_of(self._kept)
        return self._kept

    def give_back(self) -> None:
        """Undo what the test changed, or close the connection."""
        kept = self._kept
        if kept is None or kept.closed or _state_of(kept) != self._as_opened:
            self.close()
            return
        try:
            kept.execute(_RESET)
        except psycopg.Error:
            # The backend has ended.
            self.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = None


def _state_of(connection: psycopg.Connection[Any]) -> tuple[Any, ...]:
    return (
        TransactionStatus(connection.info.transaction_status),
        *(connection.autocommit, connection.isolation_level, connection.read_only, connection.deferrable),
        *(connection.row_factory, connection.cursor_factory, connection.prepare_threshold, connection.prepared_max),
        *(len(connection._notify_handlers), len(connection._notice_handlers)),
    )
