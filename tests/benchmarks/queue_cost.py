"""
Measures the cost of the queue's steps as it grows: `python -m tests.benchmarks.queue_cost`.

A private PostgreSQL of Debian's is filled with few and with many documents, in several shapes. Then documents pass
through the queue, a hundred at a time, by the program's own functions: stuff, take, flush (each document names two new
and two known ones), close, round (a step of one). Before that a manager asks which of its duties are due. Counted
deltas are folded meanwhile. PostgreSQL itself reports the buffers that each statement touched; the time is measured in
rounds without these reports.

Each shape with many documents is compared with the even shape with few. Some thousand documents have passed through
that small queue first, whatever shapes are requested: a new queue touches fewer buffers than a used one. Last comes the
even shape again, after very many documents have passed ("cycles"), and after as many more during the open snapshot of a
backup ("snapshot").

The exit code is 1 if a step touches more than 1.3 times the buffers, or takes more than 2.5 times as long. Where bins
are throttled, a step of a round may exceed both, if it touches at most the buffers of the lanes that it reads.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import django

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

if TYPE_CHECKING:
    from tests.support.filled_queue import FilledQueue, Shape

_HUNDRED: Final = 100
# Allowed cost with many documents, as a multiple of the cost with few.
_MOST_BUFFERS: Final = 1.3
_MOST_TIME: Final = 2.5
# Least number of buffers and least time (ms) that are compared. Smaller figures consist mostly of index entries that
# are not cleaned up yet, and of errors of the clock.
_FEW_BUFFERS: Final = 100
_SHORT: Final = 2.0
# Largest number of buffers of a step of a round where bins are throttled: it reads the limits of at most 350 lanes
# (`jobs/queue/rounds.py`), at 25 buffers each.
_MOST_OF_A_ROUND: Final = 350 * 25
_STEPS: Final = ("ask", "stuff", "take", "flush", "close", "round")
_UNTIL_PREPARED: Final = 12
# Number of documents that pass through the small queue before it is measured, so that its tables and indexes are no
# longer new.
_SETTLING: Final = 6_000
# Number of rounds between two rises of the low-water mark by the main manager, at a thousand documents a second.
_ROUNDS_A_RAISE: Final = 20


@dataclass
class Cost:
    """The cost of each step, round by round: buffers and ms."""

    buffers: dict[str, list[int]] = field(default_factory=lambda: {step: [] for step in _STEPS})
    ms: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in _STEPS})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="queue_cost", description="Measure what the queue's steps cost as it grows.")
    parser.add_argument("--few", type=int, default=100_000, help="documents of the small queue (%(default)s)")
    parser.add_argument("--many", type=int, default=10_000_000, help="documents of the large ones (%(default)s)")
    parser.add_argument(
        "--cycles", type=int, default=500_000, help="documents that pass through the whole queue (%(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=30, help="hundreds of each measurement; medians count (%(default)s)"
    )
    parser.add_argument("--only", help="shapes to measure, by their names, with commas")
    parser.add_argument(
        "--untimed", action="store_true", help="hold only buffers to their limit: a machine may be busy"
    )
    parser.add_argument("--statements", action="store_true", help="also report the buffers of each statement")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cost-", dir=home) as name, databases.in_memory(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        return _Measurement(options).run()


class _Measurement:
    """The small queue and one large queue at a time, each in its own database. They are measured alternately."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._wanted = options.only.split(",") if options.only else None
        self._is_broken = False
        # Highest cost of each step in the small queue. Costs rise as the tables of this queue age, so the maximum is
        # compared.
        self._most_of_few = dict.fromkeys(_STEPS, 0.0)
        self._rounds: Counter[FilledQueue] = Counter()

    def run(self) -> int:
        from tests.support.filled_queue import EVEN, Shape

        shapes = {
            "throttled": Shape(throttled=0.99),
            "waiting": Shape(waiting=0.9),
            "paused": Shape(paused=0.9),
            "one-bin": Shape(in_one_bin=0.5),
            "bins": Shape(bins=self._options.many // 100),
        }
        self._write(f"{'':12}" + "".join(f"{step:>27}" for step in _STEPS))
        self._write(f"{'':12}" + f"{'buffers':>14}{'ms':>13}" * len(_STEPS))
        with self._small_queue() as few:
            few.cycle(_SETTLING)
            for name, shape in shapes.items():
                if not self._is_wanted(name):
                    continue
                with self._large_queue(shape) as many:
                    self._compare(name, many, few)
            if not any(map(self._is_wanted, ("even", "cycles", "snapshot"))):
                return int(self._is_broken)
            with self._large_queue(EVEN) as many:
                if self._is_wanted("even"):
                    self._compare("even", many, few)
                if self._is_wanted("cycles"):
                    many.cycle(self._options.cycles)
                    self._compare("cycles", many, few)
                if self._is_wanted("snapshot"):
                    with self._snapshot():
                        many.cycle(self._options.cycles)
                        self._compare("snapshot", many, few)
        return int(self._is_broken)

    def _is_wanted(self, name: str) -> bool:
        return self._wanted is None or name in self._wanted

    @contextmanager
    def _small_queue(self) -> "Iterator[FilledQueue]":
        """Yield the queue with few documents, moved to its own database."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        from nodes.database.address import database_dsn

        with self._large_queue(None) as queue:
            pass
        with psycopg.connect(make_conninfo(database_dsn(), dbname="template1"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE few TEMPLATE {conninfo_to_dict(database_dsn())['dbname']}")
        with psycopg.connect(make_conninfo(database_dsn(), dbname="few"), autocommit=True) as connection:
            queue.connection = connection
            yield queue

    @contextmanager
    def _large_queue(self, shape: "Shape | None") -> "Iterator[FilledQueue]":
        """Yield a queue in place of the present one, or the small queue if there is no shape."""
        import psycopg
        from django.core.management import call_command
        from django.db import connection as django_connection

        from nodes.database.address import database_dsn
        from tests.support.filled_queue import EVEN, FilledQueue

        documents = self._options.many if shape else self._options.few
        with psycopg.connect(database_dsn(), autocommit=True) as connection:
            call_command("flush", interactive=False, verbosity=0)
            began = time.perf_counter()
            queue = FilledQueue(connection, documents=documents, shape=shape or EVEN)
            django_connection.close()
            sys.stderr.write(f"{documents:,} documents were made in {time.perf_counter() - began:.0f} s\n")
            yield queue

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Hold a snapshot of the database open, as a backup does."""
        import psycopg

        from nodes.database.address import database_dsn

        with psycopg.connect(database_dsn()) as backup:
            backup.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            backup.execute("SELECT count(*) FROM jobs_job")
            yield

    def _compare(self, name: str, many: "FilledQueue", few: "FilledQueue") -> None:
        cost_of = {few: Cost(), many: Cost()}
        for queue, cost in cost_of.items():
            self._count(queue, cost)

        # Both queues are measured alternately, so that other work on the machine slows both equally.
        for _ in range(self._options.rounds):
            for queue, cost in cost_of.items():
                self._round(queue, partial(_clock, cost))
        self._report(name, cost_of[many], cost_of[few])

    def _count(self, queue: "FilledQueue", cost: Cost) -> None:
        """Count the buffers that each step touches."""
        from tests.support.explained import explaining

        # The driver prepares repeated statements, and the server then chooses generic plans, as in a daemon.
        for _ in range(_UNTIL_PREPARED):
            self._round(queue, lambda _step, work: work())
        with explaining(queue.connection) as found:

            def count(step: str, work: Callable[[], Any]) -> Any:
                found.clear()
                done = work()
                cost.buffers[step].append(sum(one.buffers for one in found))
                return done

            def report(step: str, work: Callable[[], Any]) -> Any:
                found.clear()
                done = work()
                for one in found:
                    self._write(f"    {step:8} {one.buffers:8}  {' '.join(one.text.split())[:110]}")
                return done

            for _ in range(self._options.rounds):
                self._round(queue, count)
            if self._options.statements:
                self._round(queue, report)

    def _round(self, queue: "FilledQueue", measure: Callable[[str, Callable[[], Any]], Any]) -> None:
        """Move a hundred documents through the queue. `measure` wraps each step."""
        measure("ask", queue.ask)
        if (stuffed := measure("stuff", lambda: queue.stuff(_HUNDRED)).documents) != _HUNDRED:
            raise RuntimeError(f"{stuffed} documents were stuffed instead of a hundred")
        taken = measure("take", lambda: queue.take(_HUNDRED))
        results = queue.results_of(taken, new=2, known=2)
        flushed = measure("flush", lambda: queue.flush(results))
        measure("close", lambda: queue.close(taken, flushed))
        measure("round", queue.walk)
        queue.fold()
        self._rounds[queue] += 1
        if not self._rounds[queue] % _ROUNDS_A_RAISE:
            queue.raise_marks()

    def _report(self, name: str, cost: Cost, base: Cost) -> None:
        line = f"{name:12}"
        for step in _STEPS:
            buffers, ms = statistics.median(cost.buffers[step]), statistics.median(cost.ms[step])
            of_few = self._most_of_few[step] = max(self._most_of_few[step], statistics.median(base.buffers[step]))
            ms_of_few = statistics.median(base.ms[step])
            is_bounded = (name, step) == ("throttled", "round") and buffers <= _MOST_OF_A_ROUND
            breaks = (
                buffers > _MOST_BUFFERS * max(of_few, _FEW_BUFFERS) and not is_bounded,
                ms > _MOST_TIME * max(ms_of_few, _SHORT) and not (is_bounded or self._options.untimed),
            )
            line += f"{buffers:8.0f}{_ratio(buffers, of_few, breaks=breaks[0])}{ms:7.1f}{_ratio(ms, ms_of_few, breaks=breaks[1])}"
            self._is_broken |= any(breaks)
        self._write(line)

    def _write(self, line: str) -> None:
        sys.stdout.write(line.rstrip() + "\n")
        sys.stdout.flush()


def _clock(cost: Cost, step: str, work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    done = work()
    cost.ms[step].append(1000 * (time.perf_counter() - began))
    return done


def _ratio(cost: float, of_few: float, *, breaks: bool) -> str:
    return f" {cost / of_few if of_few else 1:5.2f}" + ("!" if breaks else " ")


if __name__ == "__main__":
    sys.exit(main())
