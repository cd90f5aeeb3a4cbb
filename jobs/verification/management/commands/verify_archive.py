"""`manage.py verify_archive`: compare archives with their rows and their copies, and repair them."""

import argparse
import getpass
from typing import Any

from django.core.management.base import CommandError

from jobs.models import ArchiveFault, ArchiveVerification
from jobs.verification.all_partitions import Begun
from jobs.verification.archives import verbs
from jobs.verification.listing import SHOWN, VerifyingCommand, lines_of
from nodes.errors import Invalid, Refused
from nodes.management.database import check_database
from nodes.permissions import may_do_everything


class Command(VerifyingCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = (
        "Compare the files of all archives with their rows (docs/verification.md): the local copies of this machine, and "
        "the copies in stores. Ends with 1 if a fault was found and not repaired."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
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
        parser.add_argument("--all", action="store_true", help=f"name all faults, and not only {SHOWN}")

    def handle(self, *_args: Any, **given: Any) -> None:
        check_database()
        if not self.schedule_elsewhere(given):
            return
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
        self._show(done, names_all=given["all"])
        if done.faults > done.repaired:
            advice = "Verify the archive again later." if done.repairs else "Repair them with --repair."
            raise CommandError(f"Faults that are left: {done.faults - done.repaired:,}. {advice}", returncode=1)

    def schedule(self, partition: str, **given: Any) -> Begun[int | None]:
        return verbs.start_everywhere(
            describe=lambda made: made.task,
            partition=partition,
            with_own=False,
            sample=given["sample"],
            repairs=given["repair"],
            lost_machine=given["lost_machine"],
            may=may_do_everything,
            made_by=getpass.getuser(),
        )

    def _show(self, done: ArchiveVerification, *, names_all: bool) -> None:
        for line in lines_of(ArchiveFault.objects.filter(verification=done), names_all=names_all):
            self.stdout.write(line)
        counts = ", ".join(
            f"{kind.label}: {number:,}" for kind in ArchiveFault.Kind if (number := getattr(done, kind.value))
        )
        self.stdout.write(f"Compared files: {done.files:,}, records: {done.records:,}. Faults: {counts or 'none'}.")
        if done.repairs and done.repaired:
            self.stdout.write(f"Repaired faults: {done.repaired:,}.")
        if done.repairs and done.lost:
            self.stdout.write("The next run of their jobs reads the documents without a body.")
        if done.skipped:
            self.stdout.write(
                f"Copies that were skipped, because they are on other machines, or their store does not answer: {done.skipped:,}."
            )
