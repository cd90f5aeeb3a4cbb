"""Django's `migrate`, which refuses to change tables of a newer version, or tables that running nodes use."""

import argparse
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections

from nodes.database.connections import without_timeouts
from nodes.database.schema import NodesBeat, SchemaRefused, refuse_other_versions, refuse_while_nodes_beat


class Command(migrate.Command):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)  # type: ignore[arg-type]
        parser.add_argument(
            "--force",
            action="store_true",
            help="migrate while managers and workers run; counters may be wrong afterwards",
        )

    def handle(self, *args: Any, force: bool = False, **options: Any) -> None:
        connection = connections[options["database"]]
        try:
            refuse_other_versions()
            if not (force or options["plan"] or options["check_unapplied"]):
                refuse_while_nodes_beat(has_target=bool(options["app_label"]))
        except (SchemaRefused, NodesBeat) as error:
            raise CommandError(str(error), returncode=2) from error
        connection.ensure_connection()
        with without_timeouts(connection.connection):
            super().handle(*args, **options)
