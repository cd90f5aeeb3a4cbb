"""
Measure how much of the allowed requests a crawl of many hosts makes: `python -m tests.benchmarks.wide [SHAPE ...]`.

Each shape is one `crawlctl crawl` with its defaults against hosts on loopback; the figures come from the site's log.

    delay       300 hosts with a delay of 1 s: the share of the starts that the delay allows, per host
    delays      3,000 hosts with a delay of 4 s: the same
    slow        500 hosts that answer after 0.2 to 2 s, two requests each: how many requests are open
    fast        one host without a delay: pages a second, and those of a second run that gets 304 for each
    tls         1,000 TLS hosts with a median latency of 80 ms: pages a second, and the last 5 % of the pages, both
                compared with Scrapy on the same site (`make set-up-bench` installs it)

Each shape also measures the memory of the largest process. The exit code is 1 if a figure misses its goal.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from crawlctl.demo.log import LoggedRequest, read_log
from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT, Database
from tests.benchmarks.many_hosts import host
from tests.benchmarks.runs import SCRAPY_PYTHON
from tests.benchmarks.web_of_hosts import HOSTS_A_CERTIFICATE, latencies, skewed_latencies

# Seconds until a new crawl has an even rate.
_WARM_UP: Final = 20.0
_MEASURED: Final = 60.0
_MEMORY: Final = 400.0


@dataclass(frozen=True)
class _Site:
    ports: Sequence[int]
    log: Path
    hosts: int
    scheme: str = "http"

    @property
    def seeds(self) -> list[str]:
        return [f"{self.scheme}://{host(number)}:{self._port(number)}/" for number in range(self.hosts)]

    def _port(self, number: int) -> int:
        return self.ports[0 if len(self.ports) == 1 else number // HOSTS_A_CERTIFICATE]

    def pages(self) -> list[LoggedRequest]:
        # The site flushes its log ten times a second.
        time.sleep(0.3)
        return [line for line in read_log(self.log) if line.path != "/robots.txt"]


@dataclass
class _Report:
    """A report that prints figures with their goals, and remembers whether a goal was missed."""

    missed: int = 0

    def add(self, name: str, value: float, *, goal: float, at_most: bool = False, unit: str = "") -> None:
        holds = value <= goal if at_most else value >= goal
        self.missed += not holds
        relation = "at most" if at_most else "at least"
        verdict = "" if holds else "  MISSED"
        sys.stdout.write(f"  {name}: {value:,.1f}{unit} (goal: {relation} {goal:,.1f}{unit}){verdict}\n")
        sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wide", description="Measure crawls of many hosts.")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(_SHAPES)} (all)")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.shapes) - set(_SHAPES)):
        parser.error(f"unknown shape {unknown[0]}: choose from {', '.join(_SHAPES)}")
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    report = _Report()
    for name in options.shapes or _SHAPES:
        with (
            tempfile.TemporaryDirectory(prefix="wide-", dir=home) as directory,
            databases.embedded(Path(directory)) as database,
        ):
            _SHAPES[name](Path(directory), database, report)
    return 1 if report.missed else 0


def _measure_delay(
    directory: Path, database: Database, report: _Report, *, hosts: int, gap: float, goal: float
) -> None:
    pages = int((_WARM_UP + 2 * _MEASURED) / gap)
    with _running_site(directory, hosts=hosts, pages=pages, latency=(0.02, 0.1)) as site:
        crawl = _crawl(database, site, "--connections-per-host=2", f"--delay={gap}")
        with _Crawling(crawl) as crawling:
            since = time.monotonic_ns() + int(1e9 * _ramp_up(site, crawling))
            until = since + int(1e9 * _MEASURED)
            while time.monotonic_ns() < until:
                crawling.check()
                time.sleep(0.2)
        starts = Counter(line.host for line in site.pages() if since <= line.time < until)
        shares = sorted(100 * starts[f"{host(number)}:{site.ports[0]}"] * gap / _MEASURED for number in range(hosts))
        sys.stdout.write(f"{hosts} hosts with a delay of {gap:g} s\n")
        report.add("mean share of the rate", sum(shares) / hosts, goal=goal, unit=" %")
        report.add("least share of the rate", shares[0], goal=goal - 7, unit=" %")
        report.add("memory of a worker", crawling.peak_mib, goal=_MEMORY, at_most=True, unit=" MiB")


def _measure_slow(directory: Path, database: Database, report: _Report) -> None:
    hosts, pages, least, most = 500, 120, 0.2, 2.0
    with _running_site(directory, hosts=hosts, pages=pages, latency=(least, most)) as site:
        crawl = _crawl(database, site, "--connections-per-host=2", "--delay=0")
        with _Crawling(crawl) as crawling:
            since = time.monotonic_ns() + int(1e9 * _ramp_up(site, crawling))
            until = since + int(1e9 * 10)
            while time.monotonic_ns() < until:
                crawling.check()
                time.sleep(0.2)
        latency = {
            f"{host(n)}:{site.ports[0]}": seconds
            for n, seconds in enumerate(latencies(hosts=hosts, least=least, most=most))
        }
        within = [line for line in site.pages() if since <= line.time < until]
        # Little's law: requests a second, each open for its host's latency.
        in_flight = sum(latency[line.host] for line in within) / 10
        sys.stdout.write(f"{hosts} hosts that answer after {least:g} to {most:g} s, two requests each\n")
        report.add("open requests of 1,000 allowed", in_flight, goal=800)
        sys.stdout.write(f"  pages a second: {len(within) / 10:,.0f}\n")
        report.add("memory of a worker", crawling.peak_mib, goal=_MEMORY, at_most=True, unit=" MiB")


def _measure_fast(directory: Path, database: Database, report: _Report) -> None:
    pages = 20_000
    rates: list[float] = []
    peak_mib = 0.0
    with _running_site(directory, hosts=1, pages=pages, latency=(0.0, 0.0)) as site:
        for run in ("first", "second"):
            before = len(site.pages())
            crawl = _crawl(
                database,
                site,
                "--connections-per-host=16",
                "--delay=0",
                "--job=fast",
            )
            with _Crawling(crawl) as crawling:
                crawling.wait()
            peak_mib = max(peak_mib, crawling.peak_mib)
            lines = site.pages()[before:]
            seconds = (lines[-1].time - lines[0].time) / 1e9
            rates.append(len(lines) / seconds)
            answers = Counter(line.status for line in lines)
            sys.stdout.write(
                f"one fast host, {run} run: {len(lines):,} pages, answers {dict(answers)}, {rates[-1]:,.0f} a second\n"
            )
    report.add("pages a second", rates[0], goal=1_500)
    report.add("second run to first", rates[1] / rates[0], goal=2)
    report.add("memory of a worker", peak_mib, goal=_MEMORY, at_most=True, unit=" MiB")


def _measure_tls(directory: Path, database: Database, report: _Report) -> None:
    hosts, pages, median = 1_000, 20, 0.08
    own = ["--median", str(median), "--tls", str(directory)]
    slowest = max(skewed_latencies(hosts=hosts, median=median))
    sys.stdout.write(f"{hosts:,} TLS hosts with a median latency of {1000 * median:g} ms, {pages} pages each\n")
    with _running_site(directory, *own, hosts=hosts, pages=pages, scheme="https") as site:
        trust = {"SSL_CERT_FILE": str(directory / "ca.pem")}
        options = ("--connections-per-host=2", "--delay=0", "--job=tls")
        runs: list[_Run] = []
        peak_mib = 0.0
        for name in ("first", "second"):
            before = len(site.pages())
            with _Crawling(_crawl(database, site, *options, **trust)) as crawling:
                crawling.wait()
            peak_mib = max(peak_mib, crawling.peak_mib)
            runs.append(_Run.of(site.pages()[before:]))
            sys.stdout.write(f"  {name} run: {runs[-1]}\n")
            sys.stdout.flush()
        report.add("memory of a worker", peak_mib, goal=_MEMORY, at_most=True, unit=" MiB")
        sys.stdout.write("  Scrapy on the same site: starting, some minutes\n")
        sys.stdout.flush()
        scrapy = _run_scrapy(site, directory)
        sys.stdout.write(f"  Scrapy: {scrapy}\n")
        report.add("pages a second, by those of Scrapy", runs[0].rate / scrapy.rate, goal=7)
        report.add("time of the last 5 %", runs[0].tail, goal=scrapy.tail, at_most=True, unit=" s")
    # robots.txt and the first page alone, then two pages at a time.
    sys.stdout.write(f"  the slowest host alone takes {slowest * (2 + (pages - 1) / 2):.1f} s\n")


@dataclass(frozen=True)
class _Run:
    """A crawl by the site's log: pages, pages a second, and the seconds of the last 5 % of the pages."""

    pages: int
    rate: float
    tail: float

    @classmethod
    def of(cls, lines: Sequence[LoggedRequest]) -> "_Run":
        times = [line.time / 1e9 for line in lines]
        return cls(len(times), len(times) / (times[-1] - times[0]), times[-1] - times[len(times) * 95 // 100])

    def __str__(self) -> str:
        return f"{self.pages:,} pages, {self.rate:,.0f} a second, the last 5 % in {self.tail:.1f} s"


def _run_scrapy(site: _Site, directory: Path) -> _Run:
    if not SCRAPY_PYTHON.exists():
        raise RuntimeError("Scrapy is not installed: make set-up-bench")
    seeds = directory / "seeds"
    seeds.write_text("\n".join(site.seeds))
    before = len(site.pages())
    subprocess.run([SCRAPY_PYTHON, ROOT / "tests" / "benchmarks" / "scrapy_hosts.py", seeds], check=True)
    return _Run.of(site.pages()[before:])


_SHAPES: Final[dict[str, Callable[[Path, Database, _Report], None]]] = {
    "delay": lambda *given: _measure_delay(*given, hosts=300, gap=1.0, goal=97),
    "delays": lambda *given: _measure_delay(*given, hosts=3_000, gap=4.0, goal=95),
    "slow": _measure_slow,
    "fast": _measure_fast,
    "tls": _measure_tls,
}


@contextmanager
def _running_site(
    directory: Path,
    *options: str,
    hosts: int,
    pages: int,
    latency: tuple[float, float] = (0.0, 0.0),
    scheme: str = "http",
) -> Iterator[_Site]:
    log = directory / "site.log"
    command = [
        *(sys.executable, "-m", "tests.benchmarks.web_of_hosts", str(log), f"--hosts={hosts}", f"--pages={pages}"),
        *("--latency", *(str(bound) for bound in latency), *options),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield _Site([int(port) for port in process.stdout.readline().split()], log, hosts, scheme)
        finally:
            process.terminate()


def _crawl(database: Database, site: _Site, *options: str, **environment: str) -> "subprocess.Popen[bytes]":
    command = [
        *(sys.executable, "manage.py", "crawl", *site.seeds, "--allow-private-networks", "--no-progress"),
        *([] if any(option.startswith("--output") for option in options) else ["--output=null"]),
        *options,
    ]
    environment = {**database.environment, "CRAWLCTL_LOG_LEVEL": "ERROR", **environment}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class _Crawling:
    """A crawl while it runs: its memory, and its end."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._root = psutil.Process(process.pid)
        self.peak_mib = 0.0

    def __enter__(self) -> "_Crawling":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def check(self) -> None:
        """Record the memory of the largest worker. Raise RuntimeError if the crawl has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the crawl ended with {self._process.returncode} before it was measured")
        self._record_memory()

    def _record_memory(self) -> None:
        for child in self._root.children(recursive=True):
            try:
                self.peak_mib = max(self.peak_mib, child.memory_full_info().pss / (1 << 20))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue

    def wait(self) -> None:
        """Record the memory of the largest worker until the crawl has ended."""
        while self._process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                self._record_memory()
            time.sleep(0.5)
        if self._process.returncode:
            raise RuntimeError(f"the crawl ended with {self._process.returncode}")


def _ramp_up(site: _Site, crawling: _Crawling) -> float:
    """Wait until each host got a request for a page. Return the seconds to wait after that."""
    asked: set[str] = set()
    while len(asked) < site.hosts:
        crawling.check()
        asked = {line.host for line in site.pages()}
    return _WARM_UP


if __name__ == "__main__":
    sys.exit(main())
