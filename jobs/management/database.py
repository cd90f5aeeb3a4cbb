"""What the command of a daemon or of the web server makes sure of before it begins."""

from django.core.management.base import CommandError
from django.db import connection

from jobs.schema import SchemaBehind, SchemaTooNew, require_current


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
