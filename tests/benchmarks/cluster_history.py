"""
Measures the space of 30 days of the cluster's history: `python -m tests.benchmarks.cluster_history`.

Ten jobs run without a pause, so all their numbers change each minute, and a node comes or goes every ten minutes. The
report compares the history with a bare queue of a million documents, without links and outputs. The exit code is
non-zero if the history of 12 nodes needs more than a fifth of that space.
"""

import datetime as dt
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import django
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_DOCUMENTS: Final = 200_000
_MILLION: Final = 1_000_000
_MINUTES: Final = 24 * 60
_DAYS: Final = 30
_JOBS: Final = 10
_MOST: Final = 0.2


def main() -> int:
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="history-", dir=home) as name,
        databases.embedded(Path(name)) as database,
        psycopg.connect(database.address, autocommit=True) as connection,
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        queue = _size_of_queue(connection)
        shares = [
            _size_of_history(connection, nodes=nodes, groups=groups) / queue
            for nodes, groups in ((12, 50), (1_100, 240))
        ]
    sys.stdout.write(f"a million documents: {queue / 1e6:,.0f} MB\n")
    for nodes, share in zip((12, 1_100), shares, strict=True):
        sys.stdout.write(f"30 days of {nodes:,} nodes: {share * queue / 1e6:,.0f} MB, {share:.0%} of that\n")
    return 1 if shares[0] > _MOST else 0


def _size_of_queue(connection: psycopg.Connection[Any]) -> float:
    from jobs.queue.sql.arrays import register_arrays
    from tests.support.filled_queue import FilledQueue, Shape

    register_arrays(connection)
    FilledQueue(connection, documents=_DOCUMENTS, shape=Shape(bins=1_000, jobs=1))
    return _size(connection, "pg_database_size(current_database())") * _MILLION / _DOCUMENTS


def _size_of_history(connection: psycopg.Connection[Any], *, nodes: int, groups: int) -> float:
    from jobs.queries.cluster.facts import as_text, difference

    connection.execute("TRUNCATE jobs_clusterminute")
    began_at = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    ids = [str(uuid4()) for _node in range(nodes)]
    still = {
        "main": {"": {"term": 3, "node": ids[0]}},
        "owners": {id_: {"groups": 5, "weight": 5.0} for id_ in ids[: nodes // 10]},
        "groups": {
            str(group): {"name": f"policy {group}", "weight": 1.0, "owner": ids[group % nodes]}
            for group in range(groups)
        },
        "jobs": {str(job): {"name": f"job number {job}", "status": "Running", "run": 3} for job in range(_JOBS)},
    }
    live = {
        id_: {"name": f"worker-{id_[:4]}", "kind": "worker", "status": "running", "machine": id_[:8], "tags": []}
        for id_ in ids
    }
    before: dict[str, Any] = {}
    with connection.cursor().copy("COPY jobs_clusterminute (at, is_whole, facts) FROM STDIN") as rows:
        for minute in range(_MINUTES):
            absent = ids[minute // 10 % nodes]
            now = {
                **still,
                "nodes": {id_: node for id_, node in live.items() if id_ != absent},
                "progress": _progress(),
            }
            is_whole = minute % 60 == 0
            facts = as_text(now if is_whole else difference(before, now))
            rows.write_row((began_at + dt.timedelta(minutes=minute), is_whole, facts))
            before = now
    return _DAYS * _size(connection, "pg_total_relation_size('jobs_clusterminute')")


def _progress() -> dict[str, list[int]]:
    """Return numbers that change each minute: of each job, and of all."""
    limits = (10_000, 100_000_000, 10_000, *(1_000_000,) * 6)
    return {str(job): [random.randrange(limit) for limit in limits] for job in range(_JOBS + 1)}


def _size(connection: psycopg.Connection[Any], of: str) -> float:
    row = connection.execute(f"SELECT {of}").fetchone()  # type: ignore[arg-type]  # constants of this module
    assert row is not None
    return float(row[0])


if __name__ == "__main__":
    sys.exit(main())
