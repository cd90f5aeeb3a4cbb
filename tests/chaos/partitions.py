"""
The chaos test of partitions: kills processes and database servers during crawls of two partitions, stops a partition for
longer than it may be silent, restores its database from a backup, and moves slots meanwhile.

python -m tests.chaos.partitions [--kills N] [--pages N] [--every SECONDS] [--seed N] [--kinds NAME ...]

First it crawls a synthetic site without a disturbance. Then it crawls the same site again and again, each time by a new
job in the same databases. It disturbs one partition after the other at random, until a run has ended:

- `worker`, `manager`, `server`, `other`: one process, or the database server, is killed;
- `absence`: all processes are killed, and start again after 16 to 40 seconds (a partition counts as silent after 15);
- `freeze`: all processes are frozen for such a time;
- `lost-log`: an absence in which the other server writes more log than it keeps, so that the subscription begins again;
- `restore`: the database is restored from a backup that was made earlier in the run, after the moves that brought it
  documents (an older one would lack these: docs/scaling.md). Without such a backup, one is made for later;
- `move`: the partition gives slots to the other one, a few of them or all, and the next disturbance comes soon;
- `copying`: the same, and the next disturbance comes as soon as documents are copied.

After each crawl it compares with the first one:

- the site's log and the search index: each page was fetched and can be found, and nothing else can be found;
- the documents of both databases, by stage, result and code, each in one partition only, which has its host;
- the counts of each database with its rows (`check_counters`);
- repeated requests (`tests.chaos.repeats`): a page may be fetched again if its partition was disturbed while it was in
  flight, or if its partition was restored from a backup that does not know the page. No other page is fetched again,
  not even after a move.

A run that ends early lacks pages, and one that hangs exceeds its time. Each crawl is printed as a line. The exit code is
0 if all agree. The same seed makes the same disturbances in the same order, and their moments depend on the machine.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from tests.chaos import absences
from tests.chaos.compared import NAMES, Crawl, judge
from tests.chaos.repeats import Disturbance
from tests.chaos.slot_moves import Moves
from tests.support.partitioned_demo import kill_node, kill_server, partitions_of, processes_in
from tests.support.processes import ROOT

# Longest crawl (seconds), and longest start.
_PATIENCE = 1200.0
# Seconds between two checks of a crawl.
_POLL_INTERVAL = 0.25
# Weights of the kinds of disturbances. `other` is any other process, such as one of the web server or of a task worker.
_KINDS = {
    "worker": 8,
    "manager": 6,
    "server": 8,
    "other": 2,
    "absence": 1,
    "freeze": 1,
    "lost-log": 1,
    "restore": 3,
    "move": 5,
    "copying": 3,
}
# Seconds of an absence: a partition counts as silent after 15.
_ABSENCE = (16.0, 40.0)
# Seconds between a move and the next disturbance: a move of a small crawl is over soon.
_AFTER_MOVE = (0.2, 3.0)
# Query: true if a run goes on in a partition, and the control partition has not let it finish.
_IN_PROGRESS = """
SELECT job.phase = 'active' AND known.may_finish_run < job.run_no
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id ORDER BY known.number DESC LIMIT 1
"""


def crawl(
    directory: Path, *, pages: int, hosts: int, every: float | None, rng: random.Random, most: int, kinds: list[str]
) -> Crawl:
    """Crawl the site by a new job, and disturb it every `every` seconds on average, at most `most` times."""
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
            moves = None
            if every is not None:
                moves = _disturb_until_the_end(made, demo, directory, every=every, rng=rng, most=most, kinds=kinds)
            output = demo.communicate(timeout=max(1.0, _PATIENCE - (time.monotonic() - began_at)))[0]
        except subprocess.TimeoutExpired:
            made.problems.append(f"the crawl hangs after {_PATIENCE:.0f} s")
            end_processes(directory)
            demo.communicate()
            return made
    made.seconds = time.monotonic() - began_at
    # Without a disturbance, nothing explains a repeated request.
    judge(made, output, demo.returncode, directory, moves.had if moves is not None else lambda *_: False)
    if moves is not None:
        made.moves = [f"{one.kind} of {one.giver}" for one in moves.requested]
    return made


def _disturb_until_the_end(
    made: Crawl,
    demo: "subprocess.Popen[str]",
    directory: Path,
    *,
    every: float,
    rng: random.Random,
    most: int,
    kinds: list[str],
) -> Moves | None:
    """Disturb partitions until the run has ended in the control partition. Return the moves of slots."""
    until = time.monotonic() + _PATIENCE
    addresses: dict[str, str] = {}
    moves = next_at = None
    while demo.poll() is None and time.monotonic() < until:
        time.sleep(_POLL_INTERVAL)
        if not addresses:
            with suppress(StopIteration, psutil.Error):
                addresses = partitions_of(directory)
            continue
        phase = _phase(addresses["a"])
        if phase == "inactive":
            if next_at is not None:
                return moves
        elif moves is None and phase == "active":
            # The run of this crawl has begun. Before that, the newest job may be one of an earlier crawl, which is
            # being deleted.
            with suppress(psycopg.Error):
                moves, next_at = Moves(addresses), time.monotonic()
        if moves is None or next_at is None:
            continue
        moves.read_phase()
        if time.monotonic() >= next_at:
            if "restore" in kinds and not made.backups:
                with absences.paused(directory, addresses["a"]):
                    _back_up(made, directory, NAMES)
            kind = _disturb(made, moves, directory, addresses, rng, kinds)
            pause = {"copying": 0.0, "move": rng.uniform(*_AFTER_MOVE)}.get(kind, rng.uniform(0.2, 2 * every - 0.2))
            next_at = time.monotonic() + pause
            if len(made.disturbances) + len(moves.requested) >= most:
                return moves
    return moves


def _phase(address: str) -> str | None:
    """Return the phase of the newest job; None while the database is down, or has no job."""
    with suppress(psycopg.Error), psycopg.connect(address, connect_timeout=2) as connection:
        # Jobs of earlier crawls are being deleted.
        row = connection.execute(
            "SELECT phase FROM jobs_job WHERE run_no > 0 OR phase <> 'inactive' ORDER BY id DESC LIMIT 1"
        ).fetchone()
        return None if row is None else str(row[0])
    return None


def _back_up(made: Crawl, directory: Path, partitions: Sequence[str]) -> None:
    """Make a backup of partitions, which may be restored later in this crawl."""
    for partition in partitions:
        began_at = time.monotonic()
        if name := absences.back_up(directory, partition, directory / "backups" / partition):
            made.backups[partition] = began_at, name


def _disturb(
    made: Crawl, moves: Moves, directory: Path, addresses: dict[str, str], rng: random.Random, kinds: list[str]
) -> str:
    """Disturb a partition, and return the kind of the disturbance."""
    partition = rng.choice(NAMES)
    other = next(name for name in NAMES if name != partition)
    (kind,) = rng.choices(kinds, weights=[_KINDS[one] for one in kinds])
    away = rng.uniform(*_ABSENCE)
    phase = moves.read_phase()
    _report(f"  {time.strftime('%X')} {kind} of {partition}{f', a move is {phase}' if phase else ''}")
    if kind in {"move", "copying"}:
        if not moves.request(kind, partition, rng):
            return ""
        if kind == "copying":
            moves.wait_for_copies()
        return kind
    if phase is not None and not phase.is_over:
        made.in_moves[phase.value] += 1
    at = time.monotonic()
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
        if (restored := _restore(made, moves, directory, addresses, partition, other)) is not None:
            made.disturbances.append(restored)
        return kind
    elif not _kill(directory, partition, kind, rng):
        return kind
    made.disturbances.append(Disturbance(kind, partition, at, time.monotonic()))
    return kind


def _restore(
    made: Crawl, moves: Moves, directory: Path, addresses: dict[str, str], partition: str, other: str
) -> Disturbance | None:
    """Restore a partition from a backup of this crawl, or make one for later if none may be restored."""
    since, backup = made.backups.get(partition, (0.0, ""))
    place = directory / "backups" / partition
    with absences.paused(directory, addresses["a"]):
        if not backup or not moves.may_restore(partition, since):
            _back_up(made, directory, [partition])
            return None
        restored_var = absences.prepare_restore(directory, partition, place, backup)

    def is_allowed() -> bool:
        return moves.may_restore(partition, since) and _is_in_progress(addresses[other])

    at, until, is_restored = absences.replace_data(directory, partition, restored_var, is_allowed=is_allowed)
    if not is_restored:
        return Disturbance("absence", partition, at, until)
    if partition == "a":
        # The job was paused for the backup.
        absences.resume(directory, addresses["a"])
    return Disturbance("restore", partition, at, until, since)


def _is_in_progress(address: str) -> bool:
    """True if the run goes on in a partition. Then the other partition can only be at an earlier moment of the run."""
    with suppress(psycopg.Error), psycopg.connect(address, connect_timeout=2) as connection:
        return connection.execute(_IN_PROGRESS).fetchone() == (True,)
    return False


def _kill(directory: Path, partition: str, kind: str, rng: random.Random) -> int:
    if kind == "server":
        return kill_server(directory, partition)
    if kind == "other":
        return _kill_other_process(directory, partition, rng)
    return kill_node(directory, partition, f"{kind}-1")


def _kill_other_process(directory: Path, partition: str, rng: random.Random) -> int:
    """Kill a process of a partition that is neither a node nor a server, nor the process that checks the result."""
    others = []
    for here, process in processes_in(directory):
        with suppress(psutil.Error):
            words = {"runworker", "runmanager", *absences.UNDISTURBED} & set(process.cmdline())
            if here == partition and not words and "postgres" not in process.name():
                others.append(process)
    if not others:
        return 0
    with suppress(psutil.Error):
        rng.choice(others).kill()
    return 1


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
    rng = random.Random(given.seed)
    kills: Counter[str] = Counter()
    in_moves: Counter[str] = Counter()
    expected: Counter[tuple[object, ...]] | None = None
    number = problems = 0
    directory = Path(tempfile.mkdtemp(prefix="crawlctl-parts-"))
    while expected is None or kills.total() < given.kills:
        made = crawl(
            directory,
            pages=given.pages,
            hosts=given.hosts,
            every=None if expected is None else given.every,
            rng=rng,
            most=given.kills - kills.total(),
            kinds=given.kinds,
        )
        if expected is None:
            expected = made.documents
        elif made.documents != expected and not made.problems:
            more, less = made.documents - expected, expected - made.documents
            made.problems.append(f"other documents than without disturbances: more {dict(more)}, less {dict(less)}")
        disturbed = Counter(f"{one.kind} of {one.partition}" for one in made.disturbances) + Counter(made.moves)
        kills += disturbed
        in_moves += made.in_moves
        problems += len(made.problems)
        _report(
            f"crawl {number}: {made.seconds:.0f} s, {disturbed.total()} disturbances ({kills.total()} in all), "
            f"{made.fetched_twice} requests repeated, {'; '.join(made.problems) or 'as expected'}"
        )
        number += 1
        end_processes(directory)
        if made.problems:
            _report(f"  kept: {directory}")
            if number == 1:
                # Without its documents, nothing can be compared.
                return 1
            directory = Path(tempfile.mkdtemp(prefix="crawlctl-parts-"))
    shutil.rmtree(directory, ignore_errors=True)
    _report(
        f"disturbances: {dict(sorted(kills.items()))}",
        f"of these, while a move waited or copied: {dict(in_moves)}",
        f"disturbed crawls: {number - 1}",
        f"problems: {problems}",
    )
    return 1 if problems else 0


def _report(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
