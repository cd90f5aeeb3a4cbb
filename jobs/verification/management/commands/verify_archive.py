"""`manage.py verify_archive`: compare archives with their rows and their copies, and repair them."""

import argparse
import getpass
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.models import ArchiveFault, ArchiveVerification
from jobs.verification.archives import verbs
from nodes.errors import Invalid, Refused
from nodes.management.database import check_database

# Faults that the command names without --all.
_SHOWN: Final = 20


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = (
        "Compare the files of all archives with their rows (docs/verification.md): the local copies of this machine, and "
        "the copies in stores. Ends with 1 if a fault was found and not repaired."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sample", type=float, metavar="PERCENT", help="compare a random share of the files")
        parser.add_argument(
            "--repair",
            action="store_true",
            help="write damaged copies again from whole ones, and read documents again whose body is lost",
        )
        parser.add_argument(
            "--lost-machine",
            metavar="NAME",
            default="",
            help="count the local copies of this machine as deleted, because it never comes back",
        )
        parser.add_argument("--all", action="store_true", help=f"name all faults, and not only {_SHOWN}")

    def handle(self, *_args: Any, **given: Any) -> None:
        check_database()
        try:
            done = verbs.verify_archive(
                sample=given["sample"],
                repairs=given["repair"],
                lost_machine=given["lost_machine"],
                made_by=getpass.getuser(),
            )
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Refused as refused:
            raise CommandError(str(refused), returncode=2) from refused
        self._show(done, shown=None if given["all"] else _SHOWN)
        if done.faults > done.repaired:
            advice = "Verify the archive again later." if done.repairs else "Repair them with --repair."
            raise CommandError(f"{done.faults - done.repaired:,} faults are left. {advice}", returncode=1)

    def _show(self, done: ArchiveVerification, *, shown: int | None) -> None:
        for fault in ArchiveFault.objects.filter(verification=done)[:shown]:
            self.stdout.write(f"{fault.kind} {fault} {fault.result}".rstrip())
        counts = ", ".join(
            f"{number:,} {kind.label}" for kind in ArchiveFault.Kind if (number := getattr(done, kind.value))
        )
        self.stdout.write(f"{done.files:,} files with {done.records:,} records: {counts or 'no faults'}.")
        if done.skipped:
            self.stdout.write(
                f"{done.skipped:,} copies were skipped, because they are on other machines, or their store does not answer."
            )
