"""
Measures background tasks while the archive is large: `python -m tests.benchmarks.tasks`.

The archive has a million tasks. The report shows the time of each list of the API and each page, with and without
filters, of the statistics, and of one cycle that assigns 1,000 tasks to 1,000 workers. The exit code is non-zero above the limits.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import django
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_MOST_SECONDS: Final = 0.1
_ROUNDS: Final = 9
_WORKERS: Final = 1000
_ARCHIVE: Final = """
INSERT INTO tasks_archivedtask (id, kind, arguments, "group", tags, urn, retry_policy, created_at, created_by, made_of,
       made_of_urn, attempts, crashes, last_due_at, last_started_at, last_ended_at, last_crashed, last_class,
       last_message, last_trace, last_worker, late_endings, why, archived_at)
SELECT n, 'kind-' || n %% 20, '{"number": 1}', 'group-' || n %% 25, ARRAY['tag-' || n %% 100], '', '{"policy": "never"}',
       at, 'a user', CASE WHEN n %% 2 = 0 THEN 'template' ELSE '' END, CASE WHEN n %% 2 = 0 THEN 'nightly' ELSE '' END,
       1 + n %% 3, 0, at, at, at + interval '1 second', false, '', '', '', 'a worker', 0,
       CASE WHEN n %% 50 = 0 THEN 'tried-too-many-times' ELSE 'done' END, at
  FROM generate_series(1, %(tasks)s) AS n,
       LATERAL (SELECT now() - (%(tasks)s - n) * interval '0.4 seconds' AS at) AS moment
"""
_WORKERS_AND_TASKS: Final = """
TRUNCATE tasks_task, tasks_taskworker;
INSERT INTO tasks_taskworker (id, name, work_on, host, pid)
SELECT gen_random_uuid(), 'w', 'group-' || n %% 25, 'h', n FROM generate_series(1, %(workers)s) AS n;
INSERT INTO tasks_task (kind, arguments, "group", retry_policy, created_by, scheduled_at)
SELECT 'sleep', '{"seconds": 0}', 'group-' || n %% 25, '{"policy": "never"}', 'a user', now() - interval '1 minute'
  FROM generate_series(1, 10 * %(workers)s) AS n
"""
_ADDRESSES: Final = (
    "/api/v1/archived-tasks/",
    "/api/v1/archived-tasks/?limit=500",
    "/api/v1/archived-tasks/?group=group-7",
    "/api/v1/archived-tasks/?kind=kind-3",
    "/api/v1/archived-tasks/?why=tried-too-many-times",
    "/api/v1/archived-tasks/?tag=tag-7",
    "/api/v1/archived-tasks/?ordering=id",
    "/api/v1/archived-tasks/?made_of_urn=nightly",
    "/api/v1/tasks/?group=group-7",
    "/api/v1/task-workers/",
    "/api/v1/task-statistics/",
    "/api/v1/task-statistics/?group=group-7",
    "/tasks/",
    "/tasks/?group=group-7",
    "/tasks/scheduled/",
    "/tasks/scheduled/?group=group-7&kind=sleep",
    "/tasks/archived/",
    "/tasks/archived/?group=group-7",
    "/tasks/archived/?kind=kind-3",
    "/tasks/archived/?why=tried-too-many-times",
    "/tasks/archived/?tag=tag-7",
    "/tasks/archived/?group=group-7&why=tried-too-many-times",
    "/tasks/archived/?group=nothing",
    "/tasks/archived/?why=cancelled",
    "/tasks/archived/reschedule/?group=group-7",
    "/tasks/500000/",
    "/tasks/templates/",
    "/tasks/workers/",
    "/admin/tasks/archivedtask/",
    "/admin/tasks/archivedtask/?q=group-7",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tasks", description="Measure background tasks beside a large archive.")
    parser.add_argument("--tasks", type=int, default=1_000_000, help="tasks of the archive (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="tasks-", dir=home) as name,
        databases.embedded(Path(name)) as database,
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        with psycopg.connect(database.address, autocommit=True) as connection:
            connection.execute(_ARCHIVE, {"tasks": options.tasks})
            connection.execute("VACUUM ANALYZE tasks_archivedtask")
            slowest = max(_measure_assignment(connection), _measure_lists())
    return 0 if slowest <= _MOST_SECONDS else 1


def _measure_assignment(connection: psycopg.Connection) -> float:
    from nodes.tasks import recruiter
    from tests.support.cluster import elect_main, register_node

    term = elect_main(connection, register_node(connection, "manager"))

    def assign() -> None:
        assigned = recruiter.assign_due_tasks(connection, term=term)
        assert assigned == _WORKERS, assigned

    seconds = []
    for _ in range(_ROUNDS):
        with psycopg.ClientCursor(connection) as cursor:
            cursor.execute(_WORKERS_AND_TASKS, {"workers": _WORKERS})
        connection.execute("ANALYZE tasks_task, tasks_taskworker")
        seconds.append(_seconds(assign))
    return _report(f"assign {_WORKERS} tasks", seconds)


def _measure_lists() -> float:
    from rest_framework.test import APIClient

    from crawlctl.access.roles import ADMINISTRATOR
    from tests.support.api import make_user

    client = APIClient()
    client.force_login(make_user(ADMINISTRATOR))

    def read(address: str) -> None:
        answer = client.get(address, SERVER_NAME="localhost")
        assert answer.status_code == 200, answer.content

    return max(
        _report(address, [_seconds(lambda address=address: read(address)) for _ in range(_ROUNDS)])
        for address in _ADDRESSES
    )


def _seconds(work: Callable[[], None]) -> float:
    began_at = time.perf_counter()
    work()
    return time.perf_counter() - began_at


def _report(what: str, seconds: list[float]) -> float:
    median = statistics.median(seconds)
    sys.stdout.write(f"{median * 1000:8.1f} ms  {what}\n")
    sys.stdout.flush()
    return median


if __name__ == "__main__":
    sys.exit(main())
