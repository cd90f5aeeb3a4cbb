"""One measured run: a crawler against a fresh synthetic site, with the figures of both."""

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from crawlctl.demo.log import read_log
from tests.benchmarks.databases import ROOT, Database
from tests.benchmarks.lag import Lag
from tests.benchmarks.meter import Meter, busy_seconds_of_machine, cpu_seconds_of_tree, tree_of

HOSTS = 4
CONNECTIONS = 64
WORKERS = 2
# Longest time until a search finds a new text (seconds), as the search output promises.
FINDABLE_WITHIN = 10.0
SCRAPY_PYTHON = ROOT / ".venv-bench" / "bin" / "python"

# Seconds without a request after which a crawler counts as hanging, and is ended.
_STALLED = 60.0
# Seconds between two checks of the crawler.
_INTERVAL = 0.25
_LINES_SHOWN = 20

# Function that is called a few times a second with the number of requests so far.
Watch = Callable[[int], None]


@dataclass(frozen=True)
class Run:
    """
    The result of a run. Rates and counts are the site's own; CPU and memory are by kind of process.

    `others_cores` is the number of cores that other processes kept busy meanwhile. `defects` are sentences, none if
    every page was fetched.
    """

    pages_a_second: float
    requests: int
    distinct: int
    seconds: float
    cpu_ms_a_page: dict[str, float]
    peak_mib: dict[str, float]
    others_cores: float
    defects: tuple[str, ...]
    # Longest time in seconds until a text could be found. None if the run was not watched for it.
    lag: float | None = None


@dataclass(frozen=True)
class Site:
    """A running synthetic site."""

    pages: int
    start_url: str
    log: Path
    process: psutil.Process


@contextlib.contextmanager
def running_site(*, pages: int, directory: Path) -> Iterator[Site]:
    """Run a site without traps, so that every request except robots.txt is for a page."""
    log = directory / "site.log"
    command = [
        *(sys.executable, "-m", "crawlctl.demo.site", "--attached", f"--pages={pages}", f"--hosts={HOSTS}"),
        *("--traps=0", "--host-style=ports", f"--log={log}"),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        start_url = json.loads(process.stdout.readline())["start_url"]
        try:
            yield Site(pages=pages, start_url=start_url, log=log, process=psutil.Process(process.pid))
        finally:
            process.terminate()


def run_scrapy(*, pages: int, directory: Path, watch: Watch) -> Run:
    """Run Scrapy with its queue on disk."""
    with running_site(pages=pages, directory=directory) as site:
        job = directory / "scrapy"
        script = ROOT / "tests" / "benchmarks" / "scrapy_spider.py"
        command = [str(SCRAPY_PYTHON), str(script), site.start_url, str(job), str(CONNECTIONS)]
        return _measure(command, kinds=("scrapy", ""), site=site, directory=directory, watch=watch)


def run_ceiling(*, pages: int, directory: Path, database: Database, watch: Watch) -> Run:
    """Run the loop that is not a crawler (`tests.benchmarks.ceiling`)."""
    with running_site(pages=pages, directory=directory) as site:
        command = [sys.executable, "-m", "tests.benchmarks.ceiling", site.start_url, database.address, str(CONNECTIONS)]
        return _measure(
            command, kinds=("parent", "processes"), site=site, directory=directory, watch=watch, database=database
        )


def run_ours(*, pages: int, directory: Path, database: Database, output: str, watch: Watch, archive: str = "") -> Run:
    """Run `manage.py crawl` with its manager and workers, as users start it; `archive` is a format, or empty."""
    with running_site(pages=pages, directory=directory) as site, contextlib.ExitStack() as stack:
        command = [
            *(sys.executable, "manage.py", "crawl", site.start_url, "--scope=any", "--allow-private-networks"),
            *(f"--connections-per-host={CONNECTIONS // HOSTS}", "--delay=0", f"--output={output}"),
            *(f"--workers={WORKERS}", "--json", "--no-progress"),
            *([f"--archive={archive}"] if archive else []),
        ]
        lag = stack.enter_context(Lag(database.address)) if output == "search" else None
        run = _measure(
            command, kinds=("manager", "workers"), site=site, directory=directory, watch=watch, database=database
        )
        stack.close()
        return run if lag is None else _with_lag(run, lag)


def _with_lag(run: Run, lag: Lag) -> Run:
    defects = list(run.defects)
    if lag.left:
        defects.append(f"{lag.left:,} texts could not be found when the crawl had ended")
    if lag.longest > FINDABLE_WITHIN:
        defects.append(f"a text could be found after {lag.longest:.1f} s, and not within {FINDABLE_WITHIN:.0f}")
    return replace(run, lag=lag.longest, defects=tuple(defects))


def _measure(
    command: Sequence[str],
    *,
    kinds: tuple[str, str],
    site: Site,
    directory: Path,
    watch: Watch,
    database: Database | None = None,
) -> Run:
    """
    Run a command and measure it. `kinds` has the kind of its process and the kind of the child processes, '' for a
    process without children.
    """
    own, below = kinds
    # Archive files go where the other files of the run go.
    environment = database.environment | {"CRAWLCTL_ARCHIVE_ROOT": str(directory / "archive")} if database else None
    output_path = directory / "output.txt"
    servers = {"site": site.process} | ({"PostgreSQL": database.server} if database else {})
    servers_before = {kind: cpu_seconds_of_tree(process) for kind, process in servers.items()}
    children_before, busy_before, began_at = _seconds_of_children(), busy_seconds_of_machine(), time.monotonic()
    with (
        output_path.open("wb") as output,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        crawler = psutil.Process(process.pid)
        found = {kind: (lambda server=server: tree_of(server)) for kind, server in servers.items()}
        found |= {own: lambda: [crawler], below: lambda: tree_of(crawler)[1:]}
        with Meter(found) as meter:
            is_stalled = _wait(process, site=site, watch=watch)
    busy = busy_seconds_of_machine() - busy_before
    elapsed = time.monotonic() - began_at
    command_seconds = _seconds_of_children() - children_before
    cpu = {kind: cpu_seconds_of_tree(server) - servers_before[kind] for kind, server in servers.items()}
    of_those_below = meter.cpu_seconds(below)
    cpu |= {own: command_seconds - of_those_below} | ({below: of_those_below} if below else {})
    peaks = {kind: meter.peak_mib(kind) for kind in kinds if kind}
    peaks |= {kind: meter.peak_mib(kind) for kind in servers}
    defects = [f"it asked for nothing for {_STALLED:.0f} s and was ended"] if is_stalled else []
    if process.returncode:
        tail = output_path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES_SHOWN:]
        defects.append("\n".join([f"exit code {process.returncode}, and these last lines:", *tail]))
    return _judged(
        site, seconds=elapsed, cpu=cpu, peaks=peaks, others=(busy - sum(cpu.values())) / elapsed, defects=defects
    )


def _judged(
    site: Site, *, seconds: float, cpu: dict[str, float], peaks: dict[str, float], others: float, defects: list[str]
) -> Run:
    """Return the result of the run from the site's log and the run's cost."""
    # The site flushes its log ten times a second.
    time.sleep(2 * _INTERVAL)
    requests = [request for request in read_log(site.log) if request.path != "/robots.txt"]
    distinct = {request.url for request in requests if request.status == 200}
    if len(distinct) != site.pages:
        defects.append(f"{len(distinct):,} of {site.pages:,} pages were fetched")
    took = (requests[-1].time - requests[0].time) / 1e9 if len(requests) > 1 else 0.0
    fetched = max(len(distinct), 1)
    return Run(
        pages_a_second=len(distinct) / took if took else 0.0,
        requests=len(requests),
        distinct=len(distinct),
        seconds=seconds,
        cpu_ms_a_page={kind: 1000 * used / fetched for kind, used in cpu.items()},
        peak_mib=peaks,
        others_cores=max(others, 0.0),
        defects=tuple(defects),
    )


def _wait(process: "subprocess.Popen[bytes]", *, site: Site, watch: Watch) -> bool:
    """Wait for the end of the crawler. Return True if it had to be ended."""
    requests, last_request_at = 0, time.monotonic()
    try:
        with site.log.open("rb") as log:
            while time.monotonic() - last_request_at < _STALLED:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_INTERVAL)
                    return False
                if more := log.read().count(b"\n"):
                    requests, last_request_at = requests + more, time.monotonic()
                    watch(requests)
        return True
    finally:
        # An interrupt of the benchmark ends the crawler, too.
        if process.poll() is None:
            process.terminate()


def _seconds_of_children() -> float:
    """Return the CPU of ended children, once they were waited for, and of their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
