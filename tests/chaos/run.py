"""
The chaos test: injects faults into a crawling cluster, and judges the result from outside.

python -m tests.chaos.run [--seconds N] [--seed N] [--coordination database|zookeeper]

Each fault is printed as a line when it happens. The last eight lines are the verdict, which is also in var/chaos.json.
The exit code is 0 if the verdict holds. The same seed makes the same faults in the same order. Their effect depends on
the machine.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import django

from tests.support.debian import debian_server, newest_debian
from tests.support.processes import ROOT, Database
from tests.support.zookeeper import ZooKeeper

# Working directory of the processes, which also keeps their files.
VAR = ROOT / "var" / "chaos"
# Number of documents of a site: a crawl without faults reads them in a minute.
_PAGES = 500
# Seconds after the last fault in which everything must be crawled.
_PATIENCE = 300


def main(arguments=None):
    options = _parser().parse_args(arguments)
    if newest_debian() is None:
        report("Chaos needs a PostgreSQL that it may kill: install Debian's package postgresql.")
        return 2
    with chaos_server(VAR / "run") as (server, directory), ExitStack() as ends_with_us:
        zookeeper = None
        if options.coordination == "zookeeper":
            zookeeper = ZooKeeper(directory / "zookeeper")
            ends_with_us.callback(zookeeper.stop)
        return _run(server, directory, zookeeper, seconds=options.seconds, seed=options.seed)


@contextmanager
def chaos_server(directory):
    """Yield (a database server with the audit log's configuration, the directory), with Django connected to it."""
    from tests.chaos import audit

    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    os.environ.pop("CRAWLCTL_CHAOS", None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "crawlctl.settings"
    os.environ["CRAWLCTL_VAR"] = str(directory / "var")
    os.environ["CRAWLCTL_LOG_LEVEL"] = "WARNING"
    with debian_server(directory / "server", configuration=audit.CONFIGURATION) as server:
        os.environ["DATABASE_URL"] = Database(server.address).url
        django.setup()
        yield server, directory


def report(*lines):
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _run(server, directory, zookeeper, *, seconds, seed):
    from tests.chaos import audit
    from tests.chaos.cluster import Cluster, sets_clocks
    from tests.chaos.nemesis import Nemesis
    from tests.chaos.node_faults import STOPS
    from tests.chaos.stalls import watched

    began_at = time.monotonic()

    def write_line(words):
        report(f"[{time.monotonic() - began_at:6.1f} s] {words}")

    rng = random.Random(seed)
    database = Database(server.address)
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, check=True)
    audit.install(database.dsn)
    cluster = Cluster(server, database, directory, rng, write_line, pages=_PAGES, stops=STOPS, zookeeper=zookeeper)
    clocks = "set by libfaketime" if sets_clocks(cluster) else "left alone"
    write_line(f"seed {seed}: {seconds} s of faults; lines are cut by a TCP proxy; clocks are {clocks}")
    nemesis = Nemesis(cluster, rng)
    cluster.meanwhile = lambda: nemesis.advance(may_begin=False)
    try:
        with watched(directory / "stalls"):
            _inject_faults(cluster, nemesis, seconds=seconds)
        audit.export(database.dsn, directory / "audit.jsonl")
    finally:
        cluster.end()
    return _judge(cluster, nemesis, seconds=seconds, seed=seed, took=time.monotonic() - began_at)


def _inject_faults(cluster, nemesis, *, seconds):
    """Inject faults for `seconds`, then let all jobs end."""
    cluster.add("manager", 3)
    cluster.add("worker", 4)
    cluster.start_nodes()
    _supervise_until(cluster, cluster.is_whole, within=60, saying="the cluster is whole")
    began_at = time.monotonic()
    cluster.supervise()
    while (now := time.monotonic() - began_at) < seconds or not nemesis.is_idle:
        # In the first half faults come alone, so that takeovers can be measured.
        nemesis.max_concurrent = 1 if now < seconds / 2 else 3
        cluster.supervise()
        nemesis.advance(may_begin=now < seconds)
        time.sleep(0.02)
    cluster.write_line("no more faults: the remaining pages must be crawled")
    cluster.is_closing = True
    _supervise_until(cluster, cluster.has_finished, within=_PATIENCE, saying="all jobs have ended")


def _supervise_until(cluster, condition, *, within, saying):
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            cluster.write_line(f"not within {within} s: {saying}")
            return
        cluster.supervise()
        time.sleep(0.1)


def _judge(cluster, nemesis, *, seconds, seed, took):
    from tests.chaos.evidence import Evidence

    evidence = Evidence(cluster, nemesis)
    verdict = evidence.verdict()
    for finding in evidence.findings():
        report(finding)
    faults = {}
    for injected in nemesis.history:
        faults[injected.fault.plan] = faults.get(injected.fault.plan, 0) + 1
    facts = {
        "seed": seed,
        "seconds_of_faults": seconds,
        "seconds": round(took),
        "faults": dict(sorted(faults.items(), key=lambda item: int(item[0][1:]))),
        "processes_started": sum(node.starts for node in cluster.nodes),
        "jobs": len(cluster.crawls),
        **evidence.sizes(),
        "partitions_by": "a TCP proxy",
        "coordination": "PostgreSQL" if cluster.zookeeper is None else "ZooKeeper",
        "machine": f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        **verdict.facts,
    }
    (ROOT / "var" / "chaos.json").write_text(json.dumps(facts, indent=2) + "\n")
    report(f"{len(nemesis.history)} faults: " + ", ".join(f"{plan} {count}" for plan, count in facts["faults"].items()))
    report(f"the evidence is in {cluster.directory.relative_to(ROOT)}/, the figures are in var/chaos.json")
    report(*verdict.lines)
    return 0 if verdict.holds else 1


def _parser():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description="Inject faults into a crawl.")
    parser.add_argument("--seconds", type=int, default=110, help="seconds in which faults are injected (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random faults (%(default)s)")
    parser.add_argument(
        "--coordination",
        choices=["database", "zookeeper"],
        default="database",
        help="store that chooses the main manager, and gets faults, too (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
