"""The command `runjobs`: a node that runs distributed jobs, and shares them with the other nodes of its cluster."""

import argparse
import datetime as dt
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from nodes.assignment.names import DEFAULT
from nodes.coordination.opening import ZOOKEEPER
from nodes.distributed import Tuning
from nodes.distributed.engine.discovery import jobs_added
from nodes.distributed.engine.metrics import METRICS, metrics_of_jobs
from nodes.distributed.management.refusals import refusals_of_jobs
from nodes.distributed.process import JobsOfThisProcess, name_of_this_process, run_jobs
from nodes.distributed.records import DEFAULT_CLUSTER
from nodes.management.attached_option import add_attached_option
from nodes.management.database import check_database
from nodes.management.metrics_option import add_metrics_options, metrics_shown
from nodes.management.settings_option import add_settings_option


class Command(BaseCommand):
    # The checks would load the pages, which another process serves.
    requires_system_checks: list[str] = []
    help = "Run distributed jobs (docs/distributed-jobs.md). Each item runs on one node at a time."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--node", default="", help="unique name of the node (default: host and process ID)")
        parser.add_argument("--cluster", default=DEFAULT_CLUSTER, help="name of the cluster (default: %(default)s)")
        parser.add_argument(
            "--strategy", default=DEFAULT, help="assignment strategy (docs/strategies.md; default: %(default)s)"
        )
        parser.add_argument(
            "--stop-within",
            type=float,
            default=Tuning().stop_within.total_seconds(),
            metavar="SECONDS",
            help="time to wait for stopping runs (default: %(default)g)",
        )
        parser.add_argument(
            "--start-within",
            type=float,
            default=Tuning().start_within.total_seconds(),
            metavar="SECONDS",
            help="time to retry the coordination store at the start (default: %(default)g)",
        )
        add_attached_option(parser)
        add_metrics_options(parser)
        add_settings_option(parser)

    def handle(
        self,
        *_args: Any,
        node: str,
        cluster: str,
        strategy: str,
        stop_within: float,
        start_within: float,
        attached: bool,
        metrics_port: int,
        metrics_address: str,
        settings_options: list[str],
        **_options: Any,
    ) -> None:
        if settings.CRAWLCTL_COORDINATION != ZOOKEEPER:
            check_database()
        with (
            refusals_of_jobs(),
            metrics_shown(METRICS, address=metrics_address, port=metrics_port, more=metrics_of_jobs),
        ):
            jobs = JobsOfThisProcess(
                jobs_added(named=settings.CRAWLCTL_DISTRIBUTED_JOBS),
                cluster=cluster,
                node=node or name_of_this_process(),
                strategy=strategy,
                tuning=Tuning(
                    stop_within=_seconds("--stop-within", stop_within),
                    start_within=_seconds("--start-within", start_within),
                ),
                options=settings_options,
            )
            run_jobs(jobs, attached=attached)


def _seconds(option: str, value: float) -> dt.timedelta:
    # NaN makes each comparison false, so this one refuses NaN as well.
    if not 0 < value <= 1e9:
        raise ValueError(f"{option} is {value:g}: write a number of seconds greater than 0")
    return dt.timedelta(seconds=value)
