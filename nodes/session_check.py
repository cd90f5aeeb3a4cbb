"""
What a process makes sure of before it becomes a node: that its sessions are what it asks for, and that there is room.

Something may stand between it and the server that hands sessions out as it likes: then limits do not hold, and who
froze in a transaction could hold up an election for good. And a server that is full would let a node have its first
connection and refuse the one that it beats on.
"""

import datetime as dt
import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final

import psycopg

from nodes.connections import connect, settings_of_node

# Of a node: for its work, its beat, and what it hears. A manager has one more for moments.
CONNECTIONS_OF_A_NODE: Final = 3

_SETTINGS: Final = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"
# What is left for who is no superuser, this session's own included.
_ROOM: Final = """
SELECT current_setting('max_connections')::int AS most,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true), '0')::int
       - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int + 1 AS room
"""


logger = logging.getLogger(__name__)


class SessionRefused(Exception):
    """The database does not give what a node needs; nothing was done."""


def check_sessions(dsn: str, *, timeout: dt.timedelta, nodes: int) -> None:
    """
    Make sure that the sessions of so many nodes with this timeout would be what they ask for, and have room.

    Raises:
        SessionRefused: they would not; the sentence says what to do.
        psycopg.OperationalError: the database cannot be reached.
    """
    with connect(dsn, node_id=uuid.uuid4(), purpose="check", timeout=timeout) as connection:
        _refuse_other_settings(connection, settings_of_node(timeout))
        _warn_of_a_volatile_server(connection)
        _refuse_full_server(connection, needed=nodes * CONNECTIONS_OF_A_NODE)


def _refuse_other_settings(connection: psycopg.Connection[Any], wanted: Mapping[str, str | int]) -> None:
    ((is_local,),) = connection.execute("SELECT inet_server_addr() IS NULL").fetchall()
    found = dict(connection.execute(_SETTINGS, [list(wanted)]).fetchall())
    for name, value in wanted.items():
        # Whoever comes to the server over a socket of its machine can set no keepalives there.
        if found[name] != str(value) and not (is_local and name.startswith("tcp_")):
            raise SessionRefused(
                f"The database did not take over what this session asked for: {name} is {found[name]}, not {value}. "
                "Let DATABASE_URL lead to PostgreSQL itself, or to a pooler that gives each client a session of its own."
            )


def _warn_of_a_volatile_server(connection: psycopg.Connection[Any]) -> None:
    ((fsync,),) = connection.execute("SELECT current_setting('fsync')").fetchall()
    if fsync == "off":
        logger.warning("the database may be lost with its machine: fsync is off")


def _refuse_full_server(connection: psycopg.Connection[Any], *, needed: int) -> None:
    ((most, room),) = connection.execute(_ROOM).fetchall()
    if room < needed:
        raise SessionRefused(
            f"The database has room for {room} more of its {most} connections, and {needed} are needed "
            f"({CONNECTIONS_OF_A_NODE} for each manager and worker): raise max_connections, or start fewer."
        )
