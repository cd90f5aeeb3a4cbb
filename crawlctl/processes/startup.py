"""The first step of every command that starts processes. Its errors are sentences."""

from django.core.management.base import CommandError
from django.db import Error as DatabaseError

from crawlctl.postgres.errors import EmbeddedPostgresError
from nodes.database.schema import SchemaRefused, make_ready


def make_database_ready() -> None:
    """
    Make the database reachable, and its tables as this version needs them.

    Raises:
        CommandError: the database cannot be reached, or its tables cannot be used.
    """
    try:
        make_ready()
    except (EmbeddedPostgresError, SchemaRefused) as error:
        raise CommandError(str(error), returncode=2) from error
    except DatabaseError as error:
        raise CommandError(
            f"The database cannot be used: {str(error).strip().splitlines()[0]}", returncode=2
        ) from error
