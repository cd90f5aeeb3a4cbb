"""
Measures an idle cluster of many nodes with a central database: `python -m tests.benchmarks.thousand`.

A few processes run many managers and workers each, with the code, the statements and the connections of the daemons.
With `--simulated`, most nodes have no threads, for which a small machine has no CPU. A process only sends their
heartbeats over their connections. The report shows the statements of one idle manager and one idle worker by kind. Then
it shows the statements, the CPU and the connections of the whole cluster, and the time until another main manager
replaces a frozen one. It needs Debian's PostgreSQL, which counts statements.
"""

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import django
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT, Database
from tests.benchmarks.meter import cpu_seconds_of_tree, tree_of
from tests.support.waiting import wait_until

# Largest numbers of managers and of workers in one process.
_MANAGERS_A_PROCESS, _WORKERS_A_PROCESS = 25, 125
# Number of nodes in the small cluster whose statements are listed.
_FEW = 8
_PATIENCE = 120.0
# Number of managers, and of workers, that run completely while the other nodes are simulated.
_REAL = 10
_SIMULATED = "simulated "
# Seconds between the starts of two nodes of one process.
_PAUSE = 0.04
# Seconds until the cost of a start is over.
_SETTLED = 6.0
_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND application_name ~ '^[0-9a-f]{8}-.* (beat|listen|work|orm|session)$'
"""
_AT_WORK = "SELECT count(*) FROM nodes_node WHERE status = 'running'"
_MAIN = """
SELECT node.pid, term.term, node.timeout_seconds FROM nodes_mainterm AS term JOIN nodes_node AS node ON node.id = main_id
 WHERE term.scope = 'cluster' AND NOT resigned
"""
_NODES_OF_PROCESS = "SELECT count(*) FROM nodes_node WHERE pid = %s AND status = 'running'"
_SILENCE = """
SELECT extract(epoch FROM term.since - node.heartbeat_at)::float
  FROM nodes_mainterm AS term, (SELECT max(heartbeat_at) AS heartbeat_at FROM nodes_node WHERE pid = %s) AS node
 WHERE term.scope = 'cluster'
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="thousand", description="Measure an idle cluster of many nodes.")
    parser.add_argument("--managers", type=int, default=100, help="managers (%(default)s)")
    parser.add_argument("--workers", type=int, default=1_000, help="workers (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each measurement (%(default)s)")
    parser.add_argument("--only-cluster", action="store_true", help="do not list statements")
    parser.add_argument("--simulated", action="store_true", help=f"run only {2 * _REAL} nodes whole")
    parser.add_argument("--run", nargs=2, metavar=("KIND", "NUMBER"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        return _run_nodes(options.run[0], int(options.run[1]))
    if not databases.has_statistics():
        _write_line("skipped: only Debian's PostgreSQL counts statements")
        return 0
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    connections = 4 * (options.managers + options.workers) + 100
    with (
        tempfile.TemporaryDirectory(prefix="thousand-", dir=home) as name,
        databases.with_statistics(Path(name), connections=connections) as database,
        ExitStack() as running,
    ):
        bench = _Bench(database, running, seconds=options.seconds)
        if not options.only_cluster:
            bench.report_statements()
        if options.simulated:
            bench.report_cluster(managers=_REAL, workers=_REAL)
        bench.report_cluster(managers=options.managers, workers=options.workers, simulated=options.simulated)
        bench.report_takeover()
    return 0


class _Bench:
    """One cluster, which grows. Its first manager is the main manager, in a separate process."""

    def __init__(self, database: Database, running: ExitStack, *, seconds: float) -> None:
        self._database, self._running, self._seconds = database, running, seconds
        self._managers = self._workers = self._nodes = 0
        self._connection = running.enter_context(psycopg.connect(database.address, autocommit=True))

    def report_statements(self) -> None:
        """Print the statements of one idle main manager, one more manager, and one worker."""
        self._grow(managers=1)
        main = self._rates()
        self._grow(managers=_FEW)
        with_managers = self._rates()
        self._grow(workers=_FEW)
        with_workers = self._rates()
        _report_of("the idle main manager", main, {}, 1)
        _report_of("an idle manager", with_managers, main, _FEW)
        _report_of("an idle worker", with_workers, with_managers, _FEW)

    def report_cluster(self, *, managers: int, workers: int, simulated: bool = False) -> None:
        """Print the cost of the whole cluster. Missing nodes are started, or simulated."""
        if not self._managers:
            # The main manager is in a separate process, which can be frozen.
            self._grow(managers=1)
        self._grow(managers=managers - self._managers, workers=workers - self._workers, simulated=simulated)
        busy, began_at = cpu_seconds_of_tree(self._database.server), time.monotonic()
        rates = self._rates()
        cores = (cpu_seconds_of_tree(self._database.server) - busy) / (time.monotonic() - began_at)
        (sessions,) = self._row(_SESSIONS)
        memory = sum(process.memory_full_info().pss for process in tree_of(self._database.server)) / 2**20
        nodes = self._nodes
        _write_line(
            f"{self._managers} managers and {self._workers} workers, idle: {sum(rates.values()):.0f} statements/s"
        )
        _write_line(
            f"  {cores:.2f} cores of PostgreSQL, {sessions} connections ({sessions / nodes:.2f} a node), {memory:,.0f} MiB"
        )

    def report_takeover(self) -> None:
        """Print the time from the last heartbeat of a frozen main manager to the term of the next main manager."""
        pid, term, timeout = self._row(_MAIN)
        if self._row(_NODES_OF_PROCESS, pid)[0] > 1:
            _write_line(
                "takeover: skipped, because the machine was too busy for the first main manager, and others share a process"
            )
            return
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: self._row(_MAIN)[1] > term, within=_PATIENCE)
            (silence,) = self._row(_SILENCE, pid)
        finally:
            os.kill(pid, signal.SIGCONT)
        _write_line(f"takeover of a frozen main manager: {silence:.1f} s after its last beat (timeout {timeout:g} s)")

    def _grow(self, *, managers: int = 0, workers: int = 0, simulated: bool = False) -> None:
        """Start more nodes, and wait until they work and the cost of their start is over."""
        for kind, number, most in (("manager", managers, _MANAGERS_A_PROCESS), ("worker", workers, _WORKERS_A_PROCESS)):
            # One process after another: a small machine has no CPU for a simultaneous start of all.
            for first in range(0, number, most):
                nodes = min(most, number - first)
                self._running.enter_context(_nodes(self._database, f"{_SIMULATED}{kind}" if simulated else kind, nodes))
                self._nodes += nodes
                wait_until(lambda: self._row(_AT_WORK)[0] == self._nodes, within=_PATIENCE)
        self._managers += managers
        self._workers += workers
        time.sleep(_SETTLED)

    def _rates(self) -> dict[str, float]:
        """Return the statements of each kind in a second."""
        databases.forget_statements(self._database.address)
        began_at = time.monotonic()
        time.sleep(self._seconds)
        took = time.monotonic() - began_at
        rates: dict[str, float] = {}
        for calls, _time, text in databases.read_statements(self._database.address):
            rates[_kind_of(text)] = rates.get(_kind_of(text), 0.0) + calls / took
        return rates

    def _row(self, query: str, *values: object) -> Any:  # a row
        row = self._connection.execute(query, values or None).fetchone()
        assert row is not None
        return row


@contextmanager
def _nodes(database: Database, kind: str, number: int) -> Iterator[None]:
    """Run a process with this number of nodes until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.thousand", "--run", kind, str(number)],
        cwd=ROOT,
        env={"CRAWLCTL_LOG_LEVEL": "ERROR", **database.environment},
        stdin=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _run_nodes(kind: str, number: int) -> int:
    """Run nodes of one kind in this process until it is killed."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
    django.setup()
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    # Small stacks are enough: each of the hundreds of threads nests few calls.
    threading.stack_size(256 * 1024)
    if kind.startswith(_SIMULATED):
        _simulate(kind.removeprefix(_SIMULATED), number)
    elif kind == "worker":
        asyncio.run(_run_workers(number))
    else:
        _run_managers(number)
    return 0


async def _run_workers(number: int) -> None:
    from jobs.loops.worker import Worker
    from nodes.settings.running import current

    stop = asyncio.Event()
    workers = [
        Worker(dsn=_address(), identity=_identity(kind="worker", place=place), settings=current(), stop=stop)
        for place in range(number)
    ]
    tasks = []
    for worker in workers:
        tasks.append(asyncio.create_task(worker.run(force_stop=asyncio.Event())))
        await asyncio.sleep(_PAUSE)
    await asyncio.gather(*tasks)


def _run_managers(number: int) -> None:
    from jobs.loops.manager import Manager
    from nodes.settings.running import current

    managers = [
        Manager(dsn=_address(), identity=_identity(kind="manager", place=place), settings=current())
        for place in range(number)
    ]
    threads = [
        threading.Thread(target=manager.run, kwargs={"should_stop": lambda: False}, daemon=True) for manager in managers
    ]
    for thread in threads:
        thread.start()
        time.sleep(_PAUSE)
    for thread in threads:
        thread.join()


def _simulate(kind: str, number: int) -> None:
    """Send the heartbeats of this number of nodes, spread over their interval, over connections like theirs."""
    from jobs.loops.manager.events import ASKS
    from jobs.loops.worker import work_conditions
    from jobs.state import channels
    from nodes.database.connections import connect
    from nodes.membership import members
    from nodes.membership.beat_connection import BeatConnection
    from nodes.settings.node_settings import HEARTBEAT_INTERVAL
    from nodes.settings.running import current

    interval = current()[HEARTBEAT_INTERVAL].total_seconds()
    # The next heartbeats with their connections, by moment. `kept` has the connections for work.
    due: deque[tuple[float, BeatConnection]] = deque()
    kept = []

    def beat_until(moment: float) -> None:
        while due and due[0][0] <= moment:
            at, line = due.popleft()
            time.sleep(max(0.0, at - time.monotonic()))
            assert line.beat({"capacity": 1_000, "claimed": 0}).is_fit
            due.append((at + interval, line))

    for place in range(number):
        identity = _identity(kind=kind, place=place)
        work = connect(_address(), node_id=identity.id, purpose="work", timeout=identity.timeout)
        kept.append(work)
        members.join(work, identity=identity)
        is_worker = kind == "worker"
        own = (channels.take_of(identity.id),) if is_worker else (channels.STUFF, channels.GROUPS, channels.LEADERSHIP)
        line = BeatConnection(
            _address(),
            node_id=identity.id,
            timeout=identity.timeout,
            channels=(*own, channels.CONTROL),
            on_notification=lambda _channel, _payload: None,
            asks=work_conditions.of_worker(has_stores=False) if is_worker else ASKS,
            stopping=threading.Event(),
        )
        due.append((time.monotonic() + interval, line))
        beat_until(time.monotonic())
    beat_until(float("inf"))


def _identity(*, kind: str, place: int) -> Any:  # the module of this class needs Django
    from nodes.life.identity import NodeIdentity
    from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
    from nodes.settings.node_settings import NODE_TIMEOUT
    from nodes.settings.running import current

    return NodeIdentity.of_this_process(
        kind=NodeKind(kind),
        scope=CLUSTER_SCOPE,
        name=f"{kind} {os.getpid()}.{place}",
        timeout=current()[NODE_TIMEOUT],
        capacity=1_000 if kind == "worker" else 0,
    )


def _address() -> str:
    from nodes.database.address import database_dsn

    return database_dsn()


def _kind_of(text: str) -> str:
    """Return the first words of a statement: the tables that it reads or writes."""
    words = " ".join(re.sub(r"--[^\n]*", " ", text).split())
    verb = re.match(r"\w+", words)
    tables = list(
        dict.fromkeys(re.findall(r"(?:FROM|JOIN|UPDATE|INTO) (?:ONLY )?\"?((?:nodes|jobs|tasks)_\w+)", words))
    )
    return f"{verb[0] if verb else '?'} {' '.join(tables[:3]) or words[:60]}"


def _report_of(title: str, rates: dict[str, float], before: dict[str, float], nodes: int) -> None:
    """Print the statements of one of these nodes in a second, the most frequent first."""
    added = {kind: (rate - before.get(kind, 0.0)) / nodes for kind, rate in rates.items()}
    _write_line(f"{title}: {sum(added.values()):.2f} statements/s")
    for kind, rate in sorted(added.items(), key=lambda one: -one[1]):
        if rate >= 0.02:
            _write_line(f"  {rate:.2f}  {kind}")


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
