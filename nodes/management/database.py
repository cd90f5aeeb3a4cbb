"""Checks of the database at the start of a command: of a daemon, of the web server, or of an operator."""

import uuid
from collections.abc import Sequence

import psycopg
from django.core.management.base import CommandError
from django.db import connection

from nodes.database.address import database_dsn
from nodes.database.connections import connect
from nodes.database.schema import SchemaBehind, SchemaRefused, require_current
from nodes.database.session_check import SessionRefused, check_pooled_sessions, check_sessions
from nodes.settings.node_settings import NODE_TIMEOUT, POOLED_DATABASE_URL
from nodes.settings.running import read_given, together


def check_database() -> None:
    """
    Check that the database answers and has this program's tables.

    Raises:
        CommandError: its tables have another version.
        django.db.OperationalError: the database does not answer.
    """
    try:
        require_current()
    except (SchemaBehind, SchemaRefused) as error:
        raise CommandError(str(error), returncode=2) from error
    finally:
        connection.close()


def check_room_for_sessions(*, nodes: int, options: Sequence[str] = ()) -> None:
    """
    Check that the database accepts the sessions of this number of nodes; `options` are settings of their command line.

    Raises:
        CommandError: the database refuses the sessions, or does not answer; the message says what to do.
        InvalidSettings, SettingError: the options are invalid, or contradict the stored settings.
    """
    dsn, given = database_dsn(), read_given(options)
    try:
        with connect(dsn, node_id=uuid.uuid4(), purpose="settings", timeout=given[NODE_TIMEOUT]) as asking:
            timeout = together(given, asking)[NODE_TIMEOUT]
        check_sessions(dsn, timeout=timeout, nodes=nodes)
        if pooled := given[POOLED_DATABASE_URL]:
            check_pooled_sessions(pooled, timeout=timeout)
    except SessionRefused as error:
        raise CommandError(str(error), returncode=2) from error
    except psycopg.OperationalError as error:
        raise CommandError(f"The database cannot be used: {str(error).strip()}", returncode=2) from error
