"""
Measures the duration of reports over a history of many rows: `python -m tests.benchmarks.reports`.

The history is in its own embedded database. It has the requested number of rows, spread evenly over the last day:
requests and ingestions of three sources, from a thousand hosts. Each report is then read as its page reads it, with the
usual filters (the last hour, one class of identifiers). Some are read again with other filters. The result is the median
of all reads, in ms of elapsed time.
"""

import argparse
import datetime as dt
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import django

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_A_PAGE = 50
_STEPS = 60
_BY_HOST = "//([^/]*)"

# Rows are inserted in the order of time, as a crawl writes them.
_FILL = """
INSERT INTO jobs_activity (started_at, seconds, job_id, repository_id, output_id, bytes, activity, entity, result_code)
SELECT %(now)s - (n::float8 / %(rows)s) * interval '1 day', 0.05, NULL, (%(sources)s::bigint[])[1 + n %% 3], NULL,
       1000 + n %% 50000, CASE WHEN n %% 2 = 0 THEN 'fetch' ELSE 'document ingest' END,
       'https://host' || n %% 1000 || '.example/path/to/page-' || n,
       CASE WHEN n %% 2 = 1 THEN 'OK' WHEN n %% 20 = 0 THEN '404' WHEN n %% 34 = 0 THEN 'DNS' ELSE '200' END
  FROM generate_series(%(first)s, %(last)s, -1) AS n
"""
# Largest number of rows that one statement inserts. A statement must not take longer than a web server waits for one.
_AT_ONCE = 250_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="reports", description="Measure reports over a long history.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the history (%(default)s)")
    parser.add_argument("--reads", type=int, default=20, help="reads of each report; their median counts (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reports-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        _measure(rows=options.rows, reads=options.reads)
    return 0


def _measure(*, rows: int, reads: int) -> None:
    from django.db import connection

    now = _fill(rows)
    try:
        for title, read in _reports(now).items():
            taken = []
            for _ in range(reads):
                began = time.perf_counter()
                read()
                taken.append(1000 * (time.perf_counter() - began))
            sys.stdout.write(f"{title} at {_size(rows)}: {statistics.median(taken):.0f} ms\n")
            sys.stdout.flush()
    finally:
        connection.close()


def _fill(rows: int) -> dt.datetime:
    """Fill the history, and return the moment at which it ends."""
    from django.db import connection

    from jobs.models import RepositoryConnection
    from nodes.database.clock import read_clock

    now = read_clock()
    sources = [RepositoryConnection.objects.create(name=name).pk for name in ("web", "files", "feeds")]
    began = time.perf_counter()
    with connection.cursor() as cursor:
        # Yesterday's partition. The duty of a main manager makes only partitions of future days.
        yesterday = (now - dt.timedelta(days=1)).date()
        cursor.execute(
            f"CREATE TABLE jobs_activity_{yesterday:%Y%m%d} PARTITION OF jobs_activity"
            f" FOR VALUES FROM ('{yesterday} 00:00Z') TO ('{now.date()} 00:00Z')"
        )
        for first in range(rows, 0, -_AT_ONCE):
            last = max(first - _AT_ONCE, 0) + 1
            cursor.execute(_FILL, {"now": now, "rows": rows, "sources": sources, "first": first, "last": last})
        for day in (yesterday, now.date()):
            cursor.execute(f"VACUUM ANALYZE jobs_activity_{day:%Y%m%d}")
        cursor.execute("ANALYZE jobs_activity")
    sys.stderr.write(f"{rows:,} rows were written in {time.perf_counter() - began:.0f} s\n")
    return now


def _reports(now: dt.datetime) -> dict[str, Callable[[], object]]:
    from jobs.queries.reports.busiest import Measure, read_busiest
    from jobs.queries.reports.histogram import read_histogram
    from jobs.queries.reports.history_filter import DEFAULT_SPAN, HistoryFilter
    from jobs.queries.reports.simple_history import read_simple_history, read_timeline

    def asked(**facts: object) -> HistoryFilter:
        return HistoryFilter(since=now - DEFAULT_SPAN, until=now, **facts)

    def simple() -> None:
        read_simple_history(asked(), limit=_A_PAGE)
        read_timeline(asked(), steps=_STEPS)

    return {
        "history simple": simple,
        "history simple, by bytes": lambda: read_simple_history(asked(), sort="bytes", limit=_A_PAGE),
        "history simple, by a rare pattern": lambda: read_simple_history(asked(entity="page-1234$"), limit=_A_PAGE),
        "history maximum activity": lambda: read_busiest(asked(), measure=Measure.EVENTS, limit=_A_PAGE),
        "history maximum bandwidth": lambda: read_busiest(asked(), measure=Measure.BYTES, limit=_A_PAGE),
        "history results": lambda: read_histogram(asked(), limit=_A_PAGE),
        "history maximum activity by host": lambda: read_busiest(
            asked(), measure=Measure.EVENTS, identifier_class=_BY_HOST, limit=_A_PAGE
        ),
        "history results by host": lambda: read_histogram(asked(), identifier_class=_BY_HOST, limit=_A_PAGE),
    }


def _size(rows: int) -> str:
    """Return the number of rows as a power of ten, such as 1e7."""
    digits = len(str(rows)) - 1
    return f"1e{digits}" if rows == 10**digits else f"{rows:,}"


if __name__ == "__main__":
    sys.exit(main())
