"""What the command of a daemon or of the web server makes sure of before it begins."""

import uuid
from collections.abc import Sequence

import psycopg
from django.core.management.base import CommandError
from django.db import connection

from jobs.management.schema import SchemaBehind, SchemaTooNew, require_current
from jobs.settings.running import together, told
from jobs.settings.table import NODE_TIMEOUT
from nodes.database.address import database_dsn
from nodes.database.connections import connect
from nodes.database.session_check import SessionRefused, check_sessions


def look_at_the_database() -> None:
    """
    The database can be reached and has this program's tables.

    Raises:
        CommandError: its tables are others.
        django.db.OperationalError: it cannot be reached.
    """
    try:
        require_current()
    except (SchemaBehind, SchemaTooNew) as error:
        raise CommandError(str(error), returncode=2) from error
    finally:
        connection.close()


def look_at_sessions(*, nodes: int, options: Sequence[str] = ()) -> None:
    """
    The database gives so many nodes the sessions that they ask for; `options` are settings of their command line.

    Raises:
        CommandError: it does not, or cannot be reached; the sentence says what to do.
        InvalidSettings, SettingError: the options, or what they come to with what is stored, cannot be.
    """
    dsn, given = database_dsn(), told(options)
    try:
        with connect(dsn, node_id=uuid.uuid4(), purpose="settings", timeout=given[NODE_TIMEOUT]) as asking:
            timeout = together(given, asking)[NODE_TIMEOUT]
        check_sessions(dsn, timeout=timeout, nodes=nodes)
    except SessionRefused as error:
        raise CommandError(str(error), returncode=2) from error
    except psycopg.OperationalError as error:
        raise CommandError(f"The database cannot be used: {str(error).strip()}", returncode=2) from error
