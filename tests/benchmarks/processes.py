"""
What a page costs with more processes: `python -m tests.benchmarks.processes`.

Clusters of one or two managers and of one, two or four workers crawl the synthetic site of `make bench`, without any output. What is told
is pages a second by the site's log, and CPU-ms a page of managers, workers and PostgreSQL from the start of the job to its last
request, with daemons that run already; medians of the rounds. The exit code is 1 if a page costs more than is allowed on top
of what it costs with one of each.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import django
import psutil

from tests.benchmarks import databases
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.benchmarks.meter import cpu_seconds_of_tree
from tests.benchmarks.runs import CONNECTIONS, HOSTS, Site, running_site
from tests.waiting import wait_until

_SHAPES = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4))
_ALLOWED = 1.15
_LONGEST = 600.0
_LOOK = 0.05


@dataclass(frozen=True)
class _Cost:
    pages_a_second: float
    cpu_ms_a_page: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="processes", description="Measure what a page costs with more processes.")
    parser.add_argument("--pages", type=int, default=10_000, help="pages of the site (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="crawls of each shape (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="processes-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        costs: dict[tuple[int, int], list[_Cost]] = {shape: [] for shape in _SHAPES}
        for _ in range(options.rounds):
            for (managers, workers), done in costs.items():
                with tempfile.TemporaryDirectory(dir=name) as directory:
                    done.append(
                        _crawl(database, Path(directory), managers=managers, workers=workers, pages=options.pages)
                    )
                sys.stderr.write(f"{managers} managers, {workers} workers: {done[-1]}\n")
    usual = _median_cpu(costs[_SHAPES[0]])
    most = 0.0
    for (managers, workers), done in costs.items():
        times = _median_cpu(done) / usual
        most = max(most, times)
        sys.stdout.write(
            f"{managers} managers, {workers} workers: {statistics.median(cost.pages_a_second for cost in done):.0f} pages a"
            f" second, {_median_cpu(done):.2f} CPU-ms a page, {times:.2f} times that of one of each\n"
        )
    return 0 if most <= _ALLOWED else 1


def _median_cpu(done: Sequence[_Cost]) -> float:
    return statistics.median(cost.cpu_ms_a_page for cost in done)


def _crawl(database: databases.Database, directory: Path, *, managers: int, workers: int, pages: int) -> _Cost:
    from django.db import connection

    from nodes.models import Node

    kinds = [*managers * ["runmanager"], *workers * ["runworker"]]
    with (
        running_site(pages=pages, directory=directory) as site,
        running_daemons(database.environment, *kinds) as daemons,
        contextlib.closing(connection),
    ):
        wait_until(lambda: Node.objects.filter(status="running").count() == len(kinds), within=_LONGEST)
        # Until groups have found their managers and nobody imports anything more.
        time.sleep(2.0)
        return _watch(site, [*(psutil.Process(daemon.pid) for daemon in daemons), database.server])


def _watch(site: Site, measured: Sequence[psutil.Process]) -> _Cost:
    """Start the crawl, and see what it costs from the first request to the last."""
    from django.utils import timezone

    from crawlctl.demo.log import read_log
    from jobs import control
    from jobs.models import Job
    from tests.factories import make_job, make_policy

    policy = make_policy(site.start_url, open_requests=CONNECTIONS // HOSTS, min_gap=0.0)
    job = make_job(urls=[site.start_url], policy=policy, specification={"scope": "any"})
    before = sum(map(cpu_seconds_of_tree, measured))
    control.start(job.pk, made_by="a benchmark", now=timezone.now())
    wait_until(lambda: _lines(site) >= site.pages + HOSTS, within=_LONGEST)
    used = sum(map(cpu_seconds_of_tree, measured)) - before
    wait_until(lambda: Job.objects.get(pk=job.pk).phase == "inactive")
    requests = [request for request in read_log(site.log) if request.path != "/robots.txt"]
    fetched = len({request.url for request in requests})
    if fetched != site.pages:
        raise RuntimeError(f"{fetched:,} of {site.pages:,} pages were fetched")
    took = (requests[-1].time - requests[0].time) / 1e9
    return _Cost(pages_a_second=fetched / took, cpu_ms_a_page=1000 * used / fetched)


def _lines(site: Site) -> int:
    time.sleep(_LOOK)
    return site.log.read_bytes().count(b"\n")


if __name__ == "__main__":
    sys.exit(main())
