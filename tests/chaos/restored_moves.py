"""
The test of restores around moves of slots: `make chaos-moves`.

python -m tests.chaos.restored_moves [--pages N] [--hosts N]

A demo with two partitions crawls a synthetic site. Then slots move from one partition to the other, again and again.
During each move, one partition, the giver or the receiver, is restored from a backup that is older than the move: while
the move waits for jobs, while it copies documents, or after it. The other partition stands still meanwhile, so that the
phase lasts.

After each move, a full run finds the documents that the backup did not know. Then the documents of both databases must
be those of the first crawl, by stage, outcome and code. Each must be in the partition that has its host, and the counts
of each database must agree with its rows. The exit code is 0 if all agree.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from jobs.partitions.move_notes import read_move, request_move
from jobs.partitions.moving import MovePhase
from jobs.partitions.placement import Placement
from jobs.partitions.slots import read_map
from tests.chaos import absences
from tests.chaos.compared import NAMES, Crawl, add_documents, check_places
from tests.chaos.partitions import end_processes
from tests.support.partitioned_demo import partition_in, partitions_of, processes_in
from tests.support.processes import ROOT

_PATIENCE = 600.0
_SLOTS = 80
# Stage, outcome and code of a document that was read, and of one that was read again.
_READ, _UNCHANGED = (2, 1, "200"), (2, 2, "304")


class Demo:
    """A running demo of two partitions."""

    def __init__(self, directory: Path, addresses: dict[str, str]) -> None:
        self.directory, self.addresses = directory, addresses
        manager = next(
            process for name, process in processes_in(directory) if name == "a" and "manager-1" in process.cmdline()
        )
        self.environment = manager.environ()

    def ask(self, name: str, statement: str) -> Any:
        with psycopg.connect(self.addresses[name], autocommit=True, connect_timeout=5) as connection:
            return connection.execute(statement).fetchall()

    def phase(self) -> MovePhase | None:
        with psycopg.connect(self.addresses["a"], autocommit=True, connect_timeout=5) as connection:
            move = read_move(connection)
        return move and move.phase

    def request(self, giver: str, receiver: str) -> None:
        with psycopg.connect(self.addresses["a"], autocommit=True) as connection:
            slots = read_map(connection, NAMES).slots_of(giver)[:_SLOTS]
            request_move(connection, Placement("a", NAMES), slots=slots, targets=[receiver])

    def run_fully(self) -> None:
        """Start a full run, and wait for its end."""
        ((before,),) = self.ask("a", "SELECT run_no FROM jobs_job")
        command = [sys.executable, "manage.py", "job", "demo 1", "start"]
        subprocess.run(command, cwd=ROOT, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        ended = f"SELECT count(*) FROM jobs_job WHERE run_no > {before} AND phase = 'inactive'"
        for name in NAMES:
            wait(lambda name=name: self.ask(name, ended) == [(1,)], f"the end of the run in {name}")  # type: ignore[misc]

    def documents(self) -> Crawl:
        """Return the documents of both databases, and their defects."""
        made = Crawl()
        for name in NAMES:
            add_documents(made, partition_in(self.directory, name), name)
        check_places(made)
        # The site does not change, so unchanged documents count as read ones.
        made.documents = Counter({of: amount for of, amount in made.documents.items() if of != _UNCHANGED})
        made.documents[_READ] = len(made.hosts) - sum(made.documents.values()) + made.documents[_READ]
        return made


def wait(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with suppress(psycopg.Error):
            if holds():
                return
        time.sleep(0.1)
    raise AssertionError(f"no {what} within {_PATIENCE:.0f} s")


def move_with_a_restore(demo_run: Demo, giver: str, restored: str, phase: MovePhase) -> None:
    """
    Move slots of `giver`. In this phase of the move, restore one partition from a backup that is older than the move.
    """
    receiver = next(name for name in NAMES if name != giver)
    other = next(name for name in NAMES if name != restored)
    place = demo_run.directory / "backups" / restored
    backup = absences.back_up(demo_run.directory, restored, place)
    assert backup is not None
    restored_var = absences.prepare_restore(demo_run.directory, restored, place, backup)
    with ExitStack() as standing:
        if phase == MovePhase.HOLDING:
            # Without its main manager, the other partition sends no report, so the move waits.
            for name, process in processes_in(demo_run.directory):
                if name == other and "manager-1" in process.cmdline():
                    process.suspend()
                    standing.callback(process.resume)
        demo_run.request(giver, receiver)
        wait(lambda: demo_run.phase() == phase, f"phase {phase}")
        if phase == MovePhase.COPYING:
            standing.enter_context(absences.frozen(demo_run.directory, other))
        absences.replace_data(demo_run.directory, restored, restored_var)
    adopted = "SELECT (body ->> 'epoch')::int FROM jobs_partitionfact WHERE source = target AND key = 'slots:all'"
    held = "SELECT count(*) FROM jobs_job WHERE move_hold > 0"

    def is_over() -> bool:
        maps = [max(demo_run.ask(name, adopted), default=(0,)) for name in NAMES]
        return (
            demo_run.phase() == MovePhase.DONE
            and maps[0] == maps[1]
            and not any(demo_run.ask(name, held) != [(0,)] for name in NAMES)
        )

    if restored == "a" and phase == MovePhase.HOLDING:
        # If only the lost database knew the move, no partition has this move now, and there is no end to wait for.
        wait(lambda: is_over() or demo_run.phase() is None or demo_run.phase() == MovePhase.DONE, "end of the move")
    else:
        wait(is_over, "end of the move")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--hosts", type=int, default=30)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="crawlctl-moves-"))
    words = [sys.executable, "manage.py", "demo", "--pages", str(given.pages), "--hosts", str(given.hosts)]
    words += ["--managers", "1", "--workers", "1", "--partitions", "2"]
    environment = {**os.environ, "CRAWLCTL_VAR": str(directory / "var"), "DATABASE_URL": ""}
    environment |= {"CRAWLCTL_LOG_LEVEL": "ERROR", "CRAWLCTL_ADMIN_PASSWORD": ""}
    problems = 0
    with (directory / "demo.err").open("wb") as errors:
        demo = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=errors, stderr=errors)
        try:
            found: dict[str, str] = {}
            while not found:
                time.sleep(1)
                assert demo.poll() is None, (directory / "demo.err").read_text()[-500:]
                with suppress(StopIteration, psutil.Error):
                    found = partitions_of(directory)
            demo_run = Demo(directory, found)
            ended = "SELECT count(*) FROM jobs_job WHERE run_no > 0 AND phase = 'inactive'"
            for name in NAMES:
                wait(lambda name=name: demo_run.ask(name, ended) == [(1,)], f"end of the crawl in {name}")  # type: ignore[misc]
            expected: Counter[tuple[object, ...]] = demo_run.documents().documents
            report(f"documents: {sum(expected.values())}, {json.dumps([list(of) for of in expected])}")
            for restored in reversed(NAMES):
                for phase in (MovePhase.HOLDING, MovePhase.COPYING, MovePhase.DONE):
                    problems += check(demo_run, expected, "a", restored, phase)
        finally:
            demo.terminate()
            with suppress(subprocess.TimeoutExpired):
                demo.wait(60)
            end_processes(directory)
    report(f"problems: {problems}", *([f"kept: {directory}"] if problems else []))
    if not problems:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if problems else 0


def check(demo_run: Demo, expected: "Counter[tuple[object, ...]]", giver: str, restored: str, phase: MovePhase) -> int:
    """Move slots with a restore, run the job fully, and return the number of problems."""
    role = "giver" if giver == restored else "receiver"
    began_at = time.monotonic()
    try:
        move_with_a_restore(demo_run, giver, restored, phase)
        lacking = sum(expected.values()) - sum(demo_run.documents().documents.values())
        demo_run.run_fully()
        made = demo_run.documents()
    except AssertionError as error:
        report(f"{giver} gives, {restored} ({role}) is restored, {phase}: {error}")
        return 1
    if made.documents != expected:
        more, less = made.documents - expected, expected - made.documents
        made.problems.append(f"more {dict(more)}, less {dict(less)}")
    report(
        f"{giver} gives, {restored} ({role}) is restored, {phase}: {time.monotonic() - began_at:.0f} s, "
        f"{lacking} documents found by the next run, {'; '.join(made.problems) or 'as expected'}"
    )
    return len(made.problems)


def report(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
