"""`manage.py distributed_job VERB [JOB]`: the actions of the page of distributed jobs."""

import argparse
import getpass
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from nodes.coordination.names import BadName, checked
from nodes.database.clock import read_clock
from nodes.distributed.records import ALL, DEFAULT_CLUSTER, OTHERS
from nodes.distributed.verbs import request_rebalance, set_switch
from nodes.management.database import check_database

_SWITCHES: Final = {"disable": True, "enable": False, "reset": None}


class Command(BaseCommand):
    requires_system_checks: list[str] = []
    help = "Disable or enable a distributed job, remove its switch (reset), or rebalance all items. Nodes apply it within seconds."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("verb", choices=(*_SWITCHES, "rebalance"), help="the action to perform")
        of = parser.add_mutually_exclusive_group()
        of.add_argument("job", nargs="?", help="the job's name")
        of.add_argument(
            "--all", action="store_true", help="switch of all distributed jobs; it overrides their own switches"
        )
        of.add_argument("--others", action="store_true", help="switch of the distributed jobs without their own switch")
        parser.add_argument("--cluster", default=DEFAULT_CLUSTER, help="name of the cluster (default: %(default)s)")

    def handle(self, *_args: Any, verb: str, job: str | None, cluster: str, **options: Any) -> None:
        check_database()
        named = ALL if options["all"] else OTHERS if options["others"] else job
        if (named is None) != (verb == "rebalance"):
            wanted = "takes no job" if verb == "rebalance" else "needs a job, --all or --others"
            raise CommandError(f"{verb} {wanted}.", returncode=2)
        made_by, now = getpass.getuser(), read_clock()
        try:
            if job is not None:
                # Refuse the empty name and *, which are the keys of the other two switches.
                checked("job", job)
            if named is None:
                request_rebalance(cluster=cluster, made_by=made_by, now=now)
            else:
                set_switch(cluster=cluster, job=named, is_disabled=_SWITCHES[verb], made_by=made_by, now=now)
        except BadName as bad:
            raise CommandError(str(bad), returncode=2) from bad
        self.stdout.write(f"Requested in the cluster {cluster}: {verb}{'' if not named else f' {named}'}.")
