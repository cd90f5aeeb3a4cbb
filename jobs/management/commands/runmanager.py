"""A manager node: owns groups, stuffs them, and is main if it is elected."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.loops import daemons
from jobs.loops.manager import ManagerFailed
from jobs.management.database import look_at_sessions, look_at_the_database
from jobs.management.settings_option import add_settings_option


class Command(BaseCommand):
    # A daemon serves no pages: what the checks look at is loaded by nobody here.
    requires_system_checks: list[str] = []
    help = "Run a manager: it owns throttle groups, stuffs due documents into batches, and may be elected main."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--name", default="", help="what the node is called on its page (default: its host)")
        parser.add_argument(
            "--attached", action="store_true", help="stop when standard input closes, as when the parent dies"
        )
        add_settings_option(parser)

    def handle(self, *_args: Any, name: str, attached: bool, settings_said: list[str], **_options: Any) -> None:
        if not attached:
            # The parent of an attached one has looked.
            look_at_the_database()
            look_at_sessions(nodes=1)
        try:
            daemons.run_manager(name=name, options=settings_said, attached=attached)
        except ManagerFailed as failed:
            raise CommandError(f"The manager ends: {failed}", returncode=1) from failed
