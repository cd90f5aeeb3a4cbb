"""Commands that show a connection by its name, or perform an action on it."""

import argparse
import getpass
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError

from jobs.verbs.connection_checks import Kind
from jobs.verbs.connections import Connection
from nodes.database.clock import read_clock
from nodes.errors import Refused, Unknown
from nodes.management.database import check_database


class ConnectionCommand(BaseCommand):
    """`manage.py KIND NAME [VERB]`: the actions of a connection's page."""

    # Standard output carries only the answer, so system checks and their warnings are not printed.
    requires_system_checks: list[str] = []
    model: ClassVar[Kind]
    noun: ClassVar[str]
    # The verbs by the names that they have in the API, each with its function and its message of success.
    verbs: ClassVar[Mapping[str, tuple[Callable[..., Connection], str]]]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", help=f"the {self.noun}'s name")
        parser.add_argument("verb", nargs="?", choices=tuple(self.verbs), help="the action to perform")

    def handle(self, *_args: Any, name: str, verb: str | None, **_options: Any) -> None:
        check_database()
        found = self.model._default_manager.filter(name=name).first()  # noqa: SLF001 (Django's own word)
        if found is None:
            raise CommandError(f"No {self.noun} has the name {name!r}.", returncode=2)
        if verb is None:
            used_by = ", ".join(found.jobs.order_by("name").values_list("name", flat=True)) or "no job"
            self.stdout.write(f"{found.name}: {found.connector}, used by {used_by}")
            return
        perform, said = self.verbs[verb]
        try:
            perform(found.pk, made_by=getpass.getuser(), now=read_clock())
        except (Unknown, Refused) as gone:
            raise CommandError(str(gone), returncode=1) from gone
        self.stdout.write(said.format(found.name))
