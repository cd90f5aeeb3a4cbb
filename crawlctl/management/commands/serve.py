"""The web server: pages, the API, live views. It is not a node, and no crawl waits for it."""

import argparse
import socket
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from crawlctl.web import server, sockets
from jobs.api.cluster_metrics import refresh_cluster_metrics
from jobs.metrics.table import shown_by
from jobs.models import PartitionFact
from jobs.partitions.agreement import check_other_partitions, check_partitions
from jobs.partitions.this_partition import placement
from jobs.settings.table import PORT
from nodes.database.address import database_dsn
from nodes.database.connections import connect
from nodes.management.attached_option import add_attached_option
from nodes.management.database import check_database
from nodes.management.metrics_option import add_metrics_options, metrics_shown
from nodes.metrics.kinds import Process
from nodes.settings.node_settings import NODE_TIMEOUT
from nodes.settings.running import current


class Command(BaseCommand):
    help = "Run the web server with pages, API and live views."
    # `manage.py check` checks the pages. A starting server need not repeat that.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="listen address (default: %(default)s)")
        parser.add_argument(
            "--port",
            type=int,
            help=f"port to listen on; without it, the first free one from CRAWLCTL_PORT ({current()[PORT]}) on",
        )
        parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
        add_attached_option(parser)
        add_metrics_options(parser, of="the cluster")

    def handle(
        self,
        *_args: Any,
        host: str,
        port: int | None,
        fd: int | None,
        attached: bool,
        metrics_port: int,
        metrics_address: str,
        **_options: Any,
    ) -> None:
        if not attached:
            # The parent of an attached process has already checked.
            check_database()
        current().check()
        _check_partitions()
        with (
            metrics_shown(shown_by(Process.WEB), address=metrics_address, port=metrics_port, refresh=_read_cluster),
            self._listener(host, port) if fd is None else socket.socket(fileno=fd) as listener,
        ):
            server.serve(listener, host=host, attached=attached)

    def _listener(self, host: str, port: int | None) -> socket.socket:
        try:
            listener = sockets.listen_on(port, host=host, first=current()[PORT])
        except sockets.BadAddress as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(sockets.address_of(listener, host=host))
        self.stdout.flush()
        return listener


def _check_partitions() -> None:
    """Check the settings of partitions as nodes do."""
    if placement() is None and not PartitionFact.objects.exists():
        return
    with connect(database_dsn(), node_id=uuid.uuid4(), purpose="settings", timeout=current()[NODE_TIMEOUT]) as asking:
        check_partitions(asking)
        check_other_partitions(asking)
    connection.close()


def _read_cluster() -> None:
    """Refresh the metrics. Then close the connection: this thread ends with the answer, and would leave it open."""
    try:
        refresh_cluster_metrics()
    finally:
        connection.close()
