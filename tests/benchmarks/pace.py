"""
Measures how much of the rate allowed by a policy is used: `python -m tests.benchmarks.pace`.

Two managers and four workers crawl hosts of different paces. For each pace there is one host with one job, and one host
that two jobs of two policies share. The report shows, for each pace, the share of the starts that its gap allows in a
minute while documents wait, by the site's log. It also shows how often the minimum gap was not kept.

With `--address GAP` it measures hosts at one address instead. Their policy allows one request at a time and one start
every GAP seconds, for all hosts together. With `--total GAP` it measures many hosts of one page, with that policy for
all of them. With `--bytes RATE` it crawls a host that allows RATE bytes a second: once alone, and once under a policy
whose limit of six open requests is never reached. Then the exit code is 1 if a share is below its goal, or if ten
seconds hold more bytes than allowed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django

from tests.benchmarks import databases, many_hosts
from tests.benchmarks.daemons import running_daemons
from tests.benchmarks.databases import ROOT
from tests.chaos.checkers import Fetch, fetches
from tests.support.pace.rules import LeastGap, MostBytes, MostOpen, broken, share_of_rate
from tests.support.waiting import wait_until

_GAPS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
# Seconds until a new crawl has an even rate. Longer than the longest round.
_WARM_UP = 15.0
_ENOUGH = 1.3
_HOSTS_AT_ONE = 8
# Least share of its limit of bytes that a host must use (percent).
_SHARE_OF_BYTES = 95.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pace", description="Measure how much of an allowed rate is used.")
    parser.add_argument("--seconds", type=int, default=60, help="how long it is measured (%(default)s)")
    parser.add_argument("--address", type=float, metavar="GAP", help="measure hosts at one address with this gap")
    parser.add_argument("--total", type=float, metavar="GAP", help="measure many hosts of one page with this gap")
    parser.add_argument("--bytes", type=int, metavar="RATE", help="measure a host with this limit of bytes a second")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pace-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        facts = {"environment": database.environment, "seconds": options.seconds}
        if options.address:
            _measure_an_address(Path(name), gap=options.address, **facts)
        elif options.total:
            _measure_a_total(Path(name), gap=options.total, **facts)
        elif options.bytes:
            kept: list[bool] = []
            for total in (None, 6):
                directory = Path(name) / str(total)
                directory.mkdir()
                kept.append(_measure_bytes(directory, rate=options.bytes, total=total, **facts))
            return 0 if all(kept) else 1
        else:
            _measure(Path(name), **facts)
    return 0


def _measure(directory: Path, *, environment: Mapping[str, str], seconds: int) -> None:
    from django.db import connection

    from crawlctl.demo.log import read_log
    from jobs.models import Job
    from tests.support.processes import serve_site

    starts, ends = directory / "site.log", directory / "site.ends"
    hosts = 2 * len(_GAPS)
    longest = int((seconds + _WARM_UP) * _ENOUGH / min(_GAPS))
    with (
        serve_site(starts, pages=hosts * longest, hosts=hosts, traps=0, latency_ms=20, ends=ends) as site,
        running_daemons(environment, "runmanager", "runmanager", *4 * ["runworker"]),
    ):
        try:
            by_host: dict[str, list[str]] = {}
            for page in range(hosts * longest):
                url = site.plan.url(page)
                by_host.setdefault(urlsplit(url).netloc, []).append(url)
            paces = list(zip(by_host, [gap for gap in _GAPS for _ in range(2)], strict=True))
            for place, (host, gap) in enumerate(paces):
                enough = by_host[host][: int((seconds + _WARM_UP) * _ENOUGH / gap)]
                _start_jobs(host, enough, gap=gap, jobs=1 + place % 2)
            wait_until(lambda: not Job.objects.exclude(phase="active").exists())
            time.sleep(_WARM_UP)
            since = time.monotonic()
            until = since + seconds
            # Wait longer than the interval, because each host also needs its first start after the interval.
            time.sleep(seconds + 1.5 * max(_GAPS))
            _ = site.lines
            made = fetches(read_log(starts), read_log(ends))
            sys.stdout.write("gap: share of the allowed rate with one job, with two jobs (gaps that were not kept)\n")
            for alone, shared in zip(paces[::2], paces[1::2], strict=True):
                told = [
                    _share_and_breaches(made, host, gap=gap, since=since, until=until) for host, gap in (alone, shared)
                ]
                sys.stdout.write(f"{alone[1]:5.2f} s: {', '.join(told)}\n")
        finally:
            connection.close()


def _measure_an_address(directory: Path, *, gap: float, environment: Mapping[str, str], seconds: int) -> None:
    from django.db import connection
    from django.utils import timezone

    from crawlctl.demo.log import read_log
    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy
    from tests.support.processes import serve_site

    logs = [(directory / f"{number}.log", directory / f"{number}.ends") for number in range(_HOSTS_AT_ONE)]
    pages = int((seconds + _WARM_UP) * _ENOUGH / gap)
    with ExitStack() as opened:
        # One address, and a port for each host.
        sites = [
            opened.enter_context(serve_site(starts, pages=pages, traps=0, latency_ms=20, ends=ends))
            for starts, ends in logs
        ]
        opened.enter_context(running_daemons(environment, "runmanager", "runmanager", *4 * ["runworker"]))
        opened.callback(connection.close)
        policy = make_policy("of an address", open_requests=1, min_gap=gap, per_address=True)
        urls = [site.plan.url(page) for page in range(pages) for site in sites]
        job = make_job(urls=urls, policy=policy, specification={"max_depth": 0, "scope": "any"})
        control.start(job.pk, made_by="a benchmark", now=timezone.now())
        wait_until(lambda: not Job.objects.exclude(phase="active").exists())
        time.sleep(_WARM_UP)
        since = time.monotonic()
        until = since + seconds
        time.sleep(seconds + 1.5 * gap)
        made: list[Fetch] = []
        for site, (starts, ends) in zip(sites, logs, strict=True):
            _ = site.lines
            made += fetches(read_log(starts), read_log(ends))
        hosts = frozenset(fetch.host for fetch in made)
        rules = [LeastGap(seconds=gap, hosts=hosts), MostOpen(most=1, hosts=hosts)]
        share = share_of_rate(made, gap=gap, since=since, until=until)
        sys.stdout.write(
            f"{_HOSTS_AT_ONE} hosts at one address, {gap:g} s: {100 * share:.1f} % of the allowed rate"
            f" ({len(broken(made, rules))} gaps or open requests that were not kept)\n"
        )


def _measure_a_total(directory: Path, *, gap: float, environment: Mapping[str, str], seconds: int) -> None:
    from django.db import connection
    from django.utils import timezone

    from crawlctl.demo.log import read_log
    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy

    log = directory / "site.log"
    hosts = int((seconds + _WARM_UP) * _ENOUGH / gap)
    command = [sys.executable, "-m", "tests.benchmarks.many_hosts", str(log)]
    with (
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as site,
        running_daemons(environment, "runmanager", "runmanager", *4 * ["runworker"]),
    ):
        try:
            assert site.stdout is not None
            port = int(site.stdout.readline())
            facts: dict[str, Any] = {"total_starts": round(60 / gap), "total_period": "minute"}
            policy = make_policy("of all", open_requests=1, min_gap=0.0, total_open_requests=1, **facts)
            urls = [f"http://{many_hosts.host(number)}:{port}/" for number in range(hosts)]
            job = make_job(urls=urls, policy=policy, specification={"max_depth": 0, "scope": "any"})
            control.start(job.pk, made_by="a benchmark", now=timezone.now())
            wait_until(lambda: not Job.objects.exclude(phase="active").exists())
            time.sleep(_WARM_UP)
            since = time.monotonic()
            time.sleep(seconds)
            until = time.monotonic()
            time.sleep(1)
            starts = sorted(line.time / 1e9 for line in read_log(log))
            share = sum(since < start <= until for start in starts) * gap / (until - since)
            closest = min(later - earlier for earlier, later in pairwise(starts))
            sys.stdout.write(
                f"{hosts} hosts of one page, one open request and one start every {gap:g} s of all:"
                f" {100 * share:.1f} % of the allowed rate, the closest starts {closest:.3f} s apart\n"
            )
        finally:
            connection.close()
            site.terminate()


def _measure_bytes(
    directory: Path, *, rate: int, total: int | None, environment: Mapping[str, str], seconds: int
) -> bool:
    """Return True if the goals are met."""
    from django.db import connection
    from django.utils import timezone

    from crawlctl.demo.log import read_log
    from jobs.models import Job
    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy
    from tests.support.processes import serve_site

    starts, ends = directory / "site.log", directory / "site.ends"
    pages = int((seconds + _WARM_UP) * _ENOUGH * rate / 2_000)
    with (
        serve_site(starts, pages=pages, traps=0, latency_ms=20, ends=ends) as site,
        running_daemons(environment, "runmanager", "runmanager", *4 * ["runworker"]),
    ):
        try:
            policy = make_policy(
                f"bytes beside {total}", open_requests=2, min_gap=0.0, bytes_per_second=rate, total_open_requests=total
            )
            urls = [site.plan.url(page) for page in range(pages)]
            job = make_job(urls=urls, policy=policy, specification={"max_depth": 0})
            control.start(job.pk, made_by="a benchmark", now=timezone.now())
            wait_until(lambda: not Job.objects.exclude(phase="active").exists())
            time.sleep(_WARM_UP)
            since = time.monotonic_ns()
            time.sleep(seconds)
            until = time.monotonic_ns()
            time.sleep(1)
            read = sum(line.size for line in read_log(ends) if since <= line.time < until)
            share = 100 * read / (rate * (until - since) / 1e9)
            beside = "alone" if total is None else f"beside a total of {total} open requests"
            _ = site.lines
            too_many = len(broken(fetches(read_log(starts), read_log(ends)), [MostBytes(per_second=rate)]))
            sys.stdout.write(
                f"a host at {rate:,} bytes a second, {beside}: {share:.1f} % of its rate"
                f" (goal: {_SHARE_OF_BYTES:.0f} %), {too_many} windows with more\n"
            )
            sys.stdout.flush()
            return share >= _SHARE_OF_BYTES and not too_many
        finally:
            connection.close()


def _start_jobs(host: str, urls: Sequence[str], *, gap: float, jobs: int) -> None:
    """Start `jobs` jobs, each with its own policy and its part of the pages. The strictest policy has the gap."""
    from django.utils import timezone

    from jobs.verbs import control
    from tests.support.factories import make_job, make_policy

    for number in range(jobs):
        policy = make_policy(f"{number} of {host}", open_requests=2, min_gap=gap / (number + 1))
        job = make_job(urls=urls[number::jobs], policy=policy, specification={"max_depth": 0})
        control.start(job.pk, made_by="a benchmark", now=timezone.now())


def _share_and_breaches(made: Sequence[Fetch], host: str, *, gap: float, since: float, until: float) -> str:
    of_host = [fetch for fetch in made if fetch.host == host]
    share = share_of_rate(of_host, gap=gap, since=since, until=until)
    return f"{100 * share:5.1f} % ({len(broken(of_host, [LeastGap(seconds=gap, since=since, until=until)]))})"


if __name__ == "__main__":
    sys.exit(main())
