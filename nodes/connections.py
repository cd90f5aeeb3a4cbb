"""
Connections to the database: how they are named, how long they may hang, and how long anybody waits on them.

A daemon that dies, freezes or is cut off may hold locks that everybody waits for. So each session
carries the id of its node, by which others can end it, and limits that are fractions of the node's
timeout: nobody waits so long for a lock that he could not judge who holds it.

The other way round, a server may be gone, or a line cut, without this end ever hearing of it. TCP notices most of
that (keepalives, user timeout). What is left, such as something in between that still answers for the server,
ends by our own patience: no statement is waited for much longer than the server itself would let it run.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import Row

from nodes.effort import Waiting
from nodes.metrics import of_nodes

_T = TypeVar("_T")
# Where the database is, or a function that finds it: an embedded one may have to be started first.
Dsn = str | Callable[[], str]
# Whether to give up an answer that has been waited for for so many seconds.
GivesUp = Callable[[float], bool]

# How often a wait looks whether it should go on.
_LOOK: Final = 0.1
# What a statement may take longer here than at the server.
_WAY: Final = dt.timedelta(seconds=2)
# Daemons execute the same large statements again and again, and each time that one is not prepared it is read and
# planned anew: only what is executed once is not worth it.
_PREPARED_AFTER: Final = 1


class PatientConnection(psycopg.Connection[Row]):
    """A connection on which no answer is waited for for ever; who waited in vain finds it closed."""

    gives_up: GivesUp = staticmethod(lambda _waited: False)

    def wait(self, gen: PQGen[_T], interval: float = _LOOK, timeout: float | None = None) -> _T:
        if timeout is not None:
            # Whoever says how long does not wait for an answer, but for whatever may come.
            return super().wait(gen, interval, timeout)
        try:
            with Waiting():
                return super().wait(self._patiently(gen), interval)
        except psycopg.Error:
            # A statement whose preparing was broken off, say by a lock, the driver takes for prepared all the same, and
            # would fail with it for ever.
            self._prepared.clear()
            raise

    def _patiently(self, gen: PQGen[_T]) -> PQGen[_T]:
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
def unhurried(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Let statements, and waits for locks, take as long as they take: what changes tables does."""
    assert isinstance(connection, PatientConnection)
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    gives_up = connection.gives_up
    connection.gives_up = lambda _waited: False
    for limit in limits:
        connection.execute(sql.SQL("SET {} = 0").format(sql.Identifier(limit)))
    try:
        yield
    finally:
        connection.gives_up = gives_up
        if not connection.closed:
            for limit in limits:
                connection.execute(sql.SQL("RESET {}").format(sql.Identifier(limit)))


def connect(
    dsn: Dsn,
    *,
    node_id: UUID | str,
    purpose: str,
    timeout: dt.timedelta,
    gives_up: GivesUp = lambda _waited: False,
) -> PatientConnection[Any]:
    """
    Return a new connection of the node, in autocommit, for one purpose (work, beat, listen).

    A `dsn` that is a function is asked each time. `timeout` is the node's own. `gives_up` may end a wait for an answer before the patience does. The caller
    closes the connection.

    Raises:
        psycopg.OperationalError: the database cannot be reached within half the timeout.
    """
    with Waiting():
        given = conninfo_to_dict(dsn() if callable(dsn) else dsn)
    mine = session_of_node(node_id=node_id, purpose=purpose, timeout=timeout, options=str(given.get("options", "")))
    patience = patience_of_node(timeout, purpose=purpose).total_seconds()
    with Waiting():
        connection = PatientConnection.connect(autocommit=True, prepare_threshold=_PREPARED_AFTER, **{**given, **mine})
    of_nodes.CONNECTS.add(1, purpose)
    connection.gives_up = lambda waited: waited > patience or gives_up(waited)
    return connection


def patience_of_node(timeout: dt.timedelta, *, purpose: str) -> dt.timedelta:
    """How long an answer is waited for: that of a beat for what is left of the timeout, others as long as they may run."""
    return timeout / 2 if purpose == "beat" else 3 * timeout + _WAY


def session_of_node(*, node_id: UUID | str, purpose: str, timeout: dt.timedelta, options: str = "") -> dict[str, Any]:
    """
    The parameters of a node's session, for libpq, behind `options` that were given for it.

    Its name begins with the node's id: that is how all sessions of a node are found (see membership).
    """
    return {"application_name": f"{node_id} {purpose}", **_limits_of_node(timeout).parameters(options=options)}


def settings_of_node(timeout: dt.timedelta) -> Mapping[str, str | int]:
    """What the server is to keep to in a node's session, as it says so itself."""
    return _limits_of_node(timeout).settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    How long either side of a session waits for what.

    `unheard_for` is how long a line may be silent that should not be, before either takes the other for gone.
    """

    connect_within: dt.timedelta
    unheard_for: dt.timedelta
    statement: dt.timedelta
    lock: dt.timedelta
    idle_in_transaction: dt.timedelta

    def parameters(self, *, options: str) -> dict[str, Any]:
        """The session's parameters for libpq, behind `options` that were given for it."""
        mine = ("-c " + f"{name}={value}".replace(" ", r"\ ") for name, value in self.settings().items())
        return {
            "options": " ".join([*filter(None, [options]), *mine]),
            "connect_timeout": round(self.connect_within.total_seconds()),
            "keepalives": 1,
            **{f"keepalives_{name}": value for name, value in _KEEPALIVES.items()},
            "tcp_user_timeout": _milliseconds(self.unheard_for),
        }

    def settings(self) -> Mapping[str, str | int]:
        """What the server is asked to keep to, by the names of its settings."""
        return {
            # The fences rest on this: a statement that waited for a lock sees what was committed meanwhile.
            "default_transaction_isolation": "read committed",
            "TimeZone": "UTC",
            # A transaction that nobody goes on with ends before its locks can outlive its node. One without a BEGIN of
            # its own does not: it ends with the sessions of its node, once that is marked failed.
            "idle_in_transaction_session_timeout": _milliseconds(self.idle_in_transaction),
            "lock_timeout": _milliseconds(self.lock),
            "statement_timeout": _milliseconds(self.statement),
            # The server's side of the same: it forgets a client whose machine is gone.
            **{f"tcp_keepalives_{name}": value for name, value in _KEEPALIVES.items()},
            "tcp_user_timeout": _milliseconds(self.unheard_for),
        }


def _limits_of_node(timeout: dt.timedelta) -> Limits:
    return Limits(
        # libpq knows no connect timeout below two seconds.
        connect_within=max(dt.timedelta(seconds=2), timeout / 2),
        unheard_for=timeout / 2,
        statement=3 * timeout,
        # Who holds a lock for longer may be frozen, and it may be for who waits here to see to that.
        lock=timeout / 2,
        idle_in_transaction=timeout / 2,
    )


# Seconds: a silent line is asked after two, then each second, and taken for dead after three questions.
_KEEPALIVES: Final = {"idle": 2, "interval": 1, "count": 3}


def _milliseconds(duration: dt.timedelta) -> int:
    return round(duration / dt.timedelta(milliseconds=1))
