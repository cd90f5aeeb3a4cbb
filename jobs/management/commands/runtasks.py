"""A task worker: it executes background tasks, one at a time."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.loops.task_worker import TaskWorkerFailed, run_task_worker
from nodes.management.attached_option import add_attached_option
from nodes.management.database import check_database, check_room_for_sessions
from nodes.management.settings_option import add_settings_option, add_short_option
from nodes.tasks.decisions import ANY
from nodes.tasks.names import GROUP, is_group
from nodes.tasks.settings import CLEAN_AFTER


class Command(BaseCommand):
    # The system checks load the modules of all pages. A daemon serves no pages, so it runs only the checks below.
    requires_system_checks: list[str] = []
    help = "Run a task worker. It executes the background tasks of its group, one at a time (docs/tasks.md)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--name", default="", help="name of the worker on pages (default: its host)")
        parser.add_argument(
            "--work-on",
            default=ANY,
            metavar="GROUP",
            type=_group,
            help="group of its tasks (default: * for all groups)",
        )
        parser.add_argument(
            "--memory-limit",
            type=_megabytes,
            metavar="MB",
            help="memory limit of the executing process, which is replaced after a task that used more",
        )
        add_attached_option(parser)
        add_settings_option(parser)
        add_short_option(
            parser,
            "--clean-after",
            CLEAN_AFTER,
            metavar="SECONDS",
            meaning="age from which the cleaner deletes ended tasks",
        )

    def handle(
        self,
        *_args: Any,
        name: str,
        work_on: str,
        memory_limit: int | None,
        attached: bool,
        settings_options: list[str],
        **_options: Any,
    ) -> None:
        if not attached:
            # An attached process does not repeat the checks of its parent.
            check_database()
            check_room_for_sessions(nodes=1, options=settings_options)
        try:
            run_task_worker(
                name=name, work_on=work_on, memory_limit=memory_limit, options=settings_options, attached=attached
            )
        except TaskWorkerFailed as failed:
            raise CommandError(f"The task worker ends: {failed}", returncode=1) from failed


def _group(value: str) -> str:
    if value != ANY and not is_group(value):
        raise argparse.ArgumentTypeError(f"{value!r} is not a valid group: write {GROUP}, or *")
    return value


def _megabytes(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{value!r} is not a valid limit: write a number of MB from 1 to 1000000")
    return int(value)
