"""A worker's sessions at the database, each for one purpose and one thread."""

import datetime as dt
import logging
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg

from nodes.database.connections import Dsn, connect

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0


class Session:
    """A connection that is opened at its first use, and again after it broke. Each process needs its own."""

    def __init__(self, dsn: Dsn, *, worker: UUID, purpose: str, timeout: dt.timedelta) -> None:
        """`timeout` is the silence after which a node is marked failed. The limits of the session follow from it."""
        self._dsn, self._worker, self._purpose, self._timeout = dsn, worker, purpose, timeout
        self._connection: psycopg.Connection[Any] | None = None

    def run(self, work: Callable[[psycopg.Connection[Any]], _T], *, wait_at_most: float = 0.0) -> _T:
        """
        Return the result of `work`. After a lost connection, repeat it on a new one for at most `wait_at_most` seconds.

        Raises:
            psycopg.OperationalError, psycopg.InterfaceError: the database stayed down.
        """
        gives_up_at = time.monotonic() + wait_at_most
        pause = _FIRST_PAUSE
        while True:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = connect(
                        self._dsn, node_id=self._worker, purpose=self._purpose, timeout=self._timeout
                    )
                return work(self._connection)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                if time.monotonic() + pause > gives_up_at:
                    raise
                logger.warning("the database does not answer: %s", str(error).strip())
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
