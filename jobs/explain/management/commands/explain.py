"""`manage.py explain URL`: the gates of an address in order, in each job that knows it."""

import argparse
import datetime as dt
import getpass
from collections.abc import Callable, Sequence
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.explain import words
from jobs.explain.all_partitions import ExplainedEverywhere, explain_everywhere
from jobs.explain.explaining import Explained, Section
from jobs.explain.gates import Judgement
from jobs.models import Job
from jobs.verbs import documents
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused
from nodes.management.database import check_database
from nodes.web import formats

# Width of the column with the names of gates (characters).
_WIDTH: Final = 18


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Explain why an address is, or is not, fetched and indexed: all gates of the crawl in order."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("url", help="address to explain, in any form")
        parser.add_argument("--job", help="only this job, even if it does not know the address")

        change = parser.add_mutually_exclusive_group()
        change.add_argument("--fetch-again", action="store_true", help="make the document of --job due now")
        change.add_argument("--forget", action="store_true", help="remove the document of --job from the queue")

    def handle(self, *_args: Any, url: str, job: str | None, **given: Any) -> None:
        check_database()
        job_id = None if job is None else _job_named(job)
        verb = documents.fetch_again if given["fetch_again"] else documents.forget if given["forget"] else None
        if verb is not None and job_id is None:
            raise CommandError("--fetch-again and --forget need --job.", returncode=2)
        try:
            answer = explain_everywhere(url, job_id=job_id, now=read_clock())
            if verb is not None and job_id is not None:
                _change(verb, answer, job_id)
                answer = explain_everywhere(url, job_id=job_id, now=read_clock())
        except Invalid as invalid:
            raise CommandError(str(invalid), returncode=2) from invalid
        except Refused as refused:
            raise CommandError(str(refused), returncode=1) from refused
        for silent in answer.silent:
            self.stderr.write(f"Partition {silent.name} does not answer. It may know more about this address.")
        if answer.partition:
            self.stdout.write(f"Partition {answer.partition} has this address, and explains it.")
        self._print(answer.found, now=read_clock())

    def _print(self, found: Explained, *, now: dt.datetime) -> None:
        self.stdout.write(found.address.identifier)
        self._print_gates(None, found.gates, now=now)
        if not found.sections and not found.gates:
            self.stdout.write("No job knows this address, because no job exists.")
        for section in found.sections:
            kind = "Forecast for job" if section.is_forecast else "Job"
            self.stdout.write(f"\n{kind} {section.job.name}: {' '.join(words.headline(section, now=now))}")
            self._print_gates(section, section.gates, now=now)
            for step in section.way:
                self.stdout.write(f"  {'path':{_WIDTH}} {step.identifier}")
            for step in section.referrers:
                self.stdout.write(f"  {'linked from':{_WIDTH}} {step.identifier}")
        if found.more:
            self.stdout.write(f"\nAlso known to: {', '.join(found.more.values())}")

    def _print_gates(self, section: Section | None, gates: Sequence[Judgement], *, now: dt.datetime) -> None:
        is_forecast = section is None or section.is_forecast
        host = section.host if section is not None else None
        for gate in gates:
            said = [words.sentence(gate, host=host, now=now), words.remedy(gate), *_times(gate, now=now)]
            status = words.status(gate, is_forecast=is_forecast)
            self.stdout.write(f"  {words.name(gate):{_WIDTH}} {status}: {' '.join(filter(None, said))}".rstrip(" :"))


def _change(verb: Callable[..., object], answer: ExplainedEverywhere, job_id: int) -> None:
    item = answer.found.sections[0].item if answer.found.sections else None
    if item is None and answer.silent:
        names = ", ".join(one.name for one in answer.silent)
        raise CommandError(f"No answer from partition {names}, which may have this document. Try again later.")
    if item is None:
        raise CommandError("The job does not know this address.", returncode=2)
    verb(job_id, document=item.hash, made_by=getpass.getuser(), now=read_clock())


def _times(gate: Judgement, *, now: dt.datetime) -> list[str]:
    since = [f"Since {formats.moment(gate.since, now=now)}."] if gate.since else []
    return [*since, f"Until {formats.moment(gate.until, now=now)}."] if gate.until and gate.until > now else since


def _job_named(name: str) -> int:
    found = Job.objects.filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        raise CommandError(f"No job has the name {name!r}.", returncode=2)
    return found
