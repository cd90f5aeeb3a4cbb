"""A manager node: it owns groups, stuffs them, and leads if it is elected. It may also serve the pages."""

import argparse
import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from crawlctl.processes import services
from crawlctl.processes.child_service import run_beside
from crawlctl.web import sockets
from crawlctl.web.sockets import BadAddress
from jobs.loops import daemons
from jobs.loops.manager import ManagerFailed
from jobs.metrics.table import shown_by
from nodes.assignment.names import DEFAULT
from nodes.distributed import Tuning
from nodes.distributed.engine.discovery import jobs_added
from nodes.distributed.engine.metrics import metrics_of_jobs
from nodes.distributed.management.refusals import refusals_of_jobs
from nodes.distributed.process import JobsOfThisProcess, name_of_this_process
from nodes.distributed.records import DEFAULT_CLUSTER
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.management.attached_option import add_attached_option
from nodes.management.database import check_database, check_room_for_sessions
from nodes.management.metrics_option import add_metrics_options, metrics_shown
from nodes.management.settings_option import add_settings_option, add_short_option
from nodes.metrics.kinds import Process
from nodes.tasks.settings import DEAD_AFTER

# Time that a stopping manager waits for runs of distributed jobs; shorter than that of runjobs.
_RUNS_END_WITHIN: Final = dt.timedelta(seconds=10)


class Command(BaseCommand):
    # The checks would load the pages, which another process serves.
    requires_system_checks: list[str] = []
    help = "Run a manager. It owns throttle groups, offers due documents in batches, and may become the main manager."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--name", default="", help="name of the node on pages (default: its host)")
        parser.add_argument("--scope", default=CLUSTER_SCOPE, help=argparse.SUPPRESS)
        parser.add_argument(
            "--http",
            default="",
            metavar="HOST:PORT",
            help="address at which the manager also serves pages, API and live views",
        )
        add_attached_option(parser)
        parser.add_argument(
            "--jobs", action="store_true", help="also run distributed jobs, as runjobs does (docs/distributed-jobs.md)"
        )
        add_metrics_options(parser)
        add_settings_option(parser)
        add_short_option(
            parser,
            "--considered-dead-after",
            DEAD_AFTER,
            metavar="SECONDS",
            meaning="silence after which the main manager retires a task worker",
        )

    def handle(
        self,
        *_args: Any,
        name: str,
        scope: str,
        http: str,
        attached: bool,
        jobs: bool,
        metrics_port: int,
        metrics_address: str,
        settings_options: list[str],
        **_options: Any,
    ) -> None:
        if not attached:
            # The parent of an attached process has already checked.
            check_database()
            check_room_for_sessions(nodes=2 if jobs else 1, options=settings_options)
        with ExitStack() as ends_with_us:
            ends_with_us.enter_context(
                metrics_shown(
                    shown_by(Process.MANAGER), address=metrics_address, port=metrics_port, more=metrics_of_jobs
                )
            )
            address = self._serve_beside(http, ends_with_us) if http else ""
            if jobs:
                ends_with_us.enter_context(_distributed_jobs(settings_options))
            try:
                daemons.run_manager(
                    name=name, scope=scope, address=address, options=settings_options, attached=attached
                )
            except ManagerFailed as failed:
                raise CommandError(f"The manager ends: {failed}", returncode=1) from failed

    def _serve_beside(self, http: str, ends_with_us: ExitStack) -> str:
        """
        Serve the pages in a second process, so that requests do not delay the manager's loop. Return the address.

        This process holds the socket, so no other process gets the address while the web server restarts.
        """
        try:
            listener, host = sockets.listen_at(http)
        except BadAddress as error:
            raise CommandError(f"--http: {error}", returncode=2) from error
        ends_with_us.enter_context(listener)
        ends_with_us.enter_context(run_beside(services.web_server(listener, host=host)))
        address = sockets.address_of(listener, host=host)
        self.stdout.write(address)
        self.stdout.flush()
        return address


@contextmanager
def _distributed_jobs(settings_options: list[str]) -> Iterator[None]:
    """Run distributed jobs in separate threads, while the manager works. No crawl waits for them."""
    with ExitStack() as at_work:
        with refusals_of_jobs():
            jobs = JobsOfThisProcess(
                jobs_added(named=settings.CRAWLCTL_DISTRIBUTED_JOBS),
                cluster=DEFAULT_CLUSTER,
                node=name_of_this_process(),
                strategy=DEFAULT,
                tuning=Tuning(stop_within=_RUNS_END_WITHIN),
                options=settings_options,
            )
            at_work.enter_context(jobs.at_work())
        # Errors of the manager in this block are not errors of distributed jobs, so `refusals_of_jobs` does not
        # surround it.
        yield
        with refusals_of_jobs():
            at_work.close()
