"""`manage.py job NAME VERB`: what the buttons of a job's page do."""

import argparse
import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs import control
from jobs.control import InvalidJob, JobUnknown, TransitionRefused
from jobs.management.database import look_at_the_database
from jobs.models import Job
from jobs.queries.clock import read_clock


class Command(BaseCommand):
    # Standard output is the answer's: checks and warnings would stand in its way.
    requires_system_checks: list[str] = []
    help = "Show how a job stands, or ask something of it."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", help="the job's name")
        parser.add_argument("verb", nargs="?", choices=tuple(control.VERBS), help="what is asked of it")

    def handle(self, *_args: Any, name: str, verb: str | None, **_options: Any) -> None:
        look_at_the_database()
        job = Job.objects.filter(name=name).first()
        if job is None:
            raise CommandError(f"There is no job named {name!r}.", returncode=2)
        if verb is not None:
            try:
                job = control.VERBS[verb].perform(job.pk, made_by=getpass.getuser(), now=read_clock()).job
            except (TransitionRefused, InvalidJob, JobUnknown) as refused:
                raise CommandError(str(refused), returncode=1) from refused
        self.stdout.write(
            f"{job.name}: {job.status} ({job.manifoldcf_status}){f': {job.reason}' if job.reason else ''}"
        )
