"""
The chaos test of partitions: kills processes and database servers during crawls of two partitions, stops a partition for
longer than it may be silent, and restores its database from a backup.

python -m tests.chaos.partitions [--kills N] [--pages N] [--every SECONDS] [--seed N] [--kinds NAME ...]

First it crawls a synthetic site without a disturbance. Then it crawls the same site again and again, each time by a new
job in the same databases, and disturbs one partition after the other at random, until a run has ended:

- `worker`, `manager`, `server`, `other`: one process, or the database server, is killed;
- `absence`: all processes are killed, and come back after 16 to 40 seconds (a partition is silent after 15);
- `freeze`: all processes stand still for as long;
- `lost-log`: an absence in which the other server writes more log than it keeps, so that the subscription begins again;
- `restore`: the database is restored from a backup that was made earlier in the run.

After each crawl it compares with the first one:

- the site's log and the search index: each page was fetched and can be found, and nothing else can be found;
- the documents of both databases, by stage, result and code, each in one partition only, which has its host;
- the counts of each database with its rows (`check_counters`);
- repeated requests (`tests.chaos.repeats`): a page may be fetched again if its partition was disturbed while it was in
  flight, or if its partition was restored from a backup that does not know the page. No other page is.

A run that ends early lacks pages, and one that hangs exceeds its time. Each crawl is printed as a line. The exit code is
0 if all agree. The same seed makes the same disturbances in the same order, and their moments depend on the machine.
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

from crawlctl.demo.log import read_log
from jobs.partitions.placement import Placement
from tests.chaos import absences
from tests.chaos.repeats import Disturbance, unexplained_repeats
from tests.support.partitioned_demo import kill_node, kill_server, partition_in, partitions_of, processes_in
from tests.support.processes import ROOT

# Longest crawl (seconds), and longest start.
_PATIENCE = 1200.0
# Seconds between two looks at a crawl.
_LOOK = 0.25
# Weights of the kinds of disturbances. `other` is any other process, such as one of the web server or of a task worker.
_KINDS = {
    "worker": 8,
    "manager": 6,
    "server": 8,
    "other": 2,
    "absence": 1,
    "freeze": 1,
    "lost-log": 1,
    "restore": 1,
}
# Seconds of an absence: a partition is silent after 15.
_AWAY = (16.0, 40.0)
_NAMES = ("a", "b")
_DOCUMENTS = '''
from django.core.management import call_command
from django.db import connection
call_command("check_counters", stdout=open("/dev/null", "w"))
with connection.cursor() as cursor:
    cursor.execute("SELECT stage, outcome, result_code, count(*) FROM jobs_queueitem GROUP BY 1, 2, 3")
    import json; print("DOCUMENTS", json.dumps(cursor.fetchall()))
    cursor.execute("""SELECT replace(item.hash::text, '-', ''), bin.name FROM jobs_queueitem AS item
                        JOIN jobs_lane AS lane ON lane.id = item.lane_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id""")
    print("HOSTS", json.dumps(cursor.fetchall()))
'''


@dataclass
class Crawl:
    """Holds the findings of one crawl, and its disturbances. `hosts` has the partition of each document."""

    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    documents: Counter[tuple[object, ...]] = field(default_factory=Counter)
    hosts: dict[str, str] = field(default_factory=dict)
    disturbances: list[Disturbance] = field(default_factory=list)
    backups: dict[str, tuple[float, str]] = field(default_factory=dict)
    fetched_twice: int = 0


def crawl(
    directory: Path, *, pages: int, hosts: int, every: float | None, chance: random.Random, most: int, kinds: list[str]
) -> Crawl:
    """Crawl the site by a new job, and disturb it each `every` seconds in the mean, at most `most` times."""
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
    environment |= {"CRAWLCTL_ADMIN_PASSWORD": "", **absences.environment_with_a_small_log()}
    with (directory / "demo.err").open("wb") as errors:
        demo = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            if every is not None:
                _disturb_until_the_end(made, demo, directory, every=every, chance=chance, most=most, kinds=kinds)
            said = demo.communicate(timeout=max(1.0, _PATIENCE - (time.monotonic() - began_at)))[0]
        except subprocess.TimeoutExpired:
            made.problems.append(f"the crawl hangs after {_PATIENCE:.0f} s")
            end_processes(directory)
            demo.communicate()
            return made
    made.seconds = time.monotonic() - began_at
    _judge(made, said, demo.returncode, directory)
    return made


def _disturb_until_the_end(
    made: Crawl,
    demo: "subprocess.Popen[str]",
    directory: Path,
    *,
    every: float,
    chance: random.Random,
    most: int,
    kinds: list[str],
) -> None:
    """Disturb partitions until the run has ended in the control partition."""
    until = time.monotonic() + _PATIENCE
    addresses: dict[str, str] = {}
    next_at = None
    while demo.poll() is None and time.monotonic() < until and len(made.disturbances) < most:
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
            if "restore" in kinds and len(made.backups) < len(_NAMES):
                with absences.paused(directory, addresses["a"]):
                    _back_up(made, directory)
            _disturb(made, directory, addresses, chance, kinds)
            next_at = time.monotonic() + chance.uniform(0.2, 2 * every - 0.2)


def _phase(address: str) -> str | None:
    """Return the phase of the newest job; None while the database is down, or has no job."""
    with suppress(psycopg.Error), psycopg.connect(address, connect_timeout=2) as connection:
        # Jobs of earlier crawls are being deleted.
        row = connection.execute(
            "SELECT phase FROM jobs_job WHERE run_no > 0 OR phase <> 'inactive' ORDER BY id DESC LIMIT 1"
        ).fetchone()
        return None if row is None else str(row[0])
    return None


def _back_up(made: Crawl, directory: Path) -> None:
    """Make a backup of each partition, which may be restored later in this crawl."""
    for partition in _NAMES:
        began_at = time.monotonic()
        if name := absences.back_up(directory, partition, directory / "backups" / partition):
            made.backups[partition] = began_at, name


def _disturb(made: Crawl, directory: Path, addresses: dict[str, str], chance: random.Random, kinds: list[str]) -> None:
    partition = chance.choice(_NAMES)
    other = next(name for name in _NAMES if name != partition)
    (kind,) = chance.choices(kinds, weights=[_KINDS[one] for one in kinds])
    away = chance.uniform(*_AWAY)
    at, until, since = time.monotonic(), None, None
    if kind == "absence":
        with absences.stopped(directory, partition):
            time.sleep(away)
    elif kind == "freeze":
        with absences.frozen(directory, partition):
            time.sleep(away)
    elif kind == "lost-log":
        with absences.stopped(directory, partition):
            time.sleep(away)
            absences.exceed_the_log(addresses[other], source=other, target=partition)
    elif kind == "restore":
        if partition not in made.backups:
            return
        since, backup = made.backups[partition]
        place = directory / "backups" / partition
        with absences.paused(directory, addresses["a"]):
            beside = absences.prepare_restore(directory, partition, place, backup)
        if _phase(addresses["a"]) in {"inactive", None}:
            # The run has ended meanwhile.
            return
        at, until = absences.put_in_place(directory, partition, beside)
    elif not _kill(directory, partition, kind, chance):
        return
    made.disturbances.append(Disturbance(kind, partition, at, until or time.monotonic(), since))


def _kill(directory: Path, partition: str, kind: str, chance: random.Random) -> int:
    if kind == "server":
        return kill_server(directory, partition)
    if kind == "other":
        return _kill_another(directory, partition, chance)
    return kill_node(directory, partition, f"{kind}-1")


def _kill_another(directory: Path, partition: str, chance: random.Random) -> int:
    """Kill a process of a partition that is neither a node nor a server, nor one that judges."""
    others = []
    for here, process in processes_in(directory):
        with suppress(psutil.Error):
            words = {"runworker", "runmanager", *absences.SPARED} & set(process.cmdline())
            if here == partition and not words and "postgres" not in process.name():
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
    placed = Placement("a", _NAMES)
    requests = read_log(Path(report["site_log"]))
    if unexplained := unexplained_repeats(requests, made.disturbances, placed.partition_of):
        made.problems.append(f"{len(unexplained)} requests were repeated without a reason, as {unexplained[:3]}")
    for name in _NAMES:
        add_documents(made, partition_in(directory, name), name, placed)


def add_documents(made: Crawl, var: Path, name: str, placed: Placement) -> None:
    """Add the documents of a partition, whose counts must agree with its rows, and whose hosts must belong to it."""
    environment = {**os.environ, "CRAWLCTL_VAR": str(var), "DATABASE_URL": "", "CRAWLCTL_LOG_LEVEL": "ERROR"}
    words = [sys.executable, "manage.py", "shell", "--no-imports", "-c", _DOCUMENTS]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("DOCUMENTS ", "HOSTS ")))
    if done.returncode or len(said) < 2:
        made.problems.append(f"counts of partition {name} are wrong: {(done.stdout + done.stderr)[-500:]}")
        return
    for *of, amount in json.loads(said["DOCUMENTS"]):
        made.documents[tuple(of)] += amount
    for key, host in json.loads(said["HOSTS"]):
        if key in made.hosts:
            made.problems.append(f"document {key} of {host} is in {made.hosts[key]} and in {name}")
        elif placed.partition_of(host) != name:
            made.problems.append(f"document {key} of {host} is in {name}, which does not have the host")
        made.hosts[key] = name


def end_processes(directory: Path) -> None:
    """End the processes of a demo."""
    for _partition, process in processes_in(directory):
        with suppress(psutil.Error):
            process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="number of disturbances")
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=30)
    parser.add_argument("--every", type=float, default=4.0, help="mean seconds between two disturbances")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=list(_KINDS), help="disturbances (all)")
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
            kinds=given.kinds,
        )
        if expected is None:
            expected = made.documents
        elif made.documents != expected and not made.problems:
            more, less = made.documents - expected, expected - made.documents
            made.problems.append(f"other documents than without disturbances: more {dict(more)}, less {dict(less)}")
        disturbed = Counter(f"{one.kind} of {one.partition}" for one in made.disturbances)
        kills += disturbed
        problems += len(made.problems)
        _tell(
            f"crawl {number}: {made.seconds:.0f} s, {disturbed.total()} disturbances ({kills.total()} in all), "
            f"{made.fetched_twice} requests repeated, {'; '.join(made.problems) or 'as expected'}"
        )
        number += 1
        end_processes(directory)
        if made.problems:
            _tell(f"  kept: {directory}")
            if number == 1:
                # Without its documents, nothing can be compared.
                return 1
            directory = Path(tempfile.mkdtemp(prefix="crawlctl-parts-"))
    shutil.rmtree(directory, ignore_errors=True)
    _tell(f"disturbances: {dict(sorted(kills.items()))}", f"disturbed crawls: {number - 1}", f"problems: {problems}")
    return 1 if problems else 0


def _tell(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
