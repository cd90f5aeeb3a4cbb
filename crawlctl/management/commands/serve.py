"""The web server: pages, the API, live views. Not a node; no crawl waits for it."""

import argparse
import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from crawlctl import sockets, webserver
from jobs.management.database import look_at_the_database
from jobs.settings.running import current
from jobs.settings.table import PORT


class Command(BaseCommand):
    help = "Run the web server: pages, the API and live views."
    # `manage.py check` looks at the pages; a server that starts need not.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
        parser.add_argument(
            "--port", type=int, default=current()[PORT], help="first port to try (CRAWLCTL_PORT, %(default)s)"
        )
        parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
        parser.add_argument(
            "--attached", action="store_true", help="stop when standard input closes, as when the parent dies"
        )

    def handle(self, *_args: Any, host: str, port: int, fd: int | None, attached: bool, **_options: Any) -> None:
        if not attached:
            # The parent of an attached one has looked.
            look_at_the_database()
        if fd is not None:
            listener = socket.socket(fileno=fd)
        else:
            try:
                listener = sockets.listen(host=host, port=port)
            except OSError as error:
                raise CommandError(f"Cannot listen on {host}: {error.strerror}.", returncode=1) from error
            self.stdout.write(sockets.address_of(listener, host=host))
            self.stdout.flush()
        with listener:
            webserver.serve(listener, host=host, attached=attached)
