"""`manage.py retention`: show what retention would delete now, and delete it by a background task."""

import argparse
import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.retention import verbs
from nodes.errors import Unknown
from nodes.management.database import check_database


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = "Show the rows that retention would delete now (docs/tasks.md)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--clean", metavar="SUBJECT", help="schedule the deletion of the old rows of a subject now")

    def handle(self, *_args: Any, clean: str | None, **_options: Any) -> None:
        check_database()
        if clean is not None:
            try:
                task = verbs.clean(clean, made_by=getpass.getuser())
            except Unknown as unknown:
                raise CommandError(str(unknown), returncode=2) from unknown
            self.stdout.write(f"Task {task.pk} is scheduled.")
            return
        for seen in verbs.read_all():
            kept = "" if seen.subject.setting is None else f" ({seen.subject.setting.environment}={seen.days})"
            old = f"{seen.old.rows:,} old rows"
            if seen.old.partitions:
                old += f" in {seen.old.partitions} days of {seen.old.bytes:,} bytes"
            self.stdout.write(f"{seen.subject.name}: {old}; {seen.subject.title}{kept}")
