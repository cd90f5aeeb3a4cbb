"""
Measures the cost of an idle cluster, and its recovery from failures: `python -m tests.benchmarks.life`.

The main manager is frozen again and again, in a cluster with two heartbeats a second. The report shows the time from
its last heartbeat until a manager is the next main manager (in intervals of heartbeats). Documents of a failed worker
are released, as rows. Ten idle nodes are watched with few and many documents, and with few and many seeds: their cost
should not depend on these. Last, thirty daemons run at the same time, and their connections are counted.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import psutil

from tests.benchmarks import databases
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT, Database
from tests.benchmarks.meter import cpu_seconds_of_tree
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from typing import LiteralString

    import psycopg

_BEAT, _TIMEOUT = 0.5, 2.0
_QUICK = {"CRAWLCTL_HEARTBEAT_INTERVAL": str(_BEAT), "CRAWLCTL_NODE_TIMEOUT": str(_TIMEOUT)}
_MANAGERS, _WORKERS = 4, 6
_MANY_MANAGERS, _MANY_WORKERS = 10, 20
# Contents of each idle cluster, as (documents, seeds).
_FEW, _MANY_DOCUMENTS, _MANY_SEEDS = (1_000, 10), (1_000_000, 10), (1_000, 10_000)
# Statements that create a stopped job, its seeds, and the documents of the first seed, all fetched.
_SEEDS = """
INSERT INTO jobs_seed (job_id, urls, seeded_run)
SELECT %(job)s, ARRAY['http://a.test/' || n], 1 FROM generate_series(1, %(seeds)s::int) AS n
"""
_DOCUMENTS = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, depth,
                            redirects, outcome, result_code)
SELECT md5(%(job)s || '/' || n)::uuid, %(job)s, %(lane)s, 'http://a.test/' || n, 2, false, false, 1, 0, 0, 0, 1, '200'
  FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""
# Statements that create documents that a worker has claimed, in batches of `size`.
_CLAIMED = """
WITH offered AS (
    INSERT INTO jobs_batch (group_id, node_scope, manager_id, worker_id, kind, state, documents, created_at, sent_at)
    SELECT %(group)s, 'cluster', %(manager)s, %(worker)s, 'process', 'sent', %(size)s, now(), now()
      FROM generate_series(1, %(batches)s::int) RETURNING id
), numbered AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM offered)
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, depth,
                            redirects, outcome, result_code, batch_id, seq)
SELECT md5(%(job)s || '/' || n)::uuid, %(job)s, %(lane)s, 'http://a.test/' || n, 1, false, false, 1, 0, 0, 0, 0, '',
       numbered.id, n
  FROM numbered, generate_series(numbered.place * %(size)s + 1, (numbered.place + 1) * %(size)s) AS n
"""
_BATCH = 64
_FORGET = "TRUNCATE jobs_job, jobs_queueitem, jobs_batch, nodes_node, nodes_mainterm CASCADE"
_SESSIONS = """
SELECT node.id, count(*) FROM nodes_node AS node
  JOIN pg_stat_activity AS session ON starts_with(session.application_name, node.id::text)
 WHERE node.status = 'running' GROUP BY node.id
"""
# Seconds until the cost of a start is over.
_SETTLED = 5.0
# Seconds that thirty processes may take to start on a small machine.
_PATIENCE = 300.0
# Largest number of rows that one statement inserts.
_AT_ONCE = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="life", description="Measure takeovers, releases, and idle clusters.")
    parser.add_argument("--takeovers", type=int, default=10, help="main managers to freeze (%(default)s)")
    parser.add_argument("--claimed", type=int, default=100_000, help="documents of a failed worker (%(default)s)")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds that idle clusters are watched (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="life-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        bench = _Bench(database)
        bench.report_takeovers(options.takeovers)
        bench.report_release(options.claimed)
        bench.report_idle(options.idle)
        bench.report_connections()
    return 0


class _Bench:
    """One database for the clusters, which run one after the other."""

    def __init__(self, database: Database) -> None:
        self._environment = database.environment
        self._server = database.server

    # --- Elections -------------------------------------------------------------------------------

    def report_takeovers(self, times: int) -> None:
        """
        Print the time from the last heartbeat of a frozen main manager until a manager is the next main manager (in
        intervals of heartbeats).
        """
        with ExitStack() as running:
            self._start(running, "runmanager", "runmanager", **_QUICK)
            self._wait_for_nodes(2)
            beats = []
            for _ in range(times):
                self._start(running, "runmanager", **_QUICK)
                self._wait_for_nodes(3)
                beats.append(self._freeze_main_manager())
        longest = _TIMEOUT / _BEAT + 2
        _write_line(
            f"takeover of a frozen main manager: median {statistics.median(beats):.1f}, most {max(beats):.1f} beats of {_BEAT} s"
            f" ({times} times; the timeout and two beats are {longest:.0f})"
        )

    def _freeze_main_manager(self) -> float:
        """
        Freeze the main manager until it is replaced, then let it end. Return the time from its last heartbeat to the
        term of the next main manager (in intervals of heartbeats).
        """
        ((main, pid, term),) = self._rows(
            "SELECT node.id, node.pid, term FROM nodes_mainterm AS term JOIN nodes_node AS node ON node.id = main_id"
            " WHERE term.scope = 'cluster'"
        )
        frozen = psutil.Process(pid)
        frozen.suspend()
        try:
            wait_until(lambda: self._value("SELECT term FROM nodes_mainterm WHERE scope = 'cluster'") > term)
        finally:
            frozen.resume()
        wait_until(lambda: not frozen.is_running() or frozen.status() == psutil.STATUS_ZOMBIE)
        silence = self._value(
            "SELECT extract(epoch FROM term.since - node.heartbeat_at)::float FROM nodes_mainterm AS term, nodes_node AS node"
            " WHERE term.scope = 'cluster' AND node.id = %s",
            main,
        )
        return float(silence) / _BEAT

    # --- Documents of a failed worker --------------------------------------------------------------

    def report_release(self, documents: int) -> None:
        """Print how long the release of a failed worker's documents takes."""
        from django.utils import timezone

        from jobs.queue.release import release_of_lost_workers
        from nodes.membership import leadership
        from tests.support.cluster import elect_main, fall_silent, register_node
        from tests.support.factories import make_lane, make_running_job

        with self._connect() as connection:
            connection.execute(_FORGET)
            manager, worker = register_node(connection, "manager"), register_node(connection, "worker")
            term = elect_main(connection, manager)
            running = make_running_job(manager)
            facts = {"job": running.job.pk, "lane": make_lane(running.seed).pk, "group": running.group.id}
            facts |= {"manager": manager.id, "worker": worker.id, "size": _BATCH, "batches": -(-documents // _BATCH)}
            connection.execute(_CLAIMED, facts)
            connection.execute("VACUUM ANALYZE jobs_queueitem, jobs_batch")
            leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
            began_at = time.perf_counter()
            returned = release_of_lost_workers(connection, scope="cluster", term=term, now=timezone.now())
            took = time.perf_counter() - began_at
            connection.execute(_FORGET)
        _write_line(
            f"release of {returned:,} documents of a failed worker: {took:.1f} s ({returned / took:,.0f} documents/s)"
        )

    # --- Idle clusters -----------------------------------------------------------------------------

    def report_idle(self, seconds: float) -> None:
        """Print the cost of ten idle nodes, with few and many documents, and with few and many seeds."""
        job, lane = self._make_stopped_job(seeds=_FEW[1])
        self._fill(job, lane, first=1, last=_FEW[0])
        few = self._cpu_of_idle(seconds)
        self._fill(job, lane, first=_FEW[0] + 1, last=_MANY_DOCUMENTS[0])
        many_documents = self._cpu_of_idle(seconds)
        with self._connect() as connection:
            connection.execute(_SEEDS, {"job": job, "seeds": _MANY_SEEDS[1] - _FEW[1]})
            connection.execute("VACUUM ANALYZE jobs_seed")
        many_seeds = self._cpu_of_idle(seconds)
        nodes = _MANAGERS + _WORKERS
        _write_line(
            f"CPU of {nodes} idle nodes and their database: {100 * few:.1f} % of a core beside 10^3 documents, 10 seeds"
        )
        _write_line(f"ratio CPU of an idle cluster 10^6 to 10^3 documents: {many_documents / few:.2f}")
        _write_line(f"ratio CPU of an idle cluster 10^4 to 10 seeds: {many_seeds / many_documents:.2f}")

    def _make_stopped_job(self, *, seeds: int) -> tuple[int, int]:
        from tests.support.factories import make_job, make_lane

        job = make_job(urls=["http://a.test/"])
        lane = make_lane(job.seeds.get(), "a.test")
        with self._connect() as connection:
            connection.execute(_SEEDS, {"job": job.pk, "seeds": seeds - 1})
        return job.pk, lane.pk

    def _fill(self, job: int, lane: int, *, first: int, last: int) -> None:
        with self._connect() as connection:
            for begin in range(first, last + 1, _AT_ONCE):
                end = min(last, begin + _AT_ONCE - 1)
                connection.execute(_DOCUMENTS, {"job": job, "lane": lane, "first": begin, "last": end})
            connection.execute("VACUUM ANALYZE jobs_queueitem")
            connection.execute("CHECKPOINT")

    def _cpu_of_idle(self, seconds: float) -> float:
        """Return the cores that the cluster and its database use."""
        with ExitStack() as running:
            daemons = self._start(running, *["runmanager"] * _MANAGERS, *["runworker"] * _WORKERS)
            self._wait_for_nodes(_MANAGERS + _WORKERS)
            time.sleep(_SETTLED)
            watched = [psutil.Process(daemon.pid) for daemon in daemons] + [self._server]
            before, began_at = _used_by(watched), time.monotonic()
            time.sleep(seconds)
            return (_used_by(watched) - before) / (time.monotonic() - began_at)

    # --- Connections -------------------------------------------------------------------------------

    def report_connections(self) -> None:
        """Print how many connections thirty daemons hold."""
        with ExitStack() as running:
            self._start(running, *["runmanager"] * _MANY_MANAGERS, *["runworker"] * _MANY_WORKERS)
            nodes = _MANY_MANAGERS + _MANY_WORKERS
            self._wait_for_nodes(nodes)
            # After this pause each node has its permanent connections, and no manager has an extra connection for a
            # moment.
            time.sleep(_SETTLED)
            counted = [row[1] for row in self._rows(_SESSIONS)]
        _write_line(f"connections of {nodes} daemons: {sum(counted)}, of one at most {max(counted)}")

    # --- Steps -------------------------------------------------------------------------------------

    def _start(self, running: ExitStack, *kinds: str, **settings: str) -> "list[subprocess.Popen[bytes]]":
        return running.enter_context(running_daemons(self._environment | settings, *kinds))

    def _wait_for_nodes(self, count: int) -> None:
        """Wait until this many nodes are at work."""
        at_work = "SELECT count(*) FROM nodes_node WHERE status = 'running'"
        wait_until(lambda: self._value(at_work) == count, within=_PATIENCE)

    def _rows(self, query: "LiteralString", *values: object) -> list[tuple[Any, ...]]:
        with self._connect() as connection:
            return connection.execute(query, values).fetchall()

    def _value(self, query: "LiteralString", *values: object) -> Any:
        ((value,),) = self._rows(query, *values)
        return value

    def _connect(self) -> "psycopg.Connection[Any]":
        import psycopg

        from nodes.database.address import database_dsn

        return psycopg.connect(database_dsn(), autocommit=True)


def _used_by(processes: Sequence[psutil.Process]) -> float:
    return sum(cpu_seconds_of_tree(process) for process in processes)


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
