"""`manage.py explain URL`: the gates of an address in order, in each job that knows it."""

import argparse
import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from jobs.explain import words
from jobs.explain.explaining import Section, explain
from jobs.explain.gates import Judgement
from jobs.models import Job
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.management.database import check_database
from nodes.web import formats

# Width of the names of gates.
_WIDTH: Final = 18


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Explain why an address is, or is not, fetched and indexed: all gates of the crawl in order."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("url", help="address to explain, in any form")
        parser.add_argument("--job", help="only this job, even if it does not know the address")

    def handle(self, *_args: Any, url: str, job: str | None, **_options: Any) -> None:
        check_database()
        job_id = None if job is None else _job_named(job)
        now = read_clock()
        try:
            found = explain(url, job_id=job_id, now=now)
        except Invalid as invalid:
            raise CommandError(str(invalid), returncode=2) from invalid
        self.stdout.write(found.address.identifier)
        self._print_gates(None, found.gates, now=now)
        if not found.sections and not found.gates:
            self.stdout.write("No job knows this address, and no job exists that could.")
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


def _times(gate: Judgement, *, now: dt.datetime) -> list[str]:
    since = [f"Since {formats.moment(gate.since, now=now)}."] if gate.since else []
    return [*since, f"Until {formats.moment(gate.until, now=now)}."] if gate.until and gate.until > now else since


def _job_named(name: str) -> int:
    found = Job.objects.filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        raise CommandError(f"No job has the name {name!r}.", returncode=2)
    return found
