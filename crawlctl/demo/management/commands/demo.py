"""A small cluster on this machine that crawls a synthetic site, to be watched and to be checked."""

import argparse
import datetime as dt
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from rich.console import Console

from crawlctl.access.accounts import ensure_administrator
from crawlctl.demo import job as demo_job
from crawlctl.demo import partitions as demo_partitions
from crawlctl.demo.cluster import DemoCluster
from crawlctl.demo.expectation import Report, compare, expect_first_crawl
from crawlctl.demo.plan import SitePlan
from crawlctl.demo.table import show_end
from crawlctl.processes.startup import make_database_ready
from crawlctl.processes.supervisor import ServiceEnded, StopRequest, Supervisor
from crawlctl.web import sockets
from jobs.lifecycle.job import Phase
from jobs.loops.oneshot import Progress
from jobs.management.progress import Bar
from jobs.models import Job
from jobs.partitions import this_partition
from jobs.queries.jobs.counts import count_present_runs
from jobs.queries.partitions import read_last_move
from jobs.settings.table import PORT
from nodes.database.clock import read_clock
from nodes.database.outage import OUTAGES
from nodes.lifecycle import CLUSTER_SCOPE, LIVE_STATUSES, NodeKind, NodeStatus
from nodes.models import Node
from nodes.settings.node_settings import NODE_TIMEOUT
from nodes.settings.running import current

_TICK: Final = 0.1
# Interval of reading the progress from the database (seconds).
_READ_INTERVAL: Final = 0.5

# Gap between two requests to one host (seconds): slow enough to be watched, unlike a crawl with --exit.
_GAP_TO_WATCH: Final = 0.1

# Time without progress of the search index, after the last fetch, until the demo compares the index as it is (seconds).
_INDEX_STANDS_STILL: Final = 30.0

_SHOWN: Final = 10


class _StopAsked(Exception):
    """SIGTERM or SIGINT arrived during a wait."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The command's options."""

    pages: int
    hosts: int
    managers: int
    workers: int
    port: int | None
    exits: bool


class Command(BaseCommand):
    help = (
        "Crawl a synthetic site with a small local cluster, and keep it running for the browser until Ctrl-C. Documents of earlier demos are "
        "deleted."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--exit",
            action="store_true",
            help=(
                "crawl at full speed, compare the result with the site, print one line of JSON, and exit with 0 only if every page was "
                "fetched correctly and can be found"
            ),
        )
        parser.add_argument("--pages", type=int, default=1000, help="number of pages (default: %(default)s)")
        parser.add_argument("--hosts", type=int, default=4, help="number of hosts (default: %(default)s)")
        parser.add_argument(
            "--managers", type=int, default=2, help="number of manager processes (default: %(default)s)"
        )
        parser.add_argument("--workers", type=int, default=2, help="number of worker processes (default: %(default)s)")
        parser.add_argument(
            "--partitions",
            type=int,
            default=1,
            help="number of databases, each with its own managers and workers (default: %(default)s)",
        )
        parser.add_argument(
            "--port",
            type=int,
            help=f"port of the web server; without it, the first free one from CRAWLCTL_PORT ({current()[PORT]}) on",
        )

    def handle(self, *_args: Any, **given: Any) -> None:
        wanted = _Wanted(
            pages=_within("--pages", given["pages"], 1, 10_000_000),
            hosts=_within("--hosts", given["hosts"], 1, 200),
            managers=_within("--managers", given["managers"], 1, 16),
            workers=_within("--workers", given["workers"], 1, 16),
            port=given["port"] and _within("--port", given["port"], 1, 65_535),
            exits=given["exit"],
        )
        partitions = _within("--partitions", given["partitions"], 1, demo_partitions.MOST)
        if partitions > 1 and this_partition.placement() is None:
            demo_partitions.start_again(partitions, sys.argv[1:])
        self._partitions = demo_partitions.DemoPartitions.of_this_process()
        supervisor = Supervisor(write_line=_write_line)
        self._stop_request = StopRequest(supervisor)
        self._cluster = DemoCluster(supervisor, Path(settings.VAR_DIR).absolute() / "demo")
        make_database_ready()
        _refuse_other_machines()
        try:
            with demo_job.only_demo():
                sys.exit(self._perform(wanted))
        except demo_job.DemoRuns as refused:
            raise CommandError(str(refused), returncode=2) from refused
        except sockets.BadAddress as error:
            raise CommandError(str(error), returncode=2) from error
        except (ServiceEnded, OSError) as error:
            raise CommandError(f"The demo ends: {error}", returncode=1) from error

    def _perform(self, wanted: _Wanted) -> int:
        """Run the demo, stop all its processes, and return the exit code."""
        try:
            self._partitions.make_databases_ready(wait_until=lambda ended: self._wait_until(ended, every=_TICK))
            plan = self._cluster.start_site(pages=wanted.pages, hosts=wanted.hosts)
            since = read_clock()
            # Deleted before the managers start, because managers must not continue the job of a killed demo.
            demo_job.delete_earlier_jobs(before=None, now=read_clock())
            job = demo_job.create_job(plan, gap=0 if wanted.exits else _GAP_TO_WATCH, now=read_clock())
            with sockets.listen_on(wanted.port, host="127.0.0.1", first=current()[PORT]) as listener:
                self._cluster.start_nodes(managers=wanted.managers, workers=wanted.workers)
                for name in self._partitions.names:
                    place: dict[str, Any] = {"partition": name, "environment": self._partitions.environment_of(name)}
                    self._cluster.start_nodes(managers=wanted.managers, workers=wanted.workers, **place)
                    if not wanted.exits:
                        # A task worker executes the operations on documents that an operator starts.
                        self._cluster.start_task_worker(**place)
                self._cluster.start_task_worker()
                self._cluster.start_web_server(listener)
                address = sockets.address_of(listener, host="127.0.0.1")
                self._print(f"web interface: {address}")
                self._print(ensure_administrator())
                self._wait_for_nodes(since)
                demo_job.start_job(job, now=read_clock())
                self._watch(job)
                return self._end(wanted, job, plan, since=since, address=address)
        except _StopAsked:
            code = self._stop_request.exit_code
            # A stopped comparison must not report that the crawl was exact.
            return code or (128 + signal.SIGTERM if wanted.exits else 0)
        finally:
            self._cluster.stop()
            self._partitions.remove_links()

    def _end(self, wanted: _Wanted, job: Job, plan: SitePlan, *, since: dt.datetime, address: str) -> int:
        self._wait_for_index(job, plan)
        self._wait_for_beats(since, after=read_clock())
        ended = Job.objects.filter(pk=job.pk).first()
        if ended is not None:
            show_end(Console(highlight=False), ended, since=since)
        elif wanted.exits:
            raise CommandError(f"Job {job.name} was deleted, so there is no result to compare.", returncode=1)
        if wanted.exits:
            return self._judge(job, plan)
        self._print(f"web interface: {address} (still running: start the job again there, or end the demo with Ctrl-C)")
        self._wait_until(lambda: False, every=_READ_INTERVAL)
        raise AssertionError("waits until it is asked to stop")

    def _judge(self, job: Job, plan: SitePlan) -> int:
        """Compare the site's log and the index with the site. Return 0 if they agree."""
        self._cluster.complete_log(plan)
        report = compare(
            log=self._cluster.site_log,
            expectation=expect_first_crawl(plan),
            indexed_urls=demo_job.indexed_urls(job, plan) | self._partitions.indexed_urls(plan),
        )
        _explain(report)
        self._print(report.as_json())
        return 0 if report.is_exact else 1

    # --- Waiting -----------------------------------------------------------------------------------

    def _wait_until(self, holds: Callable[[], bool], *, every: float) -> None:
        """
        Wait for a condition that reads the database, and tend the cluster meanwhile.

        Raises:
            _StopAsked, ServiceEnded
        """
        looked_at = float("-inf")
        while True:
            if self._stop_request.was_made:
                raise _StopAsked
            self._cluster.supervisor.tend()
            if time.monotonic() - looked_at >= every:
                looked_at = time.monotonic()
                try:
                    if holds():
                        return
                except OUTAGES:
                    # A killed database server returns, so the demo continues.
                    connection.close()
            time.sleep(_TICK)

    def _wait_for_nodes(self, since: dt.datetime) -> None:
        """Wait for a running manager and worker, so that the run's duration does not include their imports."""

        def are_all_running() -> bool:
            running = Node.objects.filter(scope=CLUSTER_SCOPE, status=NodeStatus.RUNNING, started_at__gte=since)
            return set(running.values_list("kind", flat=True)) == {NodeKind.MANAGER, NodeKind.WORKER}

        self._wait_until(are_all_running, every=_TICK)

    def _watch(self, job: Job) -> None:
        """Show the crawl until it has ended, for any reason, and no document is on its way to another partition."""
        began_at = time.monotonic()

        def has_ended() -> bool:
            bar.show(Progress(count_present_runs([job.pk])[job.pk], time.monotonic() - began_at))
            demo_job.delete_earlier_jobs(before=job.pk, now=read_clock())
            phase = Job.objects.filter(pk=job.pk).values_list("phase", flat=True).first()
            return phase in {None, Phase.INACTIVE} and not _slots_move()

        with Bar(write_line=self.stderr.write) as bar:
            self._wait_until(has_ended, every=_READ_INTERVAL)

    def _wait_for_index(self, job: Job, plan: SitePlan) -> None:
        fewest, moved_at = sys.maxsize, time.monotonic()

        def has_caught_up() -> bool:
            nonlocal fewest, moved_at
            behind = demo_job.count_texts_behind(job, plan) + self._partitions.count_texts_behind(plan)
            if behind < fewest:
                fewest, moved_at = behind, time.monotonic()
            return not behind or time.monotonic() - moved_at > _INDEX_STANDS_STILL

        self._wait_until(has_caught_up, every=_READ_INTERVAL)

    def _wait_for_beats(self, since: dt.datetime, *, after: dt.datetime) -> None:
        """Wait until every live node has reported its final counts."""

        def have_sent_heartbeats() -> bool:
            silent = Node.objects.filter(
                scope=CLUSTER_SCOPE, status__in=LIVE_STATUSES, started_at__gte=since, heartbeat_at__lt=after
            )
            return not silent.exists()

        self._wait_until(have_sent_heartbeats, every=_TICK)

    def _print(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _refuse_other_machines() -> None:
    """Refuse nodes of other machines: the site is on loopback addresses, so they would crawl their own machine."""
    beaten_since = read_clock() - current()[NODE_TIMEOUT]
    alive = Node.objects.filter(scope=CLUSTER_SCOPE, status__in=LIVE_STATUSES, heartbeat_at__gt=beaten_since)
    elsewhere = alive.exclude(host=socket.gethostname()).first()
    if elsewhere is not None:
        raise CommandError(
            f"The {elsewhere} on {elsewhere.host} uses this database and cannot reach the demo's site. Use a separate database for the demo.",
            returncode=2,
        )


def _slots_move() -> bool:
    placement = this_partition.placement()
    move = None if placement is None else read_last_move(placement)
    return move is not None and not move.phase.is_over


def _explain(report: Report) -> None:
    for name, requests in (("missing", report.missing), ("extra", report.extra)):
        for request in requests[:_SHOWN]:
            _write_line(f"{name}: {request}")
        if len(requests) > _SHOWN:
            _write_line(f"... and {len(requests) - _SHOWN} more")


def _write_line(sentence: str) -> None:
    # sys.stderr is looked up at each call: a visible progress bar replaces it by a stream that moves the bar out of the
    # way.
    sys.stderr.write(f"{sentence}\n")


def _within(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise CommandError(f"{name} is {value}: write a number from {least} to {most}.", returncode=2)
    return value
