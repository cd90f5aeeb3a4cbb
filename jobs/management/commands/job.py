"""`manage.py job NAME VERB`: the actions of a job's page."""

import argparse
import getpass
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.models import Job
from jobs.verbs import control, schedules
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.management.database import check_database

# This verb returns a number of documents instead of a state.
_SEND_BACK: Final = "send-back"
# Verbs that change the schedule of the job, and not its state.
_OF_SCHEDULES: Final = {"pause-schedule": schedules.pause, "resume-schedule": schedules.resume}


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Show the state of a job, or perform an action on it."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", help="the job's name")
        parser.add_argument(
            "verb", nargs="?", choices=(*control.VERBS, _SEND_BACK, *_OF_SCHEDULES), help="the action to perform"
        )
        parser.add_argument(
            "--code",
            action="append",
            default=[],
            help="with send-back: only documents that failed with this result code",
        )

    def handle(self, *_args: Any, name: str, verb: str | None, code: list[str], **_options: Any) -> None:
        check_database()
        if code and verb != _SEND_BACK:
            raise CommandError("--code needs the action send-back.", returncode=2)
        job = Job.objects.filter(name=name).first()
        if job is None:
            raise CommandError(f"No job has the name {name!r}.", returncode=2)
        if verb is not None:
            try:
                job = self._ask(job, verb, codes=code)
            except NotDone as refused:
                raise CommandError(str(refused), returncode=1) from refused
        self.stdout.write(
            f"{job.name}: {job.status} ({job.manifoldcf_status}){f': {job.reason}' if job.reason else ''}"
        )

    def _ask(self, job: Job, verb: str, *, codes: list[str]) -> Job:
        made_by, now = getpass.getuser(), read_clock()
        if verb in _OF_SCHEDULES:
            return _OF_SCHEDULES[verb](job.pk, made_by=made_by, now=now)
        if verb != _SEND_BACK:
            return control.VERBS[verb].perform(job.pk, made_by=made_by, now=now).job
        sent = control.send_back_failed(job.pk, codes=codes, made_by=made_by, now=now)
        more = " More failed documents are left: repeat the command." if sent.has_more else ""
        self.stdout.write(f"Failed documents to be retried: {sent.documents:,}.{more}")
        if sent.left_out:
            raise CommandError(
                f"Nothing was done in partition {', '.join(sent.left_out)}: no answer, or the job starts or ends there. "
                "Repeat the command.",
                returncode=1,
            )
        return job
