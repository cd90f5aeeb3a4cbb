"""
Measures the delay of a new job's first request while a long backlog waits: `python -m tests.benchmarks.newcomer`.

A manager and two workers, as daemons, are busy with a job that has a million waiting documents on one host. A second
job with another host is started. The report shows the median time from the request to start the job until its first
request for a page, by the site's own log.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import django

from crawlctl.demo.log import read_log
from tests.benchmarks import databases
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.benchmarks.runs import Site, running_site
from tests.support.waiting import wait_until

_PAGES = 200
_FILL = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action, depth,
                            redirects)
SELECT md5(%(job)s || '/' || n)::uuid, %(job)s, lane.id, %(host)s || '/nothing/' || n, 0, false, false, %(run)s,
       (1::bigint << 56) + nextval('jobs_document_number'), 0, 0, 0
  FROM generate_series(1, %(documents)s) AS n,
       (SELECT lane.id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
         WHERE seed.job_id = %(job)s ORDER BY lane.id LIMIT 1) AS lane
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="newcomer", description="Measure how soon a new job begins.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents that wait (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="new jobs; their median counts (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="newcomer-", dir=home) as name,
        databases.embedded(Path(name)) as database,
        running_site(pages=_PAGES, directory=Path(name)) as site,
        running_daemons(database.environment, "runmanager", "runworker", "runworker"),
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        _measure(site, documents=options.documents, rounds=options.rounds)
    return 0


def _measure(site: Site, *, documents: int, rounds: int) -> None:
    from django.db import connection
    from django.utils import timezone

    from jobs.models import Job
    from jobs.verbs import control
    from nodes.database.connections import without_timeouts
    from tests.support.factories import make_job, make_policy

    parts = urlsplit(site.start_url)
    here = f"{parts.scheme}://{parts.netloc}"
    elsewhere = f"{parts.scheme}://{parts.hostname}:{_another_port(site, parts.port or 80)}"
    try:
        long = make_job("long", urls=[f"{here}/"], policy=make_policy(open_requests=4, min_gap=0.05))
        control.start(long.pk, made_by="a benchmark", now=timezone.now())
        wait_until(lambda: any(request.path != "/robots.txt" for request in read_log(site.log)))
        facts = {"job": long.pk, "host": here, "documents": documents, "run": Job.objects.get(pk=long.pk).run_no}
        with connection.cursor() as cursor, without_timeouts(connection.connection):
            cursor.execute(_FILL, facts)
            cursor.execute("ANALYZE jobs_queueitem")
        taken = []
        for _ in range(rounds):
            job = make_job(urls=[f"{elsewhere}/"], policy=make_policy(open_requests=4))
            seen = _requests_of(site, elsewhere)
            began = time.monotonic()
            control.start(job.pk, made_by="a benchmark", now=timezone.now())
            wait_until(lambda seen=seen: _requests_of(site, elsewhere) > seen)
            taken.append(time.monotonic() - began)
            wait_until(lambda job=job: Job.objects.get(pk=job.pk).phase == "inactive")
        sys.stdout.write(f"first request of a new job beside {documents:.0e}: ".replace("e+0", "e"))
        sys.stdout.write(f"{statistics.median(taken):.2f} s (at most {max(taken):.2f} s)\n")
    finally:
        connection.close()


def _another_port(site: Site, port: int) -> int:
    """Return the port of another host of the site. Its hosts have neighbouring ports."""
    listening = {address.laddr.port for address in site.process.net_connections() if address.status == "LISTEN"}
    return min(listening - {port})


def _requests_of(site: Site, host: str) -> int:
    return sum(request.url.startswith(host) and request.path != "/robots.txt" for request in read_log(site.log))


if __name__ == "__main__":
    sys.exit(main())
