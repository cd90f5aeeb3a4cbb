"""`manage.py verify_output NAME`: compare an output with its record, and repair it."""

import argparse
import getpass
from typing import Any

from django.core.management.base import CommandError

from jobs.models import OutputConnection, OutputFault, OutputVerification
from jobs.verification import verbs
from jobs.verification.all_partitions import Begun
from jobs.verification.listing import SHOWN, VerifyingCommand, lines_of
from nodes.errors import Invalid, Refused
from nodes.management.database import check_database
from nodes.permissions import may_do_everything


class Command(VerifyingCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = (
        "Compare the documents of an output with the record of the crawl (docs/verification.md). A file is read on this machine. "
        "Ends with 1 if documents differ and were not repaired."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the output's name")
        parser.add_argument("--sample", type=float, metavar="PERCENT", help="compare a random share of the documents")
        parser.add_argument(
            "--repair", action="store_true", help="read missing and stale documents again, and remove ghosts"
        )
        parser.add_argument("--most", type=int, metavar="N", help="repair at most N documents")
        parser.add_argument(
            "--allow-removals", action="store_true", help="remove ghosts above the thresholds of the delete guard, too"
        )
        parser.add_argument("--all", action="store_true", help=f"name all documents, and not only {SHOWN}")

    def handle(self, *_args: Any, name: str, **given: Any) -> None:
        check_database()
        output = OutputConnection.objects.filter(name=name).first()
        if output is None:
            raise CommandError(f"No output has the name {name!r}.", returncode=2)
        if not self.schedule_elsewhere({**given, "output": output}):
            return
        try:
            done = verbs.verify_output(
                output,
                sample=given["sample"],
                repairs=given["repair"],
                most=given["most"],
                allows_removals=given["allow_removals"],
                made_by=getpass.getuser(),
            )
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except Refused as refused:
            raise CommandError(str(refused), returncode=2) from refused
        self._show(done, names_all=given["all"])
        if done.faults > done.repaired:
            raise CommandError(self._advice(done), returncode=1)

    def schedule(self, partition: str, **given: Any) -> Begun[int | None]:
        return verbs.start_everywhere(
            given["output"].pk,
            describe=lambda made: made.task,
            partition=partition,
            with_own=False,
            sample=given["sample"],
            repairs=given["repair"],
            most=given["most"],
            allows_removals=given["allow_removals"],
            may=may_do_everything,
            made_by=getpass.getuser(),
        )

    def _show(self, done: OutputVerification, *, names_all: bool) -> None:
        for line in lines_of(OutputFault.objects.filter(verification=done), names_all=names_all):
            self.stdout.write(line)
        in_sync = f"{verbs.share_in_sync(done):.3f} % of {done.documents:,} documents are in sync"
        self.stdout.write(f"{in_sync}: {done.missing:,} missing, {done.ghost:,} ghost, {done.stale:,} stale.")
        if done.damaged:
            self.stdout.write(f"Damaged lines that were skipped: {done.damaged:,}.")
        if done.skipped:
            self.stdout.write(f"Documents that were skipped, because a worker has them: {done.skipped:,}.")
        if done.repairs:
            self.stdout.write(f"Repaired documents: {done.repaired:,}. The next run of their jobs reads them.")

    def _advice(self, done: OutputVerification) -> str:
        if done.question:
            return done.question
        if done.repairs:
            return f"Documents that were not repaired: {done.faults - done.repaired:,}. Verify the output again later."
        return f"Documents that differ: {done.faults:,}. Repair them with --repair."
