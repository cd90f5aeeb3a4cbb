"""
Measures how much time each low-water mark saves while a snapshot is open: `python -m tests.benchmarks.open_snapshot`.

A queue of few hosts is measured first without a snapshot. Then a snapshot is opened, as a backup does, and as many
documents pass through the queue as in an hour at 100 pages a second. After that each step is measured again: with all
marks, and without one mark at a time, which is then 0. The steps are those of a turn (stuff, take, close), a fold of
counters, the condition of each duty, and pages. Each figure is the fastest of some rounds in ms, so other work on the
machine matters little. The exit code is 1 if a step with all marks takes more than 3 times as long as without a
snapshot.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import django

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

if TYPE_CHECKING:
    from tests.support.filled_queue import FilledQueue

_MOST: Final = 3.0
# Times below this many milliseconds consist mostly of errors of the clock and of the driver's own time.
_SHORT: Final = 1.0
_HUNDRED: Final = 100
_OF_A_TURN: Final = ("stuff", "take", "close")
_TURN: Final = "stuff + take + close"
_MARKS: Final = ("batch", "turn", "delta")
# Number of documents that pass through the queue before the first measurement.
_SETTLING: Final = 3_000
# Number of rounds before the measured ones. The driver prepares a statement at its sixth execution. Five executions
# later, the server chooses a plan for all further ones.
_WARMING: Final = 12
# Statement that stores the present marks again, with some of them at 0. The last row applies.
_WITHOUT: Final = """
INSERT INTO jobs_lowwatermark (batch, turn, delta, next_batch, next_turn, next_delta, next_since)
SELECT CASE WHEN %(mark)s = 'batch' THEN 0 ELSE batch END, CASE WHEN %(mark)s = 'turn' THEN 0 ELSE turn END,
       CASE WHEN %(mark)s = 'delta' THEN 0 ELSE delta END, next_batch, next_turn, next_delta, next_since
  FROM jobs_lowwatermark ORDER BY id DESC LIMIT 1
RETURNING id
"""

Times = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="open_snapshot", description="Measure the queue beside an open snapshot.")
    parser.add_argument("--documents", type=int, default=360_000, help="documents of the snapshot's age (%(default)s)")
    parser.add_argument("--bins", type=int, default=100, help="hosts of the queue (%(default)s)")
    parser.add_argument("--marks", default=",".join(_MARKS), help="marks to remove, one at a time (%(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="rounds; the fastest counts (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="beside-", dir=home) as name, databases.in_memory(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        found = _measure_all(database.address, options)
    return _print_table(found)


def _measure_all(address: str, options: argparse.Namespace) -> dict[str, Times]:
    """Return the times of each step, by the state of the queue."""
    import psycopg
    from django.db import connection as django_connection

    from tests.support.filled_queue import FilledQueue, Shape

    with psycopg.connect(address, autocommit=True) as connection, psycopg.connect(address) as backup:
        queue = FilledQueue(connection, documents=200 * options.bins, shape=Shape(bins=options.bins))
        client = _log_in()
        try:
            queue.cycle(_SETTLING)
            _analyze(queue)
            found = {"no snapshot": _measure(queue, client, rounds=options.rounds)}
            backup.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            backup.execute("SELECT count(*) FROM jobs_job")
            began = time.monotonic()
            queue.cycle(options.documents)
            _analyze(queue)
            sys.stderr.write(f"{options.documents:,} documents in {time.monotonic() - began:.0f} s\n")
            found["all marks"] = _measure(queue, client, rounds=options.rounds)
            for mark in filter(None, options.marks.split(",")):
                with _without(queue, mark):
                    found[f"no {mark}"] = _measure(queue, client, rounds=options.rounds)
        finally:
            django_connection.close()
    return found


@contextmanager
def _without(queue: "FilledQueue", mark: str) -> Iterator[None]:
    """Set one low-water mark to 0 while the block runs."""
    queue.raise_marks()
    row = queue.connection.execute(_WITHOUT, {"mark": mark}).fetchone()
    assert row is not None
    yield
    queue.connection.execute("DELETE FROM jobs_lowwatermark WHERE id = %s", row)


def _log_in() -> Any:
    from django.test import Client

    from tests.support.api import make_user

    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(make_user("viewer"))
    return client


def _measure(queue: "FilledQueue", client: Any, *, rounds: int) -> Times:
    """Return the shortest time of each step (ms)."""
    times: Times = {}

    def clock(step: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        done = work()
        times[step] = min(times.get(step, float("inf")), 1000 * (time.perf_counter() - began))
        return done

    steps: Mapping[str, Callable[[], Any]] = {**_conditions(queue), **_pages(client)}
    for number in range(_WARMING + rounds):
        if number == _WARMING:
            times.clear()
        _turn(queue, clock)
        clock("fold", queue.fold)
        for step, work in steps.items():
            clock(step, work)
    return times


def _turn(queue: "FilledQueue", clock: Callable[[str, Callable[[], Any]], Any]) -> None:
    """Move a hundred documents through the queue."""
    clock("stuff", lambda: queue.stuff(_HUNDRED))
    taken = clock("take", lambda: queue.take(_HUNDRED))
    flushed = clock("flush", lambda: queue.flush(queue.results_of(taken, new=1, known=1)))
    clock("close", lambda: queue.close(taken, flushed))


def _analyze(queue: "FilledQueue") -> None:
    """Update the planner's statistics while some deltas are not folded yet, as in a running crawl."""
    _turn(queue, lambda _step, work: work())
    queue.connection.execute("ANALYZE")
    queue.fold()


def _conditions(queue: "FilledQueue") -> dict[str, Callable[[], Any]]:
    """
    Return functions by name. One function for each duty reads the condition of the duty, and one reads the conditions
    of all duties.
    """
    from jobs.loops.manager.duty_tables import MAIN_DUTIES, OWNER_DUTIES

    facts = {"me": queue.manager.id, "scope": queue.manager.scope, "now": queue.now()}

    def asking(condition: Any) -> Callable[[], Any]:
        return lambda: queue.connection.execute(f"SELECT {condition}", facts).fetchall()

    of_each = {f"duty {duty.name}": asking(duty.call) for duty in (*OWNER_DUTIES, *MAIN_DUTIES) if "jobs_" in duty.call}
    return {"all conditions": queue.ask, **of_each}


def _pages(client: Any) -> dict[str, Callable[[], Any]]:
    """Return the pages whose content depends on documents, by their addresses."""
    from jobs.models import Bin, Job

    job, bin_ = Job.objects.order_by("pk")[0].pk, Bin.objects.order_by("pk")[0].pk
    addresses = ["/", f"/jobs/{job}/", "/hosts/", f"/hosts/{bin_}/", "/nodes/", "/cluster/", "/reports/queue/"]

    def reading(address: str) -> Callable[[], Any]:
        def read() -> None:
            assert client.get(address).status_code == 200

        return read

    return {f"page {address}": reading(address) for address in addresses}


def _print_table(found: Mapping[str, Times]) -> int:
    """Print the times of each step in each state; return 1 if one is too long with all marks."""
    for times in found.values():
        times[_TURN] = sum(times[step] for step in _OF_A_TURN)
    base, with_all = found["no snapshot"], found["all marks"]
    sys.stdout.write(f"{'ms':36}" + "".join(f"{state:>14}" for state in found) + "\n")
    for step in base:
        sys.stdout.write(f"{step:36}" + "".join(f"{times[step]:14.2f}" for times in found.values()) + "\n")
    broken = [step for step in base if step not in _OF_A_TURN and with_all[step] > _MOST * max(base[step], _SHORT)]
    sys.stdout.write(f"more than {_MOST:g} times as long with all marks: {', '.join(broken) or 'none'}\n")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
