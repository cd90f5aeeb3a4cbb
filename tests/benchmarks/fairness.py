"""
Measures whether a large host and many small ones keep their pace when crawled together: `python -m
tests.benchmarks.fairness`.

One manager and two workers, as daemons, crawl 100,000 hosts of one page each. The hosts are loopback addresses. Three
crawls are compared. In the first the small hosts are alone. In the second a large host of a million pages and a pace is
in the same job. In the third the large host has no pace. The report shows the small hosts emptied a second, by the
site's log, and how near the large host is to its pace.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import django

from crawlctl.demo.log import LoggedRequest, read_log
from tests.benchmarks import databases, many_hosts
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.support.waiting import wait_until

_GAP = 0.25
# Seconds until a new crawl has an even rate.
_WARM_UP = 8.0
# Number of pages of the large host that are fetched before the job gets the small hosts.
_UNDER_WAY = 5

# Statement that creates the documents of the next run, as seeding does.
_FILL = """
WITH bin AS (
    INSERT INTO jobs_bin (namespace, name, "interval", is_known)
    SELECT 'web', unnest(%(names)s::text[]), 0, false
    ON CONFLICT (namespace, name) DO UPDATE SET is_known = jobs_bin.is_known
    RETURNING id, name
), bound AS (
    INSERT INTO jobs_binlimit (bin_id, job_id, policy_id) SELECT id, %(job)s, %(policy)s FROM bin
), lane AS (
    INSERT INTO jobs_lane (seed_id, bin_id) SELECT %(seed)s, id FROM bin
    RETURNING id, seed_id, bin_id
), of_bin AS (
    INSERT INTO jobs_binstate (bin_id)
    SELECT id FROM bin WHERE NOT EXISTS (SELECT FROM jobs_binstate AS state WHERE state.bin_id = bin.id)
), of_lane AS (
    INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, ready_at) SELECT id, seed_id, bin_id, clock_timestamp() FROM lane
), document AS (
    INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action,
                                depth, redirects)
    SELECT md5(%(job)s || bin.name || n)::uuid, %(job)s, lane.id, 'http://' || bin.name || '/' || n, 0, false, false,
           %(run)s, (1::bigint << 56) + nextval('jobs_document_number'), 0, 0, 0
      FROM lane JOIN bin ON bin.id = lane.bin_id CROSS JOIN generate_series(1, %(each)s) AS n
    RETURNING lane_id
)
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT %(job)s, lane_id, %(run)s, 'stage', 0, 0, '', count(*) FROM document GROUP BY lane_id
"""


@dataclass(frozen=True)
class _Site:
    port: int
    log: Path

    def host(self, number: int) -> str:
        return f"{many_hosts.host(number)}:{self.port}"


@dataclass(frozen=True)
class _Seen:
    """Requests that the site saw in an interval: small hosts emptied a second, pages of the large host a second."""

    small: float
    large: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fairness", description="Measure a large host beside many small ones.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="pages of the large host (%(default)s)")
    parser.add_argument("--bins", type=int, default=100_000, help="hosts of one page each (%(default)s)")
    parser.add_argument("--seconds", type=float, default=45.0, help="how long each run is measured (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fairness-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        with (
            _running_hosts(Path(name) / "hosts.log") as site,
            running_daemons(database.environment, "runmanager", "runworker", "runworker"),
        ):
            _measure(site, documents=options.documents, bins=options.bins, seconds=options.seconds)
    return 0


@contextmanager
def _running_hosts(log: Path) -> Iterator[_Site]:
    command = [sys.executable, "-m", "tests.benchmarks.many_hosts", str(log)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        try:
            yield _Site(int(process.stdout.readline()), log)
        finally:
            process.terminate()


def _measure(site: _Site, *, documents: int, bins: int, seconds: float) -> None:
    from django.db import connection

    try:
        alone = _crawl(site, first=1, bins=bins, documents=0, seconds=seconds, gap=_GAP)
        paced = _crawl(site, first=1 + bins, bins=bins, documents=documents, seconds=seconds, gap=_GAP)
        unpaced = _crawl(site, first=1 + 2 * bins, bins=bins, documents=documents, seconds=seconds, gap=0.0)
        sys.stdout.write(
            f"{bins:,} small hosts alone: {alone.small:.0f} emptied a second\n"
            f"beside {documents:,} pages of one host each {_GAP} s: {100 * paced.small / alone.small:.0f} %"
            f" (the large one has {100 * paced.large * _GAP:.1f} % of its rate)\n"
            f"beside {documents:,} pages of one host without a pace: {100 * unpaced.small / alone.small:.0f} %"
            f" (the large one {unpaced.large:.0f} pages a second)\n"
        )
    finally:
        connection.close()


def _crawl(site: _Site, *, first: int, bins: int, documents: int, seconds: float, gap: float) -> _Seen:
    """Crawl `bins` small hosts from the number `first` on, and the large host, number 0, if `documents` is not 0."""
    from django.utils import timezone

    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy

    policy = make_policy(open_requests=2, min_gap=gap)
    job = make_job(
        urls=[f"http://{site.host(0 if documents else first)}/"], policy=policy, specification={"max_depth": 0}
    )
    facts = {"job": job.pk, "seed": job.seeds.get().pk, "policy": policy.pk, "run": job.run_no + 1}
    began = time.monotonic()
    large, small = site.host(0), {site.host(number) for number in range(first, first + bins)}

    def seen() -> list[LoggedRequest]:
        return [
            request
            for request in read_log(site.log)
            if request.time / 1e9 > began
            and request.path != "/robots.txt"
            and (request.host in small or request.host == large)
        ]

    if documents:
        # The crawl of the large host is in progress before the job gets the small hosts.
        _fill(facts, names=[large], each=documents)
        control.start(job.pk, made_by="a benchmark", now=timezone.now())
        wait_until(lambda: sum(request.host == large for request in seen()) > _UNDER_WAY)
    _fill(facts, names=sorted(small), each=1)
    if not documents:
        control.start(job.pk, made_by="a benchmark", now=timezone.now())
    wait_until(lambda: any(request.host in small for request in seen()))
    time.sleep(_WARM_UP)
    since = time.monotonic()
    time.sleep(seconds)
    until = time.monotonic()
    within = [request for request in seen() if since <= request.time / 1e9 < until]
    emptied = [request.time / 1e9 for request in within if request.host in small]
    # If nearly all hosts were emptied early, the last of them ends the interval.
    took = max(emptied, default=until) - since if len(emptied) < bins * 0.99 else until - since
    control.abort(job.pk, made_by="a benchmark", now=timezone.now())
    wait_until(lambda: Job.objects.get(pk=job.pk).phase == "inactive")
    return _Seen(len(emptied) / took, sum(request.host == large for request in within) / (until - since))


def _fill(facts: dict[str, int], *, names: list[str], each: int) -> None:
    from django.db import connection

    from nodes.database.connections import without_timeouts

    with connection.cursor() as cursor, without_timeouts(connection.connection):
        cursor.execute(_FILL, facts | {"names": names, "each": each})
        cursor.execute("ANALYZE jobs_queueitem, jobs_lane, jobs_lanestate, jobs_bin, jobs_binstate")


if __name__ == "__main__":
    sys.exit(main())
