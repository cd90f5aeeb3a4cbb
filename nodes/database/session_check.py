"""
Checks before a process becomes a node: its sessions have the limits that it asks for, and the server has room.

A pooler between the process and the server may hand out sessions with other limits. Then a process that froze in a
transaction could block elections permanently. A full server might accept the first connection of a node, and refuse its
connection for heartbeats.
"""

import datetime as dt
import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final

import psycopg

from nodes.database.connections import connect, settings_of_node

# Number of connections of a node: one for its work, and one for its beats and notifications. A manager sometimes has a
# third.
CONNECTIONS_OF_A_NODE: Final = 2

_SETTINGS: Final = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"
# Free connections for users that are not superusers, including the one of this session.
_ROOM: Final = """
SELECT current_setting('max_connections')::int AS most,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true), '0')::int
       - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int + 1 AS room
"""


logger = logging.getLogger(__name__)


class SessionRefused(Exception):
    """The database cannot provide the sessions that a node needs. Nothing was done."""


def check_sessions(dsn: str, *, timeout: dt.timedelta, nodes: int) -> None:
    """
    Check that this number of nodes with this timeout would get sessions with the right settings, and that the server
    has room for them.

    Raises:
        SessionRefused: the settings are wrong, or the server lacks room. The message says what to do.
        psycopg.OperationalError: the database cannot be reached.
    """
    with connect(dsn, node_id=uuid.uuid4(), purpose="check", timeout=timeout) as connection:
        _refuse_other_settings(connection, settings_of_node(timeout))
        _warn_of_a_volatile_server(connection)
        _refuse_full_server(connection, needed=nodes * CONNECTIONS_OF_A_NODE)


def check_pooled_sessions(dsn: str, *, timeout: dt.timedelta) -> None:
    """
    Check that a pooler hands out sessions with the limits of a node with this timeout.

    Raises:
        SessionRefused: the sessions have other limits. The message has the line for its configuration.
        psycopg.OperationalError: the pooler or the database cannot be reached.
    """
    wanted = _settings_of_a_pooler(timeout)
    with connect(dsn, node_id=uuid.uuid4(), purpose="check", timeout=timeout, is_pooled=True) as connection:
        found = dict(connection.execute(_SETTINGS, [list(wanted)]).fetchall())
    for name, value in wanted.items():
        if found[name] != str(value):
            raise SessionRefused(
                f"CRAWLCTL_POOLED_DATABASE_URL leads to sessions in which {name} is {found[name]}, not {value}. "
                f"Add to the line of this database in PgBouncer: connect_query='{connect_query(timeout)}'"
            )


def connect_query(timeout: dt.timedelta) -> str:
    """
    Return the statements for the configuration of a pooler, which executes them in each new session for nodes with this
    timeout.
    """
    statements = (f"SET {name} = ''{value}''" for name, value in _settings_of_a_pooler(timeout).items())
    return "; ".join(statements)


def _settings_of_a_pooler(timeout: dt.timedelta) -> Mapping[str, str | int]:
    """
    Return the settings of a node's session that a pooler's session must have. The others are left to the pooler: it
    notices lost connections by itself, and passes on the time zone of its clients.
    """
    settings = settings_of_node(timeout)
    return {name: value for name, value in settings.items() if not name.startswith("tcp_") and name != "TimeZone"}


def _refuse_other_settings(connection: psycopg.Connection[Any], wanted: Mapping[str, str | int]) -> None:
    ((is_local,),) = connection.execute("SELECT inet_server_addr() IS NULL").fetchall()
    found = dict(connection.execute(_SETTINGS, [list(wanted)]).fetchall())
    for name, value in wanted.items():
        # Keepalives cannot be set on a connection over a Unix socket.
        if found[name] != str(value) and not (is_local and name.startswith("tcp_")):
            raise SessionRefused(
                f"The database did not apply a setting of this session: {name} is {found[name]}, not {value}. "
                "Let DATABASE_URL lead to PostgreSQL itself, or to a pooler that gives each client a session of its own."
            )


def _warn_of_a_volatile_server(connection: psycopg.Connection[Any]) -> None:
    ((fsync,),) = connection.execute("SELECT current_setting('fsync')").fetchall()
    if fsync == "off":
        logger.warning("fsync is off: a crash of the machine can destroy the database")


def _refuse_full_server(connection: psycopg.Connection[Any], *, needed: int) -> None:
    ((most, room),) = connection.execute(_ROOM).fetchall()
    if room < needed:
        raise SessionRefused(
            f"The database has room for {room} more of its {most} connections, and {needed} are needed "
            f"({CONNECTIONS_OF_A_NODE} for each manager and worker): raise max_connections, or start fewer."
        )
