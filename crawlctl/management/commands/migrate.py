"""Django's `migrate`, which does not touch the tables of a newer version."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections

from jobs.schema import SchemaTooNew, refuse_newer
from nodes.connections import unhurried


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            refuse_newer()
        except SchemaTooNew as error:
            raise CommandError(str(error), returncode=2) from error
        connection = connections[options["database"]]
        connection.ensure_connection()
        with unhurried(connection.connection):
            super().handle(*args, **options)
