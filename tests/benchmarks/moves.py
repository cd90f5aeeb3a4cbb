"""
Measures the cost of moving groups: `python -m tests.benchmarks.moves`.

First as rows: 10,000 groups over 100 managers. The main manager plans a rebalance and then begins its moves. The
server's time for the pages of this cluster is measured, too. Then as daemons: two managers crawl some hosts, each host
at its own pace, and one group is moved back and forth. The report shows the longest gap between two requests and the
99th percentile, for the moved host and for the other hosts, with and without moves.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import django

from tests.benchmarks import databases
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import psycopg

    from crawlctl.demo.log import LoggedRequest
    from jobs.models import Job

_MANAGERS, _GROUPS = 100, 10_000
# Number of reads of each page, whose median is reported.
_READS = 20
# Three times in seconds: between the starts of two requests to a host, between two moves of the group, and until a new
# crawl has an even rate. Then the pages of all hosts together, and the number of hosts.
_GAP, _BETWEEN, _WARM_UP = 0.1, 1.0, 8.0
_PAGES, _HOSTS = 6_000, 4

_FILL = """
WITH policy AS (
    INSERT INTO jobs_throttlepolicy (name, open_requests, min_gap, skips_loopback)
    SELECT 'policy ' || n, 1, 1, false FROM generate_series(1, %(groups)s) AS n RETURNING id
), opened AS (
    INSERT INTO jobs_throttlegroup (policy_id, node_scope, owner_id, epoch, state, weight)
    SELECT id, 'cluster', %(owner)s, 1, 'owned', 1 FROM policy RETURNING id, policy_id
)
INSERT INTO jobs_seed (job_id, urls, policy_id, group_id, seeded_run)
SELECT %(job)s, ARRAY['http://a.test/'], policy_id, id, 1 FROM opened
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="moves", description="Measure a rebalance, and the gap of a handover.")
    parser.add_argument("--moves", type=int, default=20, help="moves of one group in mid-crawl (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="moves-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        _measure_rows()
        _measure_gaps(Path(name), environment=database.environment, moves=options.moves)
    return 0


# --- Rows ------------------------------------------------------------------------------------------


def _measure_rows() -> None:
    import psycopg
    from django.db import connection as django_connection

    from nodes.database.address import database_dsn

    try:
        with psycopg.connect(database_dsn(), autocommit=True) as connection:
            _rebalance(connection)
    finally:
        django_connection.close()


def _rebalance(connection: "psycopg.Connection[Any]") -> None:
    """Give all groups to one manager, then let the main manager plan and make a rebalance over all managers."""
    from jobs.duties.requests import answer_requests
    from jobs.models import Job
    from nodes.models import ClusterRequest
    from tests.support.cluster import NOON
    from tests.support.factories import make_job
    from tests.support.stepping import Main, Manager

    chief = Main(connection)
    for _ in range(_MANAGERS - 1):
        Manager(connection)
    job = make_job()
    Job.objects.filter(pk=job.pk).update(phase="active", run_no=1, started_at=NOON)
    connection.execute(_FILL, {"groups": _GROUPS, "owner": chief.id, "job": job.pk})
    connection.execute("ANALYZE")
    for what, dry_run in (("plan", True), ("plan and commit", False)):
        request = ClusterRequest.objects.create(
            kind=ClusterRequest.Kind.REBALANCE, dry_run=dry_run, asked_by="a benchmark", asked_at=NOON
        )
        began, worked_before = time.monotonic(), time.process_time()
        chief.step(answer_requests)
        taken, worked = time.monotonic() - began, time.process_time() - worked_before
        request.refresh_from_db()
        sys.stdout.write(
            f"{what} of a rebalance of {_GROUPS:,} groups over {_MANAGERS} managers: {taken:.2f} s"
            f" ({len(request.answer['moves']):,} moves; {worked:.2f} s of the main manager's CPU)\n"
        )
    _read_pages()
    connection.execute("UPDATE jobs_seed SET group_id = NULL")
    connection.execute("DELETE FROM jobs_throttlegroup")
    connection.execute("UPDATE nodes_node SET status = 'stopped', stopped_at = clock_timestamp()")
    connection.execute("UPDATE nodes_mainterm SET resigned = true")
    Job.objects.filter(pk=job.pk).update(phase="inactive")


def _read_pages() -> None:
    """Measure the server's time for the page of that cluster and for the page of one of its groups."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    from jobs.models import ThrottleGroup

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(get_user_model().objects.create_superuser("a benchmark"))
    group = ThrottleGroup.objects.order_by("pk")[:1].get()
    for what, address in (("the cluster", "/cluster/"), ("a group", f"/cluster/groups/{group.pk}/")):
        taken, worked = [], []
        for _ in range(_READS):
            began, worked_before = time.monotonic(), time.process_time()
            page = client.get(address)
            taken.append(1000 * (time.monotonic() - began))
            worked.append(1000 * (time.process_time() - worked_before))
        assert page.status_code == 200, page
        sys.stdout.write(
            f"the page of {what} then: {statistics.median(taken):.0f} ms ({statistics.median(worked):.0f} ms of the"
            f" server's CPU), {len(page.content) / 1024:.0f} KiB\n"
        )


# --- Gaps ------------------------------------------------------------------------------------------


def _measure_gaps(directory: Path, *, environment: Mapping[str, str], moves: int) -> None:
    from django.db import connection
    from django.utils import timezone

    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy
    from tests.support.processes import serve_site

    with (
        serve_site(directory / "site.log", pages=_PAGES, hosts=_HOSTS, traps=0) as site,
        running_daemons(environment, "runmanager", "runmanager", "runworker", "runworker"),
    ):
        try:
            by_host: dict[str, list[str]] = {}
            for page in range(_PAGES):
                url = site.plan.url(page)
                by_host.setdefault(urlsplit(url).netloc, []).append(url)
            jobs = [
                make_job(
                    urls=urls,
                    policy=make_policy(f"of {host}", open_requests=1, min_gap=_GAP),
                    specification={"max_depth": 0},
                )
                for host, urls in by_host.items()
            ]
            for job in jobs:
                control.start(job.pk, made_by="a benchmark", now=timezone.now())
            wait_until(lambda: Job.objects.filter(phase="active").count() == len(jobs))
            time.sleep(_WARM_UP)
            measured_from = time.monotonic_ns()
            for _ in range(moves):
                time.sleep(_BETWEEN)
            moves_began_at = time.monotonic_ns()
            for _ in range(moves):
                _move(jobs[0])
                time.sleep(_BETWEEN)
            moved, *others = by_host
            for what, hosts in (("the moved group", [moved]), ("the others", others)):
                requests = [request for request in site.requests() if urlsplit(request.url).netloc in hosts]
                before = sorted(
                    _gaps(request for request in requests if measured_from <= request.time < moves_began_at)
                )
                during = sorted(_gaps(request for request in requests if request.time >= moves_began_at))
                sys.stdout.write(
                    f"gaps of {what}, with {moves} moves (without): p99 {_p99(during):.3f} s ({_p99(before):.3f} s),"
                    f" longest {during[-1]:.3f} s ({before[-1]:.3f} s)\n"
                )
        finally:
            connection.close()


def _move(job: "Job") -> None:
    """Move the job's group to the other manager, and wait until it has arrived."""
    from jobs.models import ThrottleGroup
    from jobs.verbs.cluster import move_group
    from nodes.database.clock import read_clock
    from nodes.models import Node

    group = ThrottleGroup.objects.get(policy__seeds__job=job)
    to = Node.objects.filter(kind="manager", status="running").exclude(pk=group.owner_id).get().pk
    move_group(group.pk, to=to, made_by="a benchmark", now=read_clock())
    wait_until(lambda: ThrottleGroup.objects.filter(pk=group.pk, owner=to, state="owned").exists())


def _gaps(requests: "Iterable[LoggedRequest]") -> list[float]:
    """Return the seconds between successive starts at one host."""
    by_host: dict[str, list[int]] = {}
    for request in requests:
        by_host.setdefault(urlsplit(request.url).netloc, []).append(request.time)
    return [(later - earlier) / 1e9 for times in by_host.values() for earlier, later in pairwise(times)]


def _p99(ordered: Sequence[float]) -> float:
    return ordered[int(len(ordered) * 0.99)]


if __name__ == "__main__":
    sys.exit(main())
