"""`manage.py chain VERB`: chains of jobs."""

import argparse
import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.lifecycle.job import Overlap
from jobs.models import Job, JobChain
from jobs.verbs import chains
from nodes.errors import Invalid, NotDone
from nodes.management.database import check_database


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Show chains of jobs, or let a job start after another one has ended well."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="list all chains")
        for verb, said in (("add", "let a job start after another one has ended well"), ("remove", "remove a chain")):
            of_two = verbs.add_parser(verb, help=said)
            of_two.add_argument("predecessor", help="name of the job whose end starts the other one")
            of_two.add_argument("successor", help="name of the job that is started")
            if verb == "add":
                of_two.add_argument(
                    "--overlap",
                    choices=[overlap.value for overlap in Overlap],
                    default=Overlap.SKIP.value,
                    help="effect if the successor runs (default: %(default)s)",
                )

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        check_database()
        if verb == "list":
            for chain in JobChain.objects.select_related("predecessor", "successor"):
                self.stdout.write(f"{chain.predecessor.name} → {chain.successor.name} ({chain.overlap})")
            return
        predecessor, successor = (self._find(given[name]) for name in ("predecessor", "successor"))
        try:
            if verb == "add":
                chains.add(predecessor.pk, successor.pk, overlap=given["overlap"], made_by=getpass.getuser())
                self.stdout.write(f"Job {successor.name} starts after job {predecessor.name} has ended well.")
                return
            found = JobChain.objects.filter(predecessor=predecessor, successor=successor).first()
            if found is None:
                raise CommandError(f"No chain leads from {predecessor.name} to {successor.name}.", returncode=2)
            chains.remove(found.pk, made_by=getpass.getuser())
        except Invalid as invalid:
            raise CommandError(invalid.by_field, returncode=2) from invalid
        except NotDone as refused:
            raise CommandError(str(refused), returncode=1) from refused
        self.stdout.write(f"Job {successor.name} no longer starts after job {predecessor.name}.")

    @staticmethod
    def _find(name: str) -> Job:
        job = Job.objects.filter(name=name).first()
        if job is None:
            raise CommandError(f"No job has the name {name!r}.", returncode=2)
        return job
