"""What every command that starts processes does first; what can go wrong with it is said in a sentence."""

from django.core.management.base import CommandError
from django.db import Error as DatabaseError

from crawlctl.postgres.errors import EmbeddedPostgresError
from jobs.schema import SchemaTooNew, make_ready


def make_database_ready() -> None:
    """
    Have the database reachable, and its tables as this program needs them.

    Raises:
        CommandError: that cannot be.
    """
    try:
        make_ready()
    except (EmbeddedPostgresError, SchemaTooNew) as error:
        raise CommandError(str(error), returncode=2) from error
    except DatabaseError as error:
        raise CommandError(
            f"The database cannot be used: {str(error).strip().splitlines()[0]}", returncode=2
        ) from error
