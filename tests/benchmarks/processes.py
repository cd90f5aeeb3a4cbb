"""
Measures the cost of a page with more processes: `python -m tests.benchmarks.processes`.

Clusters of one or two managers and of one, two or four workers crawl the synthetic site of `make bench`, without an
output. The report shows pages a second by the site's log, and CPU-ms a page of managers, workers and PostgreSQL,
together and of each kind. Both are measured from the start of the job to its last request. The daemons have crawled a
small site before, as in production: work done once in a process' life, such as the planning of statements, is not a cost
of a page. The very first crawl is not counted. Figures are medians of the rounds. The exit code is 1 if a page costs
more than 1.15 times its cost with the first of the shapes.

The report also shows how many references of a page were new to a worker: other work on the machine does not change that
figure. It also shows a cost of the machine alone: the CPU-ms in which a process reads one page over and over, while
other such processes run that share nothing with it. Processors that share a cache or a core are slower together, and
cause a part of the rise. Several simultaneous runs with `--shapes 1,1` show this with whole clusters that share
nothing.
"""

import argparse
import contextlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import django
import psutil
from django.db.models import Sum

from tests.benchmarks import databases
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.benchmarks.meter import cpu_seconds_of_tree
from tests.benchmarks.runs import CONNECTIONS, HOSTS, Site, running_site
from tests.support.waiting import wait_until

_SHAPES = "1,1 1,2 1,4 2,2 2,4"
_ALLOWED = 1.15
_LONGEST = 600.0
# Seconds between two reads of the log of the site.
_INTERVAL = 0.05
# Number of pages of the site that daemons crawl before they are measured.
_CRAWLED_BEFORE = 500
# Numbers of processes that simultaneously read one page over and over, and the seconds for which they read.
_READERS = (1, 2, 4)
_READ_FOR = 5.0


@dataclass(frozen=True)
class _Cost:
    pages_a_second: float
    by_kind: dict[str, float]
    offered_a_page: float

    @property
    def cpu_ms_a_page(self) -> float:
        return sum(self.by_kind.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="processes", description="Measure what a page costs with more processes.")
    parser.add_argument("--pages", type=int, default=10_000, help="pages of the site (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="crawls of each shape (%(default)s)")
    parser.add_argument(
        "--shapes",
        type=_shapes,
        default=_SHAPES,
        help="managers and workers of each cluster; all are compared with the first (%(default)s)",
    )
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="processes-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        costs: dict[tuple[int, int], list[_Cost]] = {shape: [] for shape in options.shapes}
        _crawl(database, managers=1, workers=1, pages=options.pages)
        for _ in range(options.rounds):
            for (managers, workers), done in costs.items():
                done.append(_crawl(database, managers=managers, workers=workers, pages=options.pages))
                sys.stderr.write(f"{managers} managers, {workers} workers: {done[-1]}\n")
    reading = {readers: _cost_of_reading(readers) for readers in _READERS}
    for readers, cost in reading.items():
        sys.stdout.write(
            f"the machine alone, {readers} processes: {cost:.3f} CPU-ms to read a page, {cost / reading[1]:.2f} times that of one\n"
        )
    usual = _median_cpu(costs[options.shapes[0]])
    most = 0.0
    for (managers, workers), done in costs.items():
        times = _median_cpu(done) / usual
        most = max(most, times)
        shares = ", ".join(f"{kind} {_median_of(kind, done):.2f}" for kind in done[0].by_kind)
        sys.stdout.write(
            f"{managers} managers, {workers} workers: {statistics.median(cost.pages_a_second for cost in done):.0f} pages a"
            f" second, {_median_cpu(done):.2f} CPU-ms a page ({shares}), {times:.2f} times the first,"
            f" {statistics.median(cost.offered_a_page for cost in done):.1f} references offered a page\n"
        )
    return 0 if most <= _ALLOWED else 1


def _shapes(text: str) -> list[tuple[int, int]]:
    try:
        shapes = [(int(managers), int(workers)) for managers, workers in (pair.split(",") for pair in text.split())]
    except ValueError:
        shapes = []
    if not shapes or any(least < 1 for least in map(min, shapes)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like {_SHAPES!r}: managers,workers of each cluster")
    return shapes


def _median_cpu(done: Sequence[_Cost]) -> float:
    return statistics.median(cost.cpu_ms_a_page for cost in done)


def _median_of(kind: str, done: Sequence[_Cost]) -> float:
    return statistics.median(cost.by_kind[kind] for cost in done)


def _crawl(database: databases.Database, *, managers: int, workers: int, pages: int) -> _Cost:
    """Crawl a small site and then the large one with new daemons. Return the cost of the second crawl."""
    from django.db import connection

    from nodes.models import Node

    kinds = [*managers * ["runmanager"], *workers * ["runworker"]]
    with (
        tempfile.TemporaryDirectory(dir=ROOT / "var" / "bench") as directory,
        running_daemons(database.environment, *kinds) as daemons,
        contextlib.closing(connection),
    ):
        wait_until(lambda: Node.objects.filter(status="running").count() == len(kinds), within=_LONGEST)
        processes = [psutil.Process(daemon.pid) for daemon in daemons]
        measured = {
            "managers": processes[:managers],
            "workers": processes[managers:],
            "PostgreSQL": [database.server],
        }
        for size in (_CRAWLED_BEFORE, pages):
            # Wait until all groups have managers, and imports and folding are over.
            time.sleep(2.0)
            log = Path(directory) / str(size)
            log.mkdir(exist_ok=True)
            with running_site(pages=size, directory=log) as site:
                cost = _watch(site, measured)
    return cost


def _watch(site: Site, measured: Mapping[str, Sequence[psutil.Process]]) -> _Cost:
    """Start the crawl, and return its cost from its start to the last request."""
    from django.utils import timezone

    from crawlctl.demo.log import read_log
    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy

    policy = make_policy(site.start_url, open_requests=CONNECTIONS // HOSTS, min_gap=0.0)
    job = make_job(urls=[site.start_url], policy=policy, specification={"scope": "any"})
    before = _cpu_seconds(measured)
    control.start(job.pk, made_by="a benchmark", now=timezone.now())
    wait_until(lambda: _lines(site) >= site.pages + HOSTS, within=_LONGEST)
    after = _cpu_seconds(measured)
    wait_until(lambda: Job.objects.get(pk=job.pk).phase == "inactive")
    requests = [request for request in read_log(site.log) if request.path != "/robots.txt"]
    fetched = len({request.url for request in requests})
    if fetched != site.pages:
        raise RuntimeError(f"{fetched:,} of {site.pages:,} pages were fetched")
    took = (requests[-1].time - requests[0].time) / 1e9
    return _Cost(
        pages_a_second=fetched / took,
        by_kind={kind: 1000 * (after[kind] - before[kind]) / fetched for kind in measured},
        offered_a_page=_references_offered(job.pk) / fetched,
    )


def _cpu_seconds(measured: Mapping[str, Sequence[psutil.Process]]) -> dict[str, float]:
    return {kind: sum(map(cpu_seconds_of_tree, processes)) for kind, processes in measured.items()}


def _references_offered(job: int) -> int:
    """Return the number of times that all workers sent a reference to the database."""
    from jobs.models import Counter, CounterDelta

    of_job = {"job_id": job, "measure": "offered", "lane_id": 0}
    folded, waiting = (
        kind.objects.filter(**of_job).aggregate(amount=Sum("amount"))["amount"] or 0 for kind in (Counter, CounterDelta)
    )
    return int(folded + waiting)


def _cost_of_reading(readers: int) -> float:
    """Return the CPU-ms that a process needs to read a page while `readers` processes read pages at the same time."""
    apart = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(readers, mp_context=apart) as pool:
        return statistics.median(pool.map(_read_over_and_over, [1] * readers))


def _read_over_and_over(page: int) -> float:
    from crawlctl.demo.page import PageWriter
    from crawlctl.demo.plan import SitePlan
    from jobs.reading.page import read_page

    plan = SitePlan(seed=1, origins=("http://a.example",), pages=1_000)
    html = PageWriter(plan).page(page, plan.outline(page)).decode()
    done, until = 0, time.monotonic() + _READ_FOR
    began = time.process_time()
    while time.monotonic() < until:
        read_page(html, token="crawlctl")
        done += 1
    return 1000 * (time.process_time() - began) / done


def _lines(site: Site) -> int:
    time.sleep(_INTERVAL)
    return site.log.read_bytes().count(b"\n")


if __name__ == "__main__":
    sys.exit(main())
