"""
The chaos test of partitions: kills processes and database servers during crawls of two partitions.

python -m tests.chaos.partitions [--kills N] [--pages N] [--every SECONDS] [--seed N]

First it crawls a synthetic site without a kill. Then it crawls the same site again and again, each time by a new job in
the same databases, and kills processes and servers at random, until a run has ended. After each crawl it compares with
the first one:

- the site's log and the search index: each page was fetched and can be found, and nothing else can be found;
- the documents of both databases, by stage, result and code;
- the counts of each database with its rows (`check_counters`).

A run that ends early lacks pages, and one that hangs exceeds its time. A page that was in flight may be fetched twice.
Each crawl is printed as a line. The exit code is 0 if all agree. The same seed makes the same kills in the same order,
and their moments depend on the machine.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from tests.support.partitioned_demo import kill_node, kill_server, partition_in, partitions_of, processes_in
from tests.support.processes import ROOT

# Longest crawl (seconds), and longest start.
_PATIENCE = 900.0
# Seconds between two looks at a crawl.
_LOOK = 0.25
# Weights of the targets of kills. `other` is any other process, such as one of the web server or of a task worker.
_TARGETS = {"worker": 4, "manager": 3, "server": 4, "other": 1}
# Processes that judge, or stand for the web.
_SPARED = ("demo", "crawlctl.demo.site")
_DOCUMENTS = """
from django.core.management import call_command
from django.db import connection
call_command("check_counters", stdout=open("/dev/null", "w"))
with connection.cursor() as cursor:
    cursor.execute("SELECT stage, outcome, result_code, count(*) FROM jobs_queueitem GROUP BY 1, 2, 3")
    import json; print("DOCUMENTS", json.dumps(cursor.fetchall()))
"""


@dataclass
class Crawl:
    """Holds the findings of one crawl, and its kills."""

    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    documents: Counter[tuple[object, ...]] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    fetched_twice: int = 0


def crawl(directory: Path, *, pages: int, hosts: int, every: float | None, chance: random.Random, most: int) -> Crawl:
    """Crawl the site by a new job, and kill something each `every` seconds in the mean, at most `most` times."""
    made = Crawl()
    began_at = time.monotonic()
    words = [sys.executable, "manage.py", "demo", "--exit", "--pages", str(pages), "--hosts", str(hosts)]
    words += ["--managers", "1", "--workers", "1", "--partitions", "2"]
    environment = {
        **os.environ,
        "CRAWLCTL_VAR": str(directory / "var"),
        "DATABASE_URL": "",
        "CRAWLCTL_LOG_LEVEL": "ERROR",
    }
    environment |= {"CRAWLCTL_ADMIN_PASSWORD": ""}
    with (directory / "demo.err").open("wb") as errors:
        demo = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            if every is not None:
                _kill_until_the_end(made, demo, directory, every=every, chance=chance, most=most)
            said = demo.communicate(timeout=max(1.0, _PATIENCE - (time.monotonic() - began_at)))[0]
        except subprocess.TimeoutExpired:
            made.problems.append(f"the crawl hangs after {_PATIENCE:.0f} s")
            _end(directory)
            demo.communicate()
            return made
    made.seconds = time.monotonic() - began_at
    _judge(made, said, demo.returncode, directory)
    return made


def _kill_until_the_end(
    made: Crawl, demo: "subprocess.Popen[str]", directory: Path, *, every: float, chance: random.Random, most: int
) -> None:
    """Kill until the run has ended in the control partition."""
    until = time.monotonic() + _PATIENCE
    addresses: dict[str, str] = {}
    next_at = None
    while demo.poll() is None and time.monotonic() < until and made.kills.total() < most:
        time.sleep(_LOOK)
        if not addresses:
            with suppress(StopIteration, psutil.Error):
                addresses = partitions_of(directory)
            continue
        phase = _phase(addresses["a"])
        if phase == "inactive":
            if next_at is not None:
                return
        elif next_at is None and phase is not None:
            next_at = time.monotonic()
        if next_at is not None and time.monotonic() >= next_at:
            _kill(made, directory, chance)
            next_at = time.monotonic() + chance.uniform(0.2, 2 * every - 0.2)


def _phase(address: str) -> str | None:
    """Return the phase of the job; None while the database is down, or has no job."""
    with suppress(psycopg.Error), psycopg.connect(address, connect_timeout=2) as connection:
        row = connection.execute("SELECT phase FROM jobs_job WHERE run_no > 0 OR phase <> 'inactive'").fetchone()
        return None if row is None else str(row[0])
    return None


def _kill(made: Crawl, directory: Path, chance: random.Random) -> None:
    partition = chance.choice("ab")
    (target,) = chance.choices(list(_TARGETS), weights=list(_TARGETS.values()))
    if target == "server":
        killed = kill_server(directory, partition)
    elif target == "other":
        killed = _kill_another(directory, chance)
    else:
        killed = kill_node(directory, partition, f"{target}-1")
    if killed:
        made.kills[target if target == "other" else f"{target} of {partition}"] += 1


def _kill_another(directory: Path, chance: random.Random) -> int:
    """Kill a process that is neither a node nor a server, nor one that judges."""
    others = []
    for _partition, process in processes_in(directory):
        with suppress(psutil.Error):
            words = process.cmdline()
            if not {"runworker", "runmanager", *_SPARED} & set(words) and "postgres" not in process.name():
                others.append(process)
    if not others:
        return 0
    with suppress(psutil.Error):
        chance.choice(others).kill()
    return 1


def _judge(made: Crawl, said: str, code: int, directory: Path) -> None:
    try:
        report = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        made.problems.append(f"the demo ended with {code} and without a report (see {directory / 'demo.err'})")
        return
    if report["fetched"] != report["expected"] or report["indexed"] != report["expected"] or report["missing"]:
        made.problems.append(f"documents are missing: {report}")
    # With an extra document, `indexed URL` is among the extra ones; the others were fetched twice.
    extra = [line for line in (directory / "demo.err").read_text().splitlines() if line.startswith("extra: indexed")]
    if extra:
        made.problems.append(f"documents that are too many: {extra}")
    made.fetched_twice = report["extra"]
    for name in "ab":
        _add_documents(made, partition_in(directory, name), name)


def _add_documents(made: Crawl, var: Path, name: str) -> None:
    """Add the documents of a partition, whose counts must agree with its rows."""
    environment = {**os.environ, "CRAWLCTL_VAR": str(var), "DATABASE_URL": "", "CRAWLCTL_LOG_LEVEL": "ERROR"}
    words = [sys.executable, "manage.py", "shell", "--no-imports", "-c", _DOCUMENTS]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("DOCUMENTS ")]
    if done.returncode or not lines:
        made.problems.append(f"counts of partition {name} are wrong: {(done.stdout + done.stderr)[-500:]}")
        return
    for *of, amount in json.loads(lines[0].removeprefix("DOCUMENTS ")):
        made.documents[tuple(of)] += amount


def _end(directory: Path) -> None:
    """End the processes of a demo."""
    for _partition, process in processes_in(directory):
        with suppress(psutil.Error):
            process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=30)
    parser.add_argument("--every", type=float, default=4.0, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    kills: Counter[str] = Counter()
    expected: Counter[tuple[object, ...]] | None = None
    number = problems = 0
    directory = Path(tempfile.mkdtemp(prefix="crawlctl-parts-"))
    while expected is None or kills.total() < given.kills:
        made = crawl(
            directory,
            pages=given.pages,
            hosts=given.hosts,
            every=None if expected is None else given.every,
            chance=chance,
            most=given.kills - kills.total(),
        )
        if expected is None:
            expected = made.documents
        elif made.documents != expected and not made.problems:
            more, less = made.documents - expected, expected - made.documents
            made.problems.append(f"other documents than without kills: more {dict(more)}, less {dict(less)}")
        kills += made.kills
        problems += len(made.problems)
        _tell(
            f"crawl {number}: {made.seconds:.0f} s, {made.kills.total()} kills ({kills.total()} in all), "
            f"{made.fetched_twice} requests repeated, {'; '.join(made.problems) or 'as expected'}"
        )
        number += 1
        _end(directory)
        if made.problems:
            _tell(f"  kept: {directory}")
            if number == 1:
                # Without its documents, nothing can be compared.
                return 1
            directory = Path(tempfile.mkdtemp(prefix="crawlctl-parts-"))
    shutil.rmtree(directory, ignore_errors=True)
    _tell(f"kills: {dict(sorted(kills.items()))}", f"crawls with kills: {number - 1}", f"problems: {problems}")
    return 1 if problems else 0


def _tell(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
