"""
Measures exports of many rows: `python -m tests.benchmarks.exports`.

The database has a million documents of a thousand hosts, and as many rows of history. Each export runs in a separate
process, as in a task worker. The report shows rows a second, the largest memory of the process with everything that it
has imported, and the longest statement. The exit code is non-zero above the limits.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import django
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_MOST_MIB: Final = 200
_MOST_SECONDS: Final = 1.0
_HOSTS: Final = 1_000
_EXPORTS: Final = (
    ("documents", "csv"),
    ("documents", "jsonl"),
    ("documents", "parquet"),
    ("history", "csv"),
    ("history", "jsonl"),
    ("history", "parquet"),
    ("results", "csv"),
    ("activity", "csv"),
    ("queue", "csv"),
)
_BINS: Final = """
INSERT INTO jobs_bin (namespace, name, "interval", is_known, usual_requests, usual_gap)
SELECT 'web', 'h' || n || '.example', 0, true, 2, 1 FROM generate_series(1, %(hosts)s) AS n
"""
_LANES: Final = """
INSERT INTO jobs_lane (bin_id, seed_id) SELECT id, %(seed)s FROM jobs_bin
"""
_DOCUMENTS: Final = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, outcome, result_code, run_no, action, depth, redirects,
                            indexed_before, rescan, version, fetched_at)
SELECT md5(n::text)::uuid, %(job)s, (%(lanes)s::bigint[])[1 + n %% %(hosts)s],
       'https://h' || n %% %(hosts)s || '.example/a/usual/path/of/a/page/' || n, 2, 1, '200', 1, 0, 3, 0, true, false,
       '1:' || md5(n::text), now() - n * interval '0.01 seconds'
  FROM generate_series(1, %(rows)s) AS n
"""
_HISTORY: Final = """
INSERT INTO jobs_activity (started_at, seconds, job_id, repository_id, bytes, activity, entity, result_code)
SELECT now() - (n::float8 / %(rows)s) * (now() - date_trunc('day', now(), 'UTC')), 0.05, %(job)s, %(repository)s, 1000 + n %% 50000, 'fetch',
       'https://h' || n %% %(hosts)s || '.example/a/usual/path/of/a/page/' || n, CASE WHEN n %% 20 = 0 THEN '404' ELSE '200' END
  FROM generate_series(%(rows)s, 1, -1) AS n
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="exports", description="Measure exports of many rows.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="documents, and rows of history (%(default)s)")
    parser.add_argument("--what", help="export only this content")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "FORMAT"), help="run one export on the present database")
    options = parser.parse_args(arguments)
    if options.one:
        return _run_one(*options.one)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="exports-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ["CRAWLCTL_EXPORTS"] = str(Path(name) / "exports")
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        _fill(database.address, rows=options.rows)
        sys.stdout.write(f"{'export':24}{'rows':>12}{'rows/s':>10}{'MiB':>6}{'longest statement':>20}\n")
        holds = [_measure(what, form) for what, form in _EXPORTS if options.what in (None, what)]
    return 0 if all(holds) else 1


def _fill(address: str, *, rows: int) -> None:
    from tests.support.factories import make_job

    job = make_job("large")
    facts: dict[str, Any] = {"rows": rows, "hosts": _HOSTS, "job": job.pk, "repository": job.repository_id}
    facts["seed"] = job.seeds.get().pk
    with psycopg.connect(address, autocommit=True) as connection:
        # This disables triggers: they would require states of lanes and hosts, which exports do not need.
        connection.execute("SET session_replication_role = 'replica'")
        connection.execute(_BINS, facts)
        connection.execute(_LANES, facts)
        facts["lanes"] = [row[0] for row in connection.execute("SELECT id FROM jobs_lane")]
        connection.execute(_DOCUMENTS, facts)
        connection.execute(_HISTORY, facts)
        connection.execute("VACUUM ANALYZE")


def _measure(what: str, form: str) -> bool:
    """Run an export in a separate process. Return True if it kept the limits."""
    command = [sys.executable, "-m", "tests.benchmarks.exports", "--one", what, form]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    speed = found["rows"] / found["seconds"]
    sys.stdout.write(
        f"{f'{what} as {form}':24}{found['rows']:12,}{speed:10,.0f}{found['mib']:6.0f}{found['statement']:18.2f} s\n"
    )
    sys.stdout.flush()
    return bool(found["mib"] <= _MOST_MIB and found["statement"] <= _MOST_SECONDS)


@contextlib.contextmanager
def _timed(seconds: list[float]) -> Iterator[None]:
    """Append the time of each statement, with the transfer of its rows. Reports use cursors of psycopg directly."""
    execute = psycopg.Cursor.execute

    def timed(self: Any, *facts: Any, **options: Any) -> Any:
        began_at = time.perf_counter()
        try:
            return execute(self, *facts, **options)
        finally:
            seconds.append(time.perf_counter() - began_at)

    psycopg.Cursor.execute = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


def _run_one(what: str, form: str) -> int:
    django.setup()

    from jobs.exports import verbs, writing
    from nodes.tasks.context import TaskContext

    wanted = {"since": "2000-01-01T00:00:00Z"} if what in {"history", "results", "activity"} else {}
    export = verbs.request(what=what, format=form, filter=wanted, may=lambda _permission: True, made_by="a benchmark")
    statements = [0.0]
    with _timed(statements):
        began_at = time.perf_counter()
        writing.write_export(TaskContext(task=export.task, group="generic"), {})
        seconds = time.perf_counter() - began_at
    export.refresh_from_db()
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"rows": export.rows, "seconds": seconds, "mib": mib, "statement": max(statements)}
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
