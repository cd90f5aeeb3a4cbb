"""
Measures the CPU of one page with two partitions against one database: `python -m tests.benchmarks.partitions`.

Both crawl the same synthetic site with the same number of workers in all, one after the other. The figures contain all
processes of the demo, also the database servers and the site, between 10 and 90 percent of its requests. So the
start of the clusters counts in neither.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
# Seconds between two looks at the processes.
_EVERY = 0.25
# Longest crawl (seconds).
_PATIENCE = 300.0


class Processes:
    """All processes whose environment names a directory below this one, with the CPU that they have used."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._known: dict[int, psutil.Process | None] = {}
        self._seconds: dict[int, float] = {}

    def cpu_seconds(self) -> float:
        """Return the CPU of all processes so far, also of ended ones."""
        for pid in psutil.pids():
            try:
                if pid not in self._known:
                    process = psutil.Process(pid)
                    is_ours = process.environ().get("CRAWLCTL_VAR", "").startswith(self._directory)
                    self._known[pid] = process if is_ours else None
                if (process_of_demo := self._known[pid]) is not None:
                    times = process_of_demo.cpu_times()
                    self._seconds[pid] = times.user + times.system
            except psutil.Error:
                continue
        return sum(self._seconds.values())


def measure(partitions: int, *, pages: int, hosts: int, workers: int) -> float:
    """Return the CPU of one request (milliseconds) of a demo with this number of partitions."""
    with tempfile.TemporaryDirectory(prefix="crawlctl-partitions-") as name:
        directory = Path(name)
        command = [
            sys.executable, "manage.py", "demo", "--exit", "--pages", str(pages), "--hosts", str(hosts),
            "--managers", "1", "--workers", str(workers // partitions), "--partitions", str(partitions),
        ]  # fmt: skip
        environment = {"PATH": "/usr/bin:/bin", "CRAWLCTL_VAR": str(directory / "var"), "CRAWLCTL_ADMIN_PASSWORD": ""}
        demo = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        points = _watch(demo, directory, pages)
        said = demo.communicate(timeout=_PATIENCE)[0]
    report = json.loads(said.splitlines()[-1])
    if demo.returncode or report["missing"] or report["extra"]:
        raise SystemExit(f"the crawl of {partitions} partitions is not exact: {report}")
    (few, cpu_then), (many, cpu_now) = points[0], points[-1]
    return (cpu_now - cpu_then) / (many - few) * 1000


def _watch(demo: subprocess.Popen[str], directory: Path, pages: int) -> list[tuple[int, float]]:
    """Return (requests, CPU seconds) at each look between 10 and 90 percent of the pages."""
    processes, points = Processes(directory), []
    until = time.monotonic() + _PATIENCE
    while demo.poll() is None and time.monotonic() < until:
        seconds, requests = processes.cpu_seconds(), _count_requests(directory)
        if pages // 10 <= requests <= pages * 9 // 10:
            points.append((requests, seconds))
        time.sleep(_EVERY)
    return points


def _count_requests(directory: Path) -> int:
    return sum(len(log.read_bytes().splitlines()) for log in directory.glob("var/**/demo/site.log"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2, help="workers of all partitions together")
    given = parser.parse_args()
    figures = {
        number: measure(number, pages=given.pages, hosts=given.hosts, workers=given.workers) for number in (1, 2)
    }
    for number, milliseconds in figures.items():
        sys.stdout.write(f"{number} partition{'s' if number > 1 else ''}: {milliseconds:.2f} ms of CPU a request\n")
    sys.stdout.write(f"ratio: {figures[2] / figures[1]:.2f}\n")


if __name__ == "__main__":
    main()
