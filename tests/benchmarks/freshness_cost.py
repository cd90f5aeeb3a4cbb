"""
Measures the cost of freshness goals: `python -m tests.benchmarks.freshness_cost`.

A private PostgreSQL is filled with documents of one continuous job on one host. A worker's flushes are timed without
goals and with goals, and the main manager prices the host with few and with many documents. The exit code is non-zero if
a flush with goals takes more than twice as long, or if the price of a large host takes more than twice as long.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import django

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_MOST: Final = 2.0
_TIMES: Final = 15
_FLUSHED: Final = 100
_GOALS: Final = [
    {"pattern": "/never/", "percent": 95.0, "within": 900.0},
    {"pattern": ".", "percent": 90.0, "within": 3600.0},
]
# Statement that creates documents as after a run, with evidence of changes.
_DOCUMENTS: Final = """
WITH made AS (
    INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, depth, outcome,
                                result_code, version, fetched_at)
    SELECT md5(n::text)::uuid, %(job)s, %(lane)s, 'http://a.example/' || n %% 10 || '/page-' || n || '.html', 2, true, false, 1, 1,
           1, 1, '200', '1:' || n, clock_timestamp()
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
    RETURNING hash, lane_id
)
INSERT INTO jobs_changerate (lane_id, hash, looked_at, evidence) SELECT lane_id, hash, clock_timestamp(), %(evidence)s FROM made
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="freshness_cost", description="Measure the cost of freshness goals.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents of the large host (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="freshness-", dir=home) as name,
        databases.in_memory(Path(name)) as database,
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        return _measure(documents=options.documents)


def _measure(*, documents: int) -> int:
    """Report the costs; return 1 if they are too high."""
    import psycopg
    from django.db import connection as django_connection

    from jobs.connectors.repository.freshness_goals import read_goals
    from jobs.duties.freshness import price_looks
    from jobs.freshness.rates import NO_EVIDENCE, after_look, pack
    from jobs.models import Job, LanePlan, LaneState, ThrottlePolicy
    from jobs.queue.flushing.flush import flush
    from jobs.queue.flushing.recrawl import Intervals
    from jobs.queue.offering.stuff import stuff
    from jobs.queue.pace.close import ClosedTurn, close_turns
    from jobs.queue.sql.arrays import register_arrays
    from jobs.queue.take import take
    from nodes.database.address import database_dsn
    from tests.support.cluster import NOON, register_node, seconds
    from tests.support.factories import facts_of, make_documents, make_lane, make_policy, make_result, make_running_job
    from tests.support.stepping import Main

    with psycopg.connect(database_dsn(), autocommit=True) as connection:
        register_arrays(connection)
        worker = register_node(connection, "worker")
        running = make_running_job(register_node(connection, "manager"), policy=make_policy(open_requests=1000))
        lane = make_lane(running.seed)
        Job.objects.update(freshness_goals=_GOALS, kind="continuous")
        ThrottlePolicy.objects.update(min_gap=0.5)
        names = iter(range(10**9))

        def flushed_ms(goals: Any) -> float:
            """Return the milliseconds of a flush of a hundred new documents."""
            make_documents(lane, [f"/{next(names)}" for _ in range(_FLUSHED)])
            LaneState.objects.update(ready_at=NOON, head=0)
            facts = {"room": 1000, "now": NOON}
            stuff(connection, manager=running.manager.id, group=running.group, workers=1, **facts)
            taken = take(connection, worker=worker.id, idle=True, **facts)
            close_turns(connection, turns=[ClosedTurn(turn.id, None) for turn in taken.turns], now=NOON)
            of_job = facts_of(running.job, goals=goals, intervals=Intervals(recrawl_after=seconds(60)))
            results = [make_result(one, of_job, lanes=[lane]) for turn in taken.turns for one in turn.documents]
            began = time.perf_counter()
            flush(connection, worker=worker.id, results=results, now=NOON)
            return (time.perf_counter() - began) * 1000 / max(len(results), 1) * _FLUSHED

        ThrottlePolicy.objects.update(min_gap=0.0)
        without, with_goals = (
            statistics.median(flushed_ms(goals) for _ in range(_TIMES)) for goals in (None, read_goals(_GOALS))
        )
        ThrottlePolicy.objects.update(min_gap=0.5)
        sys.stdout.write(
            f"a flush of {_FLUSHED} documents: {without:.1f} ms without goals, {with_goals:.1f} ms with goals\n"
        )

        main_manager, evidence = Main(connection), NO_EVIDENCE
        for number in range(30):
            evidence = after_look(evidence, 900, changed=number % 2 == 0)

        def fill(first: int, last: int) -> None:
            facts = {"job": running.job.pk, "lane": lane.pk, "evidence": pack(evidence), "first": first, "last": last}
            with django_connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = 0")
                cursor.execute(_DOCUMENTS, facts)
                cursor.execute("VACUUM ANALYZE jobs_changerate, jobs_queueitem")

        def priced_ms() -> float:
            LanePlan.objects.update(due_at=NOON)
            main_manager.now = NOON
            began = time.perf_counter()
            main_manager.step(price_looks)
            return (time.perf_counter() - began) * 1000

        fill(1, 2_000)
        few = statistics.median(priced_ms() for _ in range(_TIMES))
        fill(2_001, documents)
        many = statistics.median(priced_ms() for _ in range(_TIMES))
    sys.stdout.write(f"the price of a host: {few:.0f} ms with 3,500 documents, {many:.0f} ms with {documents:,}\n")
    return int(with_goals > _MOST * without or many > _MOST * few)


if __name__ == "__main__":
    sys.exit(main())
