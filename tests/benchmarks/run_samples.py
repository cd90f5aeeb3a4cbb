"""
Measures the sample of documents that the end of a run keeps: `python -m tests.benchmarks.run_samples`.

A private PostgreSQL is filled with documents of one job, then of 32 jobs and of 300 jobs. The sample of a large job is
read in another way than the sample of a small one. The report shows the milliseconds that the sample adds to the end of
a run, and the bytes of a sample. It shows the milliseconds of a comparison of two runs, the later of which has the
largest possible number of counted differences. It also shows the milliseconds of a fold of 20,000 counted differences.
The exit code is non-zero if an end takes more than half a second longer.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import django

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_LONGEST_END: Final = 500.0
_TIMES: Final = 9
_JOBS: Final = (1, 32, 300)
# Statement that creates documents as after a run, on a hundred hosts, with versions of the usual length.
_DOCUMENTS: Final = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, depth, outcome,
                            result_code, version, fetched_at, response_ms)
SELECT md5(n::text)::uuid, (%(jobs)s::bigint[])[1 + n %% %(count)s], (%(lanes)s::bigint[])[1 + n %% %(count)s],
       'http://h' || n %% 100 || '.example/path/to/page-' || n || '.html', 2, true, false, 1, 1, 1, 1,
       '200', md5(n::text), clock_timestamp(), 40 + n %% 20
  FROM generate_series(1, %(documents)s) AS n
"""
_COUNTERS: Final = """
INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, 1, 'stage', 2, 1, '200', count(*) FROM jobs_queueitem GROUP BY job_id
"""
# Documents that flipped on a thousand hosts, as the fold has added them; and as flushes append them.
_DIFFERENCES: Final = """
INSERT INTO jobs_rundifference (job_id, run_no, before, after, code, bin_id, amount, examples)
SELECT %(job)s, 2, 1200, 3503, '503', -n, 7, ARRAY(SELECT 'http://h' || n || '.example/page-' || place FROM generate_series(1, 5) AS place)
  FROM generate_series(1, 1000) AS n
"""
_DELTAS: Final = """
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount, example)
SELECT %(job)s, %(lane)s, 2, 'differs', 1200, 3500 + n %% 20, '', 1, 'http://a.example/page-' || n
  FROM generate_series(1, 20000) AS n
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run_samples", description="Measure the samples that runs keep.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents of all jobs (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="samples-", dir=home) as name, databases.in_memory(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        return max([_measure(jobs, documents=options.documents) for jobs in _JOBS])


def _measure(jobs: int, *, documents: int) -> int:
    """Report the costs of the samples of one of the jobs; return 1 if they are too high."""
    from django.core.management import call_command
    from django.db import connection, transaction

    from jobs.models import Run
    from jobs.queries.jobs.run_documents import compare_documents
    from jobs.state.run_samples import keep_sample
    from nodes.database.clock import read_clock
    from tests.support.factories import make_job, make_lane

    call_command("flush", interactive=False, verbosity=0)
    made = [make_job() for _ in range(jobs)]
    facts = {
        "jobs": [job.pk for job in made],
        "lanes": [make_lane(job.seeds.get(), "a.example", ready_at=None).pk for job in made],
        "count": jobs,
        "documents": documents,
    }
    job, now = made[0], read_clock()
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(_DOCUMENTS, facts)
        cursor.execute(_COUNTERS)
        cursor.execute("VACUUM ANALYZE jobs_queueitem")
    runs = [Run.objects.create(job=job, run_no=number, started_at=now, ended_at=now) for number in (1, 2)]

    def end(run: Run) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            keep_sample(cursor, run_id=run.pk, job_id=job.pk, since=now)

    end_ms = _median_ms(lambda: end(runs[0]))
    end(runs[1])
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_column_size(sample.*) FROM jobs_runsample AS sample LIMIT 1")
        ((size,),) = cursor.fetchall()
    Run.objects.update(has_differences=True)
    with connection.cursor() as cursor:
        cursor.execute(_DIFFERENCES, {"job": job.pk})
    fold_ms = _fold_ms(job.pk, facts["lanes"][0])
    comparison_ms = _median_ms(lambda: compare_documents(job_id=job.pk, earlier=1, later=2))
    sys.stdout.write(
        f"{jobs:6,} jobs of {documents // jobs:9,} documents: an end {end_ms:6.1f} ms longer, "
        f"a sample of {size / 1024:5.1f} KiB, a comparison in {comparison_ms:5.1f} ms, "
        f"a fold of 20,000 differences in {fold_ms:5.1f} ms\n"
    )
    sys.stdout.flush()
    return int(end_ms > _LONGEST_END)


def _fold_ms(job_id: int, lane_id: int) -> float:
    """Return the milliseconds of a fold of differences, if the same run already has a thousand."""
    from django.db import connection

    from jobs.queue.counting import counters
    from nodes.database.clock import read_clock
    from tests.support.stepping import Main

    with connection.cursor() as cursor:
        cursor.execute(_DELTAS, {"job": job_id, "lane": lane_id})
    term = Main(connection.connection).term
    began = time.perf_counter()
    counters.fold(connection.connection, term=term, now=read_clock())
    return 1000 * (time.perf_counter() - began)


def _median_ms(work: Callable[[], Any]) -> float:
    found = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        work()
        found.append(1000 * (time.perf_counter() - began))
    return statistics.median(found)


if __name__ == "__main__":
    sys.exit(main())
