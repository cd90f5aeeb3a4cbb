"""All processes of one machine of a cluster, under one supervisor."""

import argparse
import os
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from crawlctl.access.accounts import ensure_administrator
from crawlctl.logs.handler import print_to_standard_output, why_unwritable
from crawlctl.processes import services
from crawlctl.processes.startup import make_database_ready
from crawlctl.processes.supervisor import StopRequest, Supervisor
from crawlctl.web import sockets
from jobs.settings.table import DRAIN_TIMEOUT, PORT
from nodes.management.database import check_room_for_sessions
from nodes.management.metrics_option import add_metrics_options, options_of_others
from nodes.settings.running import current

_TICK = 0.1
# Seconds between two checks of the log.
_LOG_CHECK_INTERVAL = 2.0


class Command(BaseCommand):
    help = "Run a manager, workers, a task worker and the web server on the configured database until Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--workers", type=int, default=_cores(), help="number of worker processes (default by cores: %(default)s)"
        )
        parser.add_argument(
            "--port",
            type=int,
            help=f"port of the web server; without it, the first free one from CRAWLCTL_PORT ({current()[PORT]}) on",
        )
        add_metrics_options(parser, of="the manager; the web server and the workers use the following ports")

    def handle(
        self, *_args: Any, workers: int, port: int | None, metrics_port: int, metrics_address: str, **_options: Any
    ) -> None:
        if not 1 <= workers <= 64:
            raise CommandError(f"--workers is {workers}: write a number from 1 to 64.", returncode=2)
        of_manager, of_web, *of_workers = options_of_others(metrics_port, address=metrics_address, number=2 + workers)
        supervisor = Supervisor(write_line=self._write_line)
        stop_request = StopRequest(supervisor)
        make_database_ready()
        check_room_for_sessions(nodes=2 + workers)
        self.stdout.write(ensure_administrator())
        # This process needs its own connections no longer. The embedded server runs while this process lives.
        connections.close_all()
        try:
            listener = sockets.listen_on(port, host="127.0.0.1", first=current()[PORT])
        except sockets.BadAddress as error:
            raise CommandError(str(error), returncode=2) from error
        with listener:
            try:
                supervisor.start(services.manager(1, metrics=of_manager))
                supervisor.start(
                    *(services.worker(number, metrics=its) for number, its in enumerate(of_workers, start=1)),
                    services.task_worker(1),
                    services.web_server(listener, metrics=of_web),
                )
                address = sockets.address_of(listener, host="127.0.0.1")
                self.stdout.write(f"web interface: {address} (Ctrl-C ends everything)")
                self.stdout.flush()
                while not stop_request.was_made:
                    supervisor.tend()
                    self._read_log()
                    time.sleep(_TICK)
            finally:
                supervisor.stop(within=current()[DRAIN_TIMEOUT].total_seconds() + 2)
        sys.exit(stop_request.exit_code)

    def _write_line(self, sentence: str) -> None:
        """Log the message, or print it on standard output if the log cannot be written. The services continue."""
        try:
            self.stderr.write(sentence)
        except OSError as error:
            print_to_standard_output(error.strerror or str(error))
            self.stdout.write(sentence)

    def _read_log(self) -> None:
        """Report once that the log of all services cannot be written, and once that it can be written again."""
        if time.monotonic() - self._looked_at < _LOG_CHECK_INTERVAL:
            return
        self._looked_at = time.monotonic()
        why = why_unwritable()
        if why and not self._log_fails:
            print_to_standard_output(why)
        elif self._log_fails and not why:
            self.stdout.write("The log (standard error) is writable again.")
        self._log_fails = bool(why)

    _looked_at = float("-inf")
    _log_fails = False


def _cores() -> int:
    return max(1, min(8, len(os.sched_getaffinity(0))))
