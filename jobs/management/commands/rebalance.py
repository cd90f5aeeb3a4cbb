"""`manage.py rebalance [--dry-run]`: spread the groups of seeds evenly over the managers."""

import argparse
import getpass
from typing import Any

from django.core.management.base import BaseCommand

from jobs.management.cluster_requests import ask, lines_about
from jobs.verbs.cluster import rebalance
from nodes.database.clock import read_clock
from nodes.management.database import check_database


class Command(BaseCommand):
    requires_system_checks: list[str] = []
    help = "Balance the groups of seeds over the managers with few moves."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print the plan and move nothing")

    def handle(self, *_args: Any, dry_run: bool, **_options: Any) -> None:
        check_database()
        request = ask(lambda: rebalance(dry_run=dry_run, made_by=getpass.getuser(), now=read_clock()))
        for line in lines_about(request):
            self.stdout.write(line)
