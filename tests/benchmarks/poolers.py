"""
Measures what shared sessions cost: `python -m tests.benchmarks.poolers`.

Crawls of the same site alternate: managers and workers use their own sessions, or shared sessions of PgBouncer in
transaction mode, without prepared statements. The report shows the CPU for each page, by kind of process. It needs
Debian's PostgreSQL and PgBouncer.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from nodes.database.session_check import connect_query
from nodes.settings.node_settings import NODE_TIMEOUT
from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT, Database
from tests.benchmarks.meter import cpu_seconds_of_tree
from tests.benchmarks.runs import run_ours
from tests.support.debian import debian_server
from tests.support.pgbouncer import pgbouncer

_SESSIONS = 10
_POOLER = "PgBouncer"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="poolers", description="Measure the CPU of crawls in shared sessions.")
    parser.add_argument("--pages", type=int, default=5_000, help="pages of the site (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="crawls of each kind; medians count (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, float]]] = {"own sessions": [], "shared sessions": []}
    for _round in range(options.rounds):
        for kind, figures in found.items():
            with tempfile.TemporaryDirectory(prefix="poolers-", dir=home) as name:
                figures.append(_crawl(Path(name), pages=options.pages, shares=kind == "shared sessions"))
    for kind, figures in found.items():
        medians = {name: statistics.median(one[name] for one in figures) for name in figures[0]}
        of_parts = ", ".join(f"{name} {took:.2f}" for name, took in medians.items())
        total = statistics.median(sum(one.values()) for one in figures)
        sys.stdout.write(f"{kind}: {total:.2f} ms of CPU a page ({of_parts})\n")
    return 0


def _crawl(directory: Path, *, pages: int, shares: bool) -> dict[str, float]:
    """Crawl a site once. Return the CPU (ms) for each page by kind of process, without the site."""
    with debian_server(directory / "debian", configuration="") as server:
        environment = {**os.environ, "CRAWLCTL_VAR": str(directory), "DATABASE_URL": server.address}
        databases.make_tables(environment)
        query = connect_query(NODE_TIMEOUT.default)
        with pgbouncer(
            server, directory / "pgbouncer", mode="transaction", connect_query=query, sessions=_SESSIONS
        ) as shared:
            (pooler,) = (one for one in psutil.Process().children(recursive=True) if one.name() == "pgbouncer")
            used = cpu_seconds_of_tree(pooler)
            if shares:
                environment["CRAWLCTL_POOLED_DATABASE_URL"] = shared
            database = Database(environment=environment, address=server.address, server=psutil.Process(server.pid))
            run = run_ours(
                pages=pages, directory=directory, database=database, output="null", watch=lambda _requests: None
            )
            of_pooler = 1000 * (cpu_seconds_of_tree(pooler) - used) / pages
    if run.defects:
        raise RuntimeError("; ".join(run.defects))
    return {name: took for name, took in run.cpu_ms_a_page.items() if name != "site"} | {_POOLER: of_pooler}


if __name__ == "__main__":
    sys.exit(main())
