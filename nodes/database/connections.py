"""
Connections to the database: their names, their limits at the server, and the limits of waits in this process.

A daemon that dies, freezes or is cut off may hold locks that others wait for. Each session therefore carries the id of
its node, so that other nodes can end it. Its limits follow from the node's timeout: a wait for a lock ends before the
wait could keep the node from judging the holder of the lock.

Conversely, a server may die, or a connection may be cut, without a sign at this end. TCP notices most of these cases
(keepalives, user timeout). The remaining cases, such as a proxy that still answers for the server, are ended by a limit
on this side: a wait for a statement lasts little longer than the server itself would let the statement run.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import Row

from nodes.database.poolers import refuse_shared_session
from nodes.life.thread_activity import Waiting
from nodes.metrics import node_metrics

_T = TypeVar("_T")
_LIMITS_IN_USE: Final = """
SELECT name, current_setting(name)
  FROM unnest(ARRAY['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']) AS name
"""
# Connection string of the database, or a function that returns it: an embedded server may have to be started first.
Dsn = str | Callable[[], str]
# Function that gets the time that a wait has lasted (seconds). Returns True if the wait must end now.
GivesUp = Callable[[float], bool]

# Interval between two checks whether a wait should end (seconds).
_CHECK_INTERVAL: Final = 0.1
# Time that this process waits for an answer beyond the server's own limit for a statement.
_ANSWER_MARGIN: Final = dt.timedelta(seconds=2)
# Number of executions after which a statement is prepared. Daemons execute the same large statements repeatedly, and
# the server parses and plans an unprepared statement each time. Only a statement executed once gains nothing.
_PREPARED_AFTER: Final = 1

# A heartbeat waits for a lock for the timeout of its node divided by this number.
_BEAT_LOCK_DIVISOR: Final = 10


class ConnectionWithTimeouts(psycopg.Connection[Row]):
    """A connection that ends each wait for an answer after a limit. After such a wait the connection is closed."""

    gives_up: GivesUp = staticmethod(lambda _waited: False)

    def wait(self, gen: PQGen[_T], interval: float = _CHECK_INTERVAL, timeout: float | None = None) -> _T:
        if timeout is not None:
            # A call with a timeout waits for notifications, not for an answer.
            return super().wait(gen, interval, timeout)
        try:
            with Waiting():
                return super().wait(self._within_timeout(gen), interval)
        except psycopg.Error:
            # If the preparation of a statement was interrupted, for example by a lock timeout, the driver still takes
            # the statement for prepared. Each later execution would fail.
            self._prepared.clear()
            raise

    def _within_timeout(self, gen: PQGen[_T]) -> PQGen[_T]:
        began_at = time.monotonic()
        try:
            state = next(gen)
            while True:
                is_ready = yield state
                waited = time.monotonic() - began_at
                if not is_ready and self.gives_up(waited):
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the database has not answered for {waited:.1f} s: given up")
                state = gen.send(is_ready)
        except StopIteration as answered:
            return answered.value  # type: ignore[no-any-return]


@contextmanager
def without_timeouts(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Suspend the limits on statements and lock waits inside the block: migrations take their time."""
    assert isinstance(connection, ConnectionWithTimeouts)
    limits = connection.execute(_LIMITS_IN_USE).fetchall()
    gives_up = connection.gives_up
    connection.gives_up = lambda _waited: False
    connection.execute(_assignment_of({name: 0 for name, _value in limits}))
    try:
        yield
    finally:
        connection.gives_up = gives_up
        if not connection.closed:
            connection.execute(_assignment_of(dict(limits)))


def connect(
    dsn: Dsn,
    *,
    node_id: UUID | str,
    purpose: str,
    timeout: dt.timedelta,
    gives_up: GivesUp = lambda _waited: False,
    is_pooled: bool = False,
) -> ConnectionWithTimeouts[Any]:
    """
    Return a new connection of the node, in autocommit, for one purpose (work, beat).

    A `dsn` that is a function is called each time. `timeout` is the node's own. `gives_up` may end a wait for an answer
    before its limit. The sessions of a connection that `is_pooled` have their settings from the pooler, and share no
    prepared statements. The caller closes the connection.

    Raises:
        psycopg.OperationalError: the database cannot be reached within half the timeout, or 2 seconds if that is longer.
    """
    with Waiting():
        given = conninfo_to_dict(dsn() if callable(dsn) else dsn)
    mine = session_of_node(node_id=node_id, purpose=purpose, timeout=timeout)
    wait_at_most = timeout_of_node(timeout, purpose=purpose).total_seconds()
    with Waiting():
        connection = open_session(
            {**given, **mine, "prepare_threshold": None if is_pooled else _PREPARED_AFTER},
            settings=None if is_pooled else settings_of_node(timeout, purpose=purpose),
            gives_up=lambda waited: waited > wait_at_most or gives_up(waited),
        )
    node_metrics.CONNECTS.add(1, purpose)
    return connection


def open_session(
    parameters: Mapping[str, Any], *, settings: Mapping[str, str | int] | None, gives_up: GivesUp
) -> ConnectionWithTimeouts[Any]:
    """
    Return a new connection, in autocommit, whose session has these settings of the server; None keeps the settings of
    its pooler.

    The settings are sent after connecting: a pooler such as PgBouncer refuses them as startup options.

    Raises:
        SharedSession: a pooler shares sessions among its clients.
        psycopg.OperationalError: the database cannot be reached.
    """

    def opened() -> ConnectionWithTimeouts[Any]:
        made = ConnectionWithTimeouts.connect(**{**parameters, "autocommit": True})
        made.gives_up = gives_up
        return made

    connection = opened()
    if settings is None:
        return connection
    try:
        # Settings that are sent to a shared session would change the sessions of other clients.
        refuse_shared_session(connection, opened)
        connection.execute(_assignment_of(settings))
    except BaseException:
        connection.close()
        raise
    return connection


def _assignment_of(settings: Mapping[str, str | int]) -> sql.Composed:
    """Return one statement that gives the session these settings: each SET would be a separate statement."""
    calls = [sql.SQL("set_config({}, {}, false)").format(name, str(value)) for name, value in settings.items()]
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(calls))


def timeout_of_node(timeout: dt.timedelta, *, purpose: str) -> dt.timedelta:
    """
    Return the limit of a wait for an answer.

    For a beat it is half the timeout, which is left after connecting. For other purposes it is a little more than the
    server's limit for a statement.
    """
    return timeout / 2 if purpose == "beat" else 3 * timeout + _ANSWER_MARGIN


def session_of_node(*, node_id: UUID | str, purpose: str, timeout: dt.timedelta) -> dict[str, Any]:
    """
    Return the parameters of a node's session, for libpq. Its settings come after connecting.

    The session's name begins with the node's id: `nodes.membership.rows` finds all sessions of a node by it.
    """
    return {"application_name": f"{node_id} {purpose}", **_limits_of_node(timeout).parameters()}


def settings_of_node(timeout: dt.timedelta, *, purpose: str = "work") -> Mapping[str, str | int]:
    """Return the server settings of a node's session, with their values as the server prints them."""
    limits = _limits_of_node(timeout)
    if purpose == "beat":
        # A beat also reads tables of the work. If one of them is locked, the node beats without it in time.
        limits = replace(limits, lock=timeout / _BEAT_LOCK_DIVISOR)
    return limits.settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    Limits of a session, on both sides.

    `unheard_for` is the time for which a connection may be silent unexpectedly before either side considers the other
    dead.
    """

    connect_within: dt.timedelta
    unheard_for: dt.timedelta
    statement: dt.timedelta
    lock: dt.timedelta
    idle_in_transaction: dt.timedelta

    def parameters(self) -> dict[str, Any]:
        """Return the session's parameters for libpq."""
        return {
            "connect_timeout": round(self.connect_within.total_seconds()),
            "keepalives": 1,
            **{f"keepalives_{name}": value for name, value in _KEEPALIVES.items()},
            "tcp_user_timeout": _milliseconds(self.unheard_for),
        }

    def settings(self) -> Mapping[str, str | int]:
        """Return the settings that the session requests from the server, by name."""
        return {
            # The fences rest on this: a statement that waited for a lock sees what was committed during the wait.
            "default_transaction_isolation": "read committed",
            "TimeZone": "UTC",
            # If a client abandons a transaction, this setting ends it, before the locks of the transaction can outlive
            # the node. It does not end a statement that runs without BEGIN: that ends with the node's sessions, once
            # the node is marked failed.
            "idle_in_transaction_session_timeout": _milliseconds(self.idle_in_transaction),
            "lock_timeout": _milliseconds(self.lock),
            "statement_timeout": _milliseconds(self.statement),
            # The same limit at the server, which drops a client whose machine no longer answers.
            **{f"tcp_keepalives_{name}": value for name, value in _KEEPALIVES.items()},
            "tcp_user_timeout": _milliseconds(self.unheard_for),
        }


def _limits_of_node(timeout: dt.timedelta) -> Limits:
    return Limits(
        # libpq raises shorter connect timeouts to two seconds.
        connect_within=max(dt.timedelta(seconds=2), timeout / 2),
        unheard_for=timeout / 2,
        statement=3 * timeout,
        # The holder of a lock that is held for longer may be frozen, and the waiting node may have to judge it.
        lock=timeout / 2,
        idle_in_transaction=timeout / 2,
    )


# Keepalives of TCP. A connection that was silent for 2 seconds gets a probe, and then one each second. After 3
# unanswered probes it counts as dead.
_KEEPALIVES: Final = {"idle": 2, "interval": 1, "count": 3}


def _milliseconds(duration: dt.timedelta) -> int:
    return round(duration / dt.timedelta(milliseconds=1))
