"""`manage.py move GROUP --to NODE`: hand one group of seeds over to another manager."""

import argparse
import getpass
import uuid
from typing import Any

from django.core.management.base import BaseCommand

from jobs.management.cluster_requests import ask, lines_about
from jobs.verbs.cluster import move_group
from nodes.database.clock import read_clock
from nodes.management.database import check_database


class Command(BaseCommand):
    requires_system_checks: list[str] = []
    help = "Hand one group of seeds over to another manager, without a pause."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("group", type=int, help="ID of the group, as shown by GET /api/v1/groups/")
        parser.add_argument("--to", type=uuid.UUID, required=True, metavar="NODE", help="ID of a running manager")

    def handle(self, *_args: Any, group: int, to: uuid.UUID, **_options: Any) -> None:
        check_database()
        request = ask(lambda: move_group(group, to=to, made_by=getpass.getuser(), now=read_clock()))
        for line in lines_about(request):
            self.stdout.write(line)
