"""
The connection on which a daemon executes queue functions, the thread for these functions, and a clock with the time of
the database.

Queue functions are plain blocking code on one psycopg connection. A worker runs them in one thread, one after the
other, so that its event loop stays free. After the loss of a connection, the thread connects and runs the function
again. That is safe because the claim fence counts an outcome once.
"""

import asyncio
import datetime as dt
import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, InterfaceError, InternalError, OperationalError, connections
from django.db import connection as django_connection

from jobs.metrics import crawl
from jobs.queue.sql.arrays import register_arrays
from nodes.database.connections import Dsn, connect, session_of_node, settings_of_node, timeout_of_node
from nodes.life.thread_activity import ThreadActivity

_T = TypeVar("_T")

# First pause before a function is run again (seconds). The pause doubles each time.
_FIRST_PAUSE: Final = 0.1
# Seconds during which the drift of two clocks does not matter.
_CLOCK_IS_GOOD_FOR: Final = 10.0
# Errors that a server sends before it closes a connection. The driver notices the end only at the next use.
_ENDED_BY_SERVER: Final = (
    psycopg.errors.AdminShutdown,
    psycopg.errors.CrashShutdown,
    psycopg.errors.CannotConnectNow,
    psycopg.errors.IdleInTransactionSessionTimeout,
    # The errors of a standby server that was not promoted yet, in case the address of the database leads to it.
    psycopg.errors.ReadOnlySqlTransaction,
)

# Errors of the driver and of Django after the loss of a connection. If the server ended the session because its
# transaction was idle, the error has a separate class.
_LOST: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.ReadOnlySqlTransaction,
    OperationalError,
    InterfaceError,
    InternalError,
)

logger = logging.getLogger(__name__)


def configure_django_sessions(*, node_id: uuid.UUID, timeout: dt.timedelta) -> None:
    """
    Give the connections of Django in this process the name and the time limits of the node's sessions.

    Work of a daemon on Django's connection holds the same locks as work on its own connection.
    """
    django_connection.close()
    options = connections[DEFAULT_DB_ALIAS].settings_dict["OPTIONS"]
    options |= session_of_node(node_id=node_id, purpose="orm", timeout=timeout)
    options["session"] = settings_of_node(timeout)
    options["wait_at_most"] = timeout_of_node(timeout, purpose="orm")


# Errors of statements while a restore has not created all tables yet.
_WITHOUT_TABLES: Final = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedColumn,
)


class TablesMissing(psycopg.OperationalError):
    """The database lost tables under a process: it is being restored or migrated, and the process has to end."""

    def __init__(self, error: psycopg.Error) -> None:
        said = str(error).strip().splitlines()[0]
        super().__init__(
            f"the database lacks a table or column that it had, so it is being restored or migrated ({said})"
        )


class WorkConnection:
    """The connection on which a daemon executes queue functions. A broken connection is replaced by a new one."""

    def __init__(
        self,
        dsn: Dsn,
        *,
        node_id: uuid.UUID,
        timeout: dt.timedelta,
        longest_pause: dt.timedelta,
        gives_up: Callable[[float], bool],
        is_pooled: bool = False,
    ) -> None:
        """
        `is_pooled` is true if `dsn` leads to a pooler, whose sessions clients share. `gives_up` is called after each
        failure, with the seconds since the first failure in a row. While an answer is pending, it is called with the
        seconds since the request.
        """
        self._dsn, self._node_id, self._timeout, self._gives_up = dsn, node_id, timeout, gives_up
        self._is_pooled = is_pooled
        self._longest_pause = longest_pause.total_seconds()
        self._connection: psycopg.Connection[Any] | None = None
        self._failing_since: float | None = None

    def run(self, work: Callable[[psycopg.Connection[Any]], _T]) -> _T:
        """
        Run `work` and return its result; after a loss of this connection or of Django's connection, run it again from
        its start.

        Raises:
            psycopg.OperationalError: the database was unavailable until the daemon gave up.
            TablesMissing: a table no longer exists.
        """
        pause = _FIRST_PAUSE
        while True:
            try:
                if self._connection is None:
                    self._connection = connect(
                        self._dsn,
                        node_id=self._node_id,
                        purpose="work",
                        timeout=self._timeout,
                        gives_up=self._gives_up,
                        is_pooled=self._is_pooled,
                    )
                    register_arrays(self._connection)
                done = work(self._connection)
            except _WITHOUT_TABLES as raised:
                raise TablesMissing(raised) from raised
            except _LOST as raised:
                error = self._close_if_broken(raised)
                crawl.LOST_ANSWERS.add()
                logger.warning("the database did not answer (%s), trying again", str(error).strip())
                if self._failing_since is None:
                    self._failing_since = time.monotonic()
                if self._gives_up(time.monotonic() - self._failing_since):
                    raise error from raised
                time.sleep(pause)
                pause = min(pause * 2, self._longest_pause)
            else:
                self._failing_since = None
                return done

    def _close_if_broken(self, raised: Exception) -> psycopg.Error:
        """
        Close the connections if an error has ended one; return the driver's error, which Django wraps.

        Some work uses Django's connection of this thread, and Django may not have noticed its loss. An error that is
        neither about a connection nor about waiting is raised again.
        """
        error = raised if isinstance(raised, psycopg.Error) else raised.__cause__
        if not isinstance(error, psycopg.Error):
            error = psycopg.OperationalError(str(raised))
        if isinstance(error, _ENDED_BY_SERVER) or self._is_a_connection_broken(raised):
            self.close()
            django_connection.close()
        elif not isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
            raise raised
        # Otherwise a statement or a lock took too long: the connections are intact.
        return error

    def _is_a_connection_broken(self, raised: Exception) -> bool:
        mine, djangos = self._connection, django_connection.connection
        if mine is None or mine.closed:
            return True
        # Django without a connection has just failed to connect (then it raised this error), or was not used at all.
        return djangos.closed if djangos is not None else isinstance(raised, OperationalError)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class DatabaseClock:
    """
    The time of the database, without a query for each use.

    Clocks of machines may differ by hours, so the clock of the database decides whether work is due. This clock is
    never ahead of the database, so no work starts too early. The answer of the database was its time at some moment
    between the query and the arrival of the answer (Cristian's algorithm, 1989). This clock assumes the latest of
    these moments, the arrival, or a later time that earlier answers prove. So a slow network or server makes this clock
    late by at most its delay.
    """

    def __init__(self) -> None:
        # The database's time, and the moment of the monotonic clock when it was read. Both are in one tuple, so that
        # other threads never read one of them without the other.
        self._read_last = dt.datetime.min.replace(tzinfo=dt.UTC), time.monotonic()
        self._good_until = float("-inf")

    def now(self, connection: psycopg.Connection[Any]) -> dt.datetime:
        if time.monotonic() > self._good_until:
            self._read(connection)
        return self._at(time.monotonic())

    def _read(self, connection: psycopg.Connection[Any]) -> None:
        asked_at = time.monotonic()
        row = connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        answered_at = time.monotonic()
        earliest = row[0]
        latest = earliest + dt.timedelta(seconds=answered_at - asked_at)
        self._read_last = min(max(earliest, self._at(answered_at)), latest), answered_at
        self._good_until = answered_at + _CLOCK_IS_GOOD_FOR

    def _at(self, moment: float) -> dt.datetime:
        base, read_at = self._read_last
        return base + dt.timedelta(seconds=moment - read_at)

    @property
    def is_known(self) -> bool:
        """True after the database's time was read for the first time."""
        return self._good_until > float("-inf")

    def seconds_at(self, moment: float) -> float:
        """
        Convert a moment of this process's monotonic clock to seconds since 1970 by the database's clock, without a
        query.

        Any thread may call it after the database's time was read for the first time.
        """
        base, read_at = self._read_last
        return base.timestamp() + moment - read_at


class DatabaseThread:
    """Runs functions on a work connection in one thread, so that an event loop can await their results."""

    def __init__(self, connection: WorkConnection, *, activity: ThreadActivity) -> None:
        """`activity` is this thread's progress, which the heartbeat thread checks."""
        self._connection = connection
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="database")
        self._activity = activity

    async def run(self, work: Callable[[psycopg.Connection[Any]], _T]) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._run, work)

    def _run(self, work: Callable[[psycopg.Connection[Any]], _T]) -> _T:
        self._activity.note_pass()
        try:
            return self._connection.run(work)
        finally:
            self._activity.note_idle()

    def close(self) -> None:
        self._thread.submit(self._connection.close)
        self._thread.shutdown(wait=True)
