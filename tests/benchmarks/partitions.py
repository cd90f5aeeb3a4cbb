"""
Measures the CPU of one page with two partitions against one database: `python -m tests.benchmarks.partitions`.

Two partitions are compared with one database in two ways, in turns:

- with two separate databases that crawl half of the pages each, at the same time. So each partition has the same share
  of the machine as the database that it is compared with. This is a cluster that grows by a second machine.
- with one database that crawls all pages, with the same number of workers. So two partitions share its machine.

The figures contain all processes of the demo, also the database servers and the site, between 10 and 90 percent of its
requests. So the start of the clusters is not counted. A table shows the kinds of processes, and the sessions of the
servers by their users.

Other work on the machine can only add CPU, by caches that processes share and by slower clocks. So each figure is that
of the cheapest crawl of its setup, as with `timeit`. The figures of all crawls are printed, too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

ROOT = Path(__file__).parents[2]
# Seconds between two reads of the CPU times.
_EVERY = 0.25
# Longest crawl (seconds).
_LONGEST = 600.0
# Kinds of processes, each with a part of its command line. The first entry that matches applies.
_KINDS = (
    ("postgres: walsender", "PostgreSQL: sender of rows"),
    ("postgres: logical replication", "PostgreSQL: receiver of rows"),
    ("postgres: autovacuum", "PostgreSQL: autovacuum"),
    ("postgres: crawlctl", "PostgreSQL: other sessions"),
    ("postgres: ", "PostgreSQL: background"),
    ("crawlctl.demo.site", "site"),
    ("manage.py demo", "demo"),
    ("runmanager", "managers"),
    ("runworker", "workers"),
    ("runtasks", "task workers"),
)
_OTHERS = "web server and others"
_SESSIONS = """
SELECT session.pid, 'PostgreSQL: ' || node.kind || ', ' || split_part(session.application_name, ' ', 2)
  FROM pg_stat_activity AS session JOIN nodes_node AS node ON starts_with(session.application_name, node.id::text)
"""

# CPU of a request (milliseconds) by kind of process.
Costs = Mapping[str, float]


@dataclass(frozen=True)
class Setup:
    """Clusters that crawl at the same time, each with its part of the pages. All have the same number of partitions."""

    clusters: int
    partitions: int

    def __str__(self) -> str:
        if self.partitions > 1:
            return f"{self.partitions} partitions"
        return "1 database" if self.clusters == 1 else f"{self.clusters} separate databases"


_SETUPS = _SEPARATE, _ONE, _PARTITIONED = Setup(2, 1), Setup(1, 1), Setup(1, 2)


class Processes:
    """The processes of the demos whose data is below this directory, with the CPU that they have used."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[int, psutil.Process | None] = {}
        self._kinds: dict[int, str] = {}
        self._seconds: dict[int, float] = {}

    def cpu_seconds(self) -> Counter[str]:
        """Return the CPU of all processes so far by their kind, also of ended ones."""
        for pid in psutil.pids():
            with suppress(psutil.Error):
                self._read(pid)
        by_kind: Counter[str] = Counter()
        for pid, seconds in self._seconds.items():
            by_kind[self._kinds.get(pid, _OTHERS)] += seconds
        return by_kind

    def name_sessions(self) -> None:
        """Find out which nodes use the present sessions of the servers."""
        for home in _homes(self._directory):
            address = home / "postgres" / "address"
            with suppress(psycopg.Error, OSError), psycopg.connect(address.read_text().strip()) as connection:
                self._kinds |= dict(connection.execute(_SESSIONS).fetchall())

    def _read(self, pid: int) -> None:
        if pid not in self._known:
            process = psutil.Process(pid)
            self._known[pid] = process if self._is_ours(process) else None
        if (known := self._known[pid]) is None:
            return
        times = known.cpu_times()
        self._seconds[pid] = times.user + times.system
        command = " ".join(known.cmdline())
        # A process gets its title after its start.
        if self._kinds.get(pid, _OTHERS) == _OTHERS and command:
            self._kinds[pid] = next((kind for part, kind in _KINDS if part in command), _OTHERS)

    def _is_ours(self, process: psutil.Process) -> bool:
        """
        True for a process of the demo. A database server may run as another user and without the directory in its
        environment, so it is recognized by its number.
        """
        if process.environ().get("CRAWLCTL_VAR", "").startswith(str(self._directory)):
            return True
        if process.name() != "postgres":
            return False
        return not self._servers().isdisjoint((process.pid, process.ppid()))

    def _servers(self) -> set[int]:
        servers = set()
        for home in _homes(self._directory):
            file = home / "postgres" / "data" / "postmaster.pid"
            # A server that starts or ends may have an empty file, or none.
            with suppress(OSError, ValueError, IndexError):
                servers.add(int(file.read_text().split()[0]))
        return servers


def measure(setup: Setup, *, pages: int, hosts: int, workers: int) -> Costs:
    """Return the CPU of one request (milliseconds) of demos with this setup, by kind of process."""
    with tempfile.TemporaryDirectory(prefix="crawlctl-partitions-") as name:
        directory = Path(name)
        demos = [
            _start(setup, directory / str(number), pages=pages, hosts=hosts, workers=workers)
            for number in range(setup.clusters)
        ]
        try:
            points = _watch(demos, directory, pages)
            for demo in demos:
                demo.wait(_LONGEST)
        finally:
            # A demo ends before its directory is deleted. Otherwise it would make another database there.
            for demo in demos:
                demo.terminate()
                demo.wait(_LONGEST)
        reports = [json.loads(output.read_text().splitlines()[-1]) for output in directory.glob("*/output")]
    if any(demo.returncode for demo in demos) or any(report["missing"] or report["extra"] for report in reports):
        raise SystemExit(f"the crawl of {setup} is not exact: {reports}")
    (few, began_at, before), (many, ended_at, after) = points[0], points[-1]
    sys.stderr.write(f"{setup}: {(many - few) / (ended_at - began_at):.0f} requests a second\n")
    kinds = before.keys() | after.keys()
    return {kind: (after[kind] - before[kind]) / (many - few) * 1000 for kind in kinds}


def _start(setup: Setup, directory: Path, *, pages: int, hosts: int, workers: int) -> subprocess.Popen[bytes]:
    """Start the demo of one of the clusters, with its data and its output below this directory."""
    directory.mkdir()
    command = [
        sys.executable, "manage.py", "demo", "--exit",
        "--pages", str(pages // setup.clusters), "--hosts", str(hosts // setup.clusters),
        "--managers", "1", "--workers", str(workers // setup.clusters // setup.partitions),
        "--partitions", str(setup.partitions),
    ]  # fmt: skip
    environment = {"PATH": "/usr/bin:/bin", "CRAWLCTL_VAR": str(directory / "var"), "CRAWLCTL_ADMIN_PASSWORD": ""}
    with (directory / "output").open("w") as output:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output)


def _watch(
    demos: Sequence[subprocess.Popen[bytes]], directory: Path, pages: int
) -> list[tuple[int, float, Counter[str]]]:
    """Return (requests, time, CPU seconds by kind) at each reading between 10 and 90 percent of the pages."""
    processes, points = Processes(directory), []
    until = time.monotonic() + _LONGEST
    while all(demo.poll() is None for demo in demos) and time.monotonic() < until:
        seconds, requests = processes.cpu_seconds(), _count_requests(directory)
        if pages // 10 <= requests <= pages * 9 // 10:
            if not points:
                processes.name_sessions()
                seconds = processes.cpu_seconds()
            points.append((requests, time.monotonic(), seconds))
        time.sleep(_EVERY)
    return points


def _count_requests(directory: Path) -> int:
    logs = (home / "demo" / "site.log" for home in _homes(directory))
    return sum(len(log.read_bytes().splitlines()) for log in logs if log.exists())


def _homes(directory: Path) -> list[Path]:
    """
    Return the data directories of the demos and of their partitions. The search goes no deeper, because servers create
    and delete directories there.
    """
    return [*directory.glob("*/var"), *directory.glob("*/var/demo-*-partitions/*")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=10_000, help="pages of the site (%(default)s)")
    parser.add_argument("--hosts", type=int, default=50, help="hosts of the site (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="workers of all databases together (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="crawls of each setup (%(default)s)")
    given = parser.parse_args()
    crawls: dict[Setup, list[Costs]] = {setup: [] for setup in _SETUPS}
    for _ in range(given.rounds):
        for setup, costs in crawls.items():
            costs.append(measure(setup, pages=given.pages, hosts=given.hosts, workers=given.workers))
    cheapest = {setup: min(costs, key=_total) for setup, costs in crawls.items()}
    for kind in sorted(set().union(*cheapest.values()), key=lambda kind: -cheapest[_PARTITIONED].get(kind, 0.0)):
        sys.stdout.write(f"{kind:42}" + "".join(f" {costs.get(kind, 0.0):7.3f}" for costs in cheapest.values()) + "\n")
    for setup, costs in crawls.items():
        each = ", ".join(f"{_total(one):.2f}" for one in costs)
        sys.stdout.write(f"{setup}: {_total(cheapest[setup]):.2f} ms of CPU a request ({each})\n")
    for setup in (_SEPARATE, _ONE):
        ratio = _total(cheapest[_PARTITIONED]) / _total(cheapest[setup])
        sys.stdout.write(f"{_PARTITIONED}, divided by {setup}: {ratio:.2f}\n")


def _total(costs: Costs) -> float:
    return sum(costs.values())


if __name__ == "__main__":
    main()
