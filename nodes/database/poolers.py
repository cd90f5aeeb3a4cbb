"""
Detection of a pooler that shares sessions among its clients, such as PgBouncer with `pool_mode = transaction`.

crawlctl must not share its sessions with other clients: limits, notifications, advisory locks and prepared statements
belong to a session. A pooler in session mode gives each client a session. A pooler differs from the server in one fact
only: it announces another process than the one that executes the statements. Only in this case, a second connection is
opened and the sessions are compared.
"""

from collections.abc import Callable
from typing import Any, Final

import psycopg

_PROCESS: Final = "SELECT pg_backend_pid()"

# The addresses whose pooler gives each client a session.
_checked: set[tuple[str, str, str]] = set()


class SharedSession(psycopg.OperationalError):
    """A pooler executes the statements of one client in sessions that other clients use as well."""

    def __init__(self) -> None:
        super().__init__(
            "DATABASE_URL leads to a pooler that shares sessions among its clients, and crawlctl needs sessions of its "
            "own. Set pool_mode = session in PgBouncer for this database, or let DATABASE_URL lead to PostgreSQL itself."
        )


def refuse_shared_session(connection: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]]) -> None:
    """
    Check that no other client uses the session of `connection`. `connect` opens another connection to the same address,
    in autocommit.

    A process checks each address once.

    Raises:
        SharedSession: other clients use the session, too.
        psycopg.OperationalError: the database did not answer.
    """
    facts = connection.info
    address = (facts.host, str(facts.port), facts.dbname)
    if address in _checked:
        return
    process = _process_of(connection)
    if process != facts.backend_pid and _is_shared(connection, process, connect):
        raise SharedSession
    _checked.add(address)


def _is_shared(
    connection: psycopg.Connection[Any], process: int, connect: Callable[[], psycopg.Connection[Any]]
) -> bool:
    with connect() as other:
        try:
            with other.transaction():
                # The transaction keeps its session. If the pooler shares sessions, either the transaction got the
                # session of `connection`, or the next statement of `connection` gets another one.
                return _process_of(other) == process or _process_of(connection) != process
        except psycopg.errors.ProtocolViolation:
            # A pooler that shares sessions statement by statement refuses transactions.
            return True


def _process_of(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(_PROCESS).fetchone()
    assert row is not None
    number: int = row[0]
    return number
