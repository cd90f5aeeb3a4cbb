"""A worker node. It takes batches, fetches documents, and writes them to the outputs."""

import argparse
import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.loops import daemons
from jobs.loops.worker import WorkerFailed
from jobs.metrics.table import shown_by
from nodes.life.identity import TAG
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.management.attached_option import add_attached_option
from nodes.management.database import check_database, check_room_for_sessions
from nodes.management.metrics_option import add_metrics_options, metrics_shown
from nodes.management.settings_option import add_settings_option
from nodes.metrics.kinds import Process


class Command(BaseCommand):
    # The system checks load the modules of all pages. A daemon serves no pages, so it runs only the checks below.
    requires_system_checks: list[str] = []
    help = "Run a worker. It takes batches, fetches documents and writes them to the outputs."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--name", default="", help="name of the node on pages (default: its host)")
        parser.add_argument(
            "--tag",
            action="append",
            default=[],
            dest="tags",
            type=_tag,
            help="tag of the worker, which lets it read seeds with this tag; repeatable",
        )
        parser.add_argument("--scope", default=CLUSTER_SCOPE, help=argparse.SUPPRESS)
        add_attached_option(parser)
        add_metrics_options(parser)
        add_settings_option(parser)

    def handle(
        self,
        *_args: Any,
        name: str,
        tags: list[str],
        scope: str,
        attached: bool,
        metrics_port: int,
        metrics_address: str,
        settings_options: list[str],
        **_options: Any,
    ) -> None:
        if not attached:
            # An attached process does not repeat the checks of its parent.
            check_database()
            check_room_for_sessions(nodes=1, options=settings_options)
        try:
            with metrics_shown(shown_by(Process.WORKER), address=metrics_address, port=metrics_port):
                daemons.run_worker(
                    name=name, tags=tuple(tags), scope=scope, options=settings_options, attached=attached
                )
        except WorkerFailed as failed:
            raise CommandError(f"The worker ends: {failed}", returncode=1) from failed


def _tag(value: str) -> str:
    if not re.fullmatch(TAG, value):
        raise argparse.ArgumentTypeError(
            f"{value!r} is not a valid tag: write 1 to 64 letters, digits, dots, dashes and underscores"
        )
    return value
