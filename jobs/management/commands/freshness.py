"""`manage.py freshness JOB`: the freshness goals of a job with the achieved shares."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder

from jobs.models import Job
from jobs.queries.jobs.freshness import read_freshness_everywhere
from jobs.words import freshness as words
from nodes.management.database import check_database


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Show the freshness goals of a job, the achieved shares, and the hosts that are too slow."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", help="name of the job")
        parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")

    def handle(self, *_args: Any, name: str, **options: Any) -> None:
        check_database()
        job = Job.objects.filter(name=name).only("pk").first()
        found = read_freshness_everywhere(job.pk) if job is not None else None
        if found is None:
            raise CommandError(f"No job has the name {name!r}.", returncode=2)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(found), cls=DjangoJSONEncoder))
            return
        if not found.goals:
            self.stdout.write(f"Job {name} has no freshness goals.")
        for line in found.goals:
            row = words.goal_row(line)
            self.stdout.write(
                f"{row['pattern']}: {row['goal']}: {row['state']}. {row['achieved']} of {row['documents']} documents are fresh, "
                f"{row['expected']} expected. Needs {row['needs']}, gets {row['gets']}."
            )
        for host in found.slow_hosts:
            self.stdout.write(words.slow_host(host))
        for partition in found.silent:
            self.stderr.write(f"Partition {partition} does not answer. The true numbers of documents may be higher.")
