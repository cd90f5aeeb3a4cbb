"""`manage.py drain NODE`: let a node finish what it has begun, hand over what it holds, and stop."""

import argparse
import getpass
import uuid
from typing import Any

from django.core.management.base import BaseCommand

from jobs import control
from jobs.management.cluster_requests import ask, lines_about
from jobs.management.database import look_at_the_database
from jobs.queries.clock import read_clock


class Command(BaseCommand):
    requires_system_checks: list[str] = []
    help = "Let a manager or a worker finish what it has begun, hand over what it holds, and stop."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("node", type=uuid.UUID, help="its id; the page of nodes shows it")

    def handle(self, *_args: Any, node: uuid.UUID, **_options: Any) -> None:
        look_at_the_database()
        request = ask(lambda: control.drain_node(node, made_by=getpass.getuser(), now=read_clock()))
        for line in lines_about(request):
            self.stdout.write(line)
