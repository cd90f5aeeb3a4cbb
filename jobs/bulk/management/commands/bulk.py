"""`manage.py bulk OPERATION JOB`: show the documents of a filter, and change them by a background task."""

import argparse
import getpass
import time
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.bulk import verbs
from jobs.models import Job
from jobs.queue.chosen import Operation
from nodes.errors import Invalid, Refused, Unknown
from nodes.management.database import check_database

_LOOK: Final = 0.2


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = "Retry, re-read, drop or forget documents of a job by a filter. Without --yes, only show them."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        effects = "; ".join(f"{name}: {effect}" for name, effect in verbs.EFFECTS.items())
        parser.add_argument("operation", choices=[*Operation], help=effects)
        parser.add_argument("job", help="name of the job")
        parser.add_argument("--host", default="", help="only of this host")
        parser.add_argument("--code", action="append", default=[], help="only with this result code; repeatable")
        parser.add_argument("--pattern", default="", help="only identifiers that match this regular expression")
        parser.add_argument(
            "--fetched-before", default="", metavar="DATE", help="only if not fetched since this moment"
        )
        parser.add_argument("--yes", action="store_true", help="change the documents, and wait for the end")

    def handle(self, *_args: Any, operation: str, job: str, yes: bool, **given: Any) -> None:
        check_database()
        found = Job.objects.filter(name=job).first()
        if found is None:
            raise CommandError(f"No job has the name {job!r}.", returncode=2)
        filter_ = {
            "host": given["host"],
            "codes": given["code"],
            "pattern": given["pattern"],
            "fetched_before": given["fetched_before"],
        }
        try:
            shown = verbs.preview(operation, found.pk, filter_, may=_may)
            self.stdout.write(f"{operation}: {shown.documents:,} documents of {job}.")
            for example in shown.examples:
                self.stdout.write(f"  {example.identifier} {example.result} {example.result_code}".rstrip())
            if yes:
                self._carry_out(shown)
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Unknown as unknown:
            raise CommandError(str(unknown), returncode=2) from unknown
        except Refused as refused:
            raise CommandError(str(refused), returncode=1) from refused

    def _carry_out(self, shown: verbs.Preview) -> None:
        made = verbs.start(shown.token, may=_may, made_by=getpass.getuser())
        self.stdout.write(f"Task {made.task} is scheduled.")
        while (state := verbs.state_of(made)) in {"waiting", "running"}:
            time.sleep(_LOOK)
            made.refresh_from_db()
        self.stdout.write(f"Changed {made.changed:,} documents, skipped {made.skipped:,} claimed ones.")
        if state != "done":
            raise CommandError(f"The operation ended early; `task show {made.task}` has the reason.", returncode=1)


def _may(_permission: str) -> bool:
    """Return True: a local user with access to the database may do everything."""
    return True
