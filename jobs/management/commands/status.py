"""`manage.py status`: print the attention list, for people at a terminal and for scripts."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder

from jobs.attention.all_partitions import read_attention_everywhere
from jobs.attention.lines import AttentionLine
from nodes.database.clock import read_clock
from nodes.database.shared_results import Moment
from nodes.management.database import check_database


class Command(BaseCommand):
    # Standard output carries only the answer, without the warnings of checks.
    requires_system_checks: list[str] = []
    help = "Print everything that needs attention, one line each. Exit code 1 means that there are lines, 0 that there are none."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the lines as one JSON list")

    def handle(self, *_args: Any, **options: Any) -> None:
        check_database()
        with Moment().present():
            lines = read_attention_everywhere(now=read_clock())
        if options["json"]:
            self.stdout.write(json.dumps([asdict(line) for line in lines], cls=DjangoJSONEncoder))
        else:
            for line in lines:
                self.stdout.write(_in_words(line))
            if not lines:
                self.stdout.write("Nothing needs attention.")
        if lines:
            raise CommandError(f"Needs attention: {len(lines)}.", returncode=1)


def _in_words(line: AttentionLine) -> str:
    since = f" (since {line.since:%Y-%m-%d %H:%M:%S} UTC)" if line.since else ""
    partition = f"partition {line.partition}: " if line.partition else ""
    return f"{line.severity}: {partition}{line.subject}: {line.sentence}{since} {line.link}"
