"""A manager node: owns groups, stuffs them, and is main if it is elected. It may serve the pages, too."""

import argparse
from contextlib import ExitStack
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from crawlctl import services, sockets
from crawlctl.beside import run_beside
from crawlctl.sockets import BadAddress
from jobs.loops import daemons
from jobs.loops.manager import ManagerFailed
from jobs.management.database import look_at_sessions, look_at_the_database
from jobs.management.settings_option import add_settings_option
from nodes.lifecycle import CLUSTER_SCOPE


class Command(BaseCommand):
    # What the checks look at is loaded by who serves pages, which is another process.
    requires_system_checks: list[str] = []
    help = "Run a manager: it owns throttle groups, stuffs due documents into batches, and may be elected main."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--name", default="", help="what the node is called on its page (default: its host)")
        parser.add_argument("--scope", default=CLUSTER_SCOPE, help=argparse.SUPPRESS)
        parser.add_argument(
            "--http", default="", metavar="HOST:PORT", help="also serve pages, API and live views at this address"
        )
        parser.add_argument(
            "--attached", action="store_true", help="stop when standard input closes, as when the parent dies"
        )
        add_settings_option(parser)

    def handle(
        self, *_args: Any, name: str, scope: str, http: str, attached: bool, settings_said: list[str], **_options: Any
    ) -> None:
        if not attached:
            # The parent of an attached one has looked.
            look_at_the_database()
            look_at_sessions(nodes=1)
        with ExitStack() as ends_with_us:
            address = self._serve_beside(http, ends_with_us) if http else ""
            try:
                daemons.run_manager(name=name, scope=scope, address=address, options=settings_said, attached=attached)
            except ManagerFailed as failed:
                raise CommandError(f"The manager ends: {failed}", returncode=1) from failed

    def _serve_beside(self, http: str, ends_with_us: ExitStack) -> str:
        """
        Serve the pages in a process beside this one: requests must not hold up the manager's loop. Returns where.

        The address is this process's, so nobody else gets it while the web part is started again.
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
