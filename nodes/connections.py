"""
Connections of daemons to the database: how they are named and how long they may hang.

A daemon that dies, freezes or is cut off may hold locks that everybody waits for. So each session
carries the id of its node, by which others can end it, and limits that are fractions of the node's
timeout: a lock that a frozen process holds is gone before anybody needs to judge the process.
"""

import datetime as dt
from typing import Any
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict


def connect(dsn: str, *, node_id: UUID, purpose: str, timeout: dt.timedelta) -> psycopg.Connection[Any]:
    """
    Return a new connection of the node, in autocommit, for one purpose (work, beat, listen).

    `timeout` is the node's own. The caller closes the connection.

    Raises:
        psycopg.OperationalError: the database cannot be reached within half the timeout.
    """
    given = conninfo_to_dict(dsn)
    options = " ".join(part for part in (str(given.pop("options", "")), _session_options(timeout)) if part)
    mine: dict[str, Any] = {
        # Begins with the id: that is how all sessions of a node are found (see membership).
        "application_name": f"{node_id} {purpose}",
        "options": options,
        # libpq knows no connect timeout below two seconds.
        "connect_timeout": max(2, round(timeout.total_seconds() / 2)),
        "keepalives": 1,
        "keepalives_idle": 2,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": _milliseconds(timeout / 2),
    }
    return psycopg.connect(autocommit=True, **{**given, **mine})


def _session_options(timeout: dt.timedelta) -> str:
    settings = {
        # The fences rest on this: a statement that waited for a lock sees what was committed meanwhile.
        "default_transaction_isolation": r"read\ committed",
        "TimeZone": "UTC",
        # A transaction that nobody goes on with ends before its locks can outlive its node ...
        "idle_in_transaction_session_timeout": _milliseconds(timeout / 2),
        # ... and who waits for such a lock waits a little longer than that.
        "lock_timeout": _milliseconds(timeout * 0.8),
        "statement_timeout": _milliseconds(timeout * 3),
        # The server's side of the same: it forgets a client whose machine is gone.
        "tcp_keepalives_idle": 2,
        "tcp_keepalives_interval": 1,
        "tcp_keepalives_count": 3,
        "tcp_user_timeout": _milliseconds(timeout / 2),
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _milliseconds(duration: dt.timedelta) -> int:
    return round(duration / dt.timedelta(milliseconds=1))
