"""`manage.py drain NODE`: let a node finish what it has begun, hand over what it holds, and stop."""

import argparse
import getpass
import uuid
from typing import Any

from django.core.management.base import BaseCommand

from jobs.management.cluster_requests import ask, lines_about
from jobs.verbs.cluster import drain_node
from nodes.database.clock import read_clock
from nodes.management.database import check_database


class Command(BaseCommand):
    requires_system_checks: list[str] = []
    help = "Drain a manager or a worker: it finishes documents in progress, hands over or returns the rest, and stops."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("node", type=uuid.UUID, help="ID of the node, as shown by GET /api/v1/nodes/")

    def handle(self, *_args: Any, node: uuid.UUID, **_options: Any) -> None:
        check_database()
        request = ask(lambda: drain_node(node, made_by=getpass.getuser(), now=read_clock()))
        for line in lines_about(request):
            self.stdout.write(line)
