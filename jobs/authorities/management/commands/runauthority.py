"""Runs the authority service as a separate process. The process is not a node, and no crawl waits for it."""

import argparse
import asyncio
import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from jobs.authorities.server import serve
from jobs.metrics.table import shown_by
from jobs.settings.authorities import PORT
from nodes.management.attached_option import add_attached_option
from nodes.management.database import check_database
from nodes.management.metrics_option import add_metrics_options, metrics_shown
from nodes.metrics.kinds import Process
from nodes.settings.running import current, follow_newest


class Command(BaseCommand):
    help = "Run the authority service: access tokens of users, in ManifoldCF's protocol (docs/authorities.md)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="listen address (default: %(default)s)")
        parser.add_argument(
            "--port",
            type=int,
            default=current()[PORT],
            help="port to listen on (CRAWLCTL_AUTHORITY_PORT, default: %(default)s)",
        )
        add_attached_option(parser)
        add_metrics_options(parser)

    def handle(
        self,
        *_args: Any,
        host: str,
        port: int,
        attached: bool,
        metrics_port: int,
        metrics_address: str,
        **_options: Any,
    ) -> None:
        check_database()
        follow_newest()
        connection.close()
        with (
            metrics_shown(shown_by(Process.AUTHORITY), address=metrics_address, port=metrics_port),
            _listen(host, port) as listener,
        ):
            name = f"[{host}]" if ":" in host else host
            self.stdout.write(f"http://{name}:{listener.getsockname()[1]}/UserACLs")
            self.stdout.flush()
            asyncio.run(serve(listener, attached=attached))


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise CommandError(
            f"{port} is not a port: write a number from 1 to 65535, or 0 for any free one.", returncode=2
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        raise CommandError(f"Cannot listen on {host}:{port}: {error}.", returncode=2) from error
