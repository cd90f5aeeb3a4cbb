"""`manage.py restore NAME`: restore the removals of a run, or a deleted job."""

import argparse
import datetime as dt
import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime

from jobs.loops.restoring import perform_restoration
from jobs.models import Job, OutputConnection, Restoration
from jobs.verbs import restoring_everywhere as restoring
from jobs.verbs.restoring import find_deleted
from jobs.verbs.restoring_everywhere import RequestedRestorations
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.management.database import check_database


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Restore the removals of a run, or a deleted job, without requests to the source."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", help="the job's name")
        parser.add_argument(
            "--run", type=int, metavar="N", help="number of the run (default: the newest with removals)"
        )
        parser.add_argument(
            "--since", metavar="TIME", help="restore only later removals, such as 2030-01-31T12:00+00:00"
        )
        parser.add_argument(
            "--output",
            metavar="NAME",
            help="restore the documents that were removed from this output; the job gets the output back",
        )
        parser.add_argument("--deleted", action="store_true", help="restore the last deleted job with this name")

    def handle(self, *_args: Any, name: str, **given: Any) -> None:
        check_database()
        try:
            asked = self._restore_deleted_job(name) if given["deleted"] else self._ask(name, given)
        except NotDone as refused:
            raise CommandError(str(refused), returncode=1) from refused
        for one in asked.restorations:
            if one.partition:
                self.stdout.write(f"Partition {one.partition}: workers are restoring its documents of {name}.")
            else:
                self._perform(name, one)
        if asked.problems:
            raise CommandError(" ".join(asked.problems), returncode=1)

    def _perform(self, name: str, wanted: Restoration) -> None:
        done = perform_restoration(wanted)
        self.stdout.write(f"{name}: restored documents: {done.restored:,}.")
        if done.unread:
            self.stdout.write(
                f"The texts of {done.unread:,} more documents are not stored. The next run fetches these documents again."
            )
        if done.refused:
            raise CommandError(done.refused, returncode=1)

    def _ask(self, name: str, given: dict[str, Any]) -> RequestedRestorations:
        job = Job.objects.filter(name=name).first()
        if job is None:
            raise CommandError(f"No job has the name {name!r}. To restore a deleted job, add --deleted.", returncode=2)
        if given["output"]:
            return self._restore_output_of_job(job, given["output"])
        since = _moment(given["since"]) if given["since"] else None
        return restoring.restore(job.pk, run_no=given["run"], since=since, made_by=getpass.getuser(), now=read_clock())

    def _restore_output_of_job(self, job: Job, name: str) -> RequestedRestorations:
        output = OutputConnection.objects.filter(name=name).first()
        if output is None:
            raise CommandError(f"There is no output named {name!r}.", returncode=2)
        return restoring.restore_output(job.pk, output.pk, made_by=getpass.getuser(), now=read_clock())

    def _restore_deleted_job(self, name: str) -> RequestedRestorations:
        deleted = find_deleted(name)
        if deleted is None:
            raise CommandError(f"No deleted job has the name {name!r}, or its retention has passed.", returncode=2)
        return restoring.restore_deleted(deleted.pk, made_by=getpass.getuser(), now=read_clock())


def _moment(text: str) -> dt.datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        # The text has the form of a date, but is none, such as 30 February.
        moment = None
    if moment is None or moment.tzinfo is None:
        said = f"--since is {text!r}: write a moment with its time zone, such as 2030-01-31T12:00+00:00."
        raise CommandError(said, returncode=2)
    return moment
