"""The address of the database, for plain psycopg connections, which Django does not manage."""

from typing import Final

import psycopg
from django.db import OperationalError
from django.db import connection as django_connection
from psycopg.conninfo import make_conninfo

# Connection parameters that locate and authenticate; the others are chosen for each session.
_OF_ADDRESS: Final = (
    *("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey"),
    *(
        "connect_timeout",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
    ),
)


def database_dsn() -> str:
    """
    Return the address of Django's database, for plain psycopg connections.

    An embedded database is started if it does not run.
    """
    parameters = django_connection.get_connection_params()
    return make_conninfo(**{name: parameters[name] for name in _OF_ADDRESS if parameters.get(name)})


def find_database() -> str:
    """
    Return the database's address for a daemon, also after the embedded server was lost with its guardian.

    Raises:
        psycopg.OperationalError: the embedded server is unavailable.
    """
    try:
        return database_dsn()
    except OperationalError as error:
        raise psycopg.OperationalError(str(error)) from error
