"""
Measures rehearsals of jobs, and the sample that they need: `python -m tests.benchmarks.rehearsing`.

The database has a job of a million documents on a thousand hosts, with ten links each, all held by an output. A change
of its rules drops a tenth of them. The report shows the seconds and the memory of a rehearsal. The exit code is
non-zero if it takes more than 10 s.

A second part measures what the sample of rejected addresses adds to the flushes of a worker, whose documents lead to
ten new addresses each.
"""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import django
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_GOAL: Final = 10.0
_FLUSHES: Final = 400
_DOCUMENTS_OF_FLUSH: Final = 50
_REJECTED_OF_DOCUMENT: Final = 10

# Statement that creates ten links for each document: the documents form a tree, and its leaves link to any documents.
_LINKS: Final = """
INSERT INTO jobs_outlinks (hash, job_id, targets, is_redirect)
SELECT item.hash, item.job_id,
       ARRAY(SELECT md5((1 + (10 * (n - 1) + link) %% %(documents)s)::text)::uuid FROM generate_series(1, 10) AS link), false
  FROM generate_series(1, %(documents)s) AS n JOIN jobs_queueitem AS item ON item.hash = md5(n::text)::uuid
"""
_HELD: Final = """
INSERT INTO jobs_indexeddocument (output_id, hash, version, indexed_at)
SELECT %(output)s, hash, 'v', clock_timestamp() FROM jobs_queueitem
"""
_ROOT: Final = """
UPDATE jobs_queueitem SET hash = %(hash)s, identifier = %(seed)s WHERE hash = md5('1')::uuid;
UPDATE jobs_outlinks SET hash = %(hash)s WHERE hash = md5('1')::uuid
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rehearsing", description="Measure rehearsals of a job.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="rehearsing-", dir=home) as name,
        databases.embedded(Path(name)) as database,
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        seconds = _rehearse(database.address, documents=options.documents)
        _sample(database.address)
        return 1 if seconds > _GOAL else 0


def _rehearse(address: str, *, documents: int) -> float:
    from jobs.connectors.repository.base import hash_of
    from jobs.models import Job, OutputConnection
    from jobs.queue.sql.arrays import register_arrays
    from jobs.verbs.rehearsing import compare, read_wanted
    from nodes.database.clock import read_clock
    from tests.support.filled_queue import FilledQueue, Shape

    with psycopg.connect(address, autocommit=True) as connection:
        register_arrays(connection)
        FilledQueue(connection, documents=documents, shape=Shape(bins=1_000, jobs=1))
        job = Job.objects.get()
        seed = job.seeds.get().urls[0]
        output = OutputConnection.objects.create(name="held", connector="search")
        job.outputs.add(output)
        Job.objects.update(phase="inactive", specification={"scope": "any"})
        connection.execute(_LINKS, {"documents": documents})
        connection.execute(_HELD, {"output": output.pk})
        with psycopg.ClientCursor(connection) as cursor:
            cursor.execute(_ROOT, {"hash": hash_of(seed), "seed": seed})
        connection.execute("VACUUM ANALYZE")
    change = {"specification": {"scope": "any", "exclude": [r"page-\d*7\.html$"]}}
    before = _memory()
    began = time.perf_counter()
    found = compare(read_wanted(job.pk, now=read_clock(), **change), now=read_clock())
    seconds = time.perf_counter() - began
    sys.stdout.write(
        f"{found.documents:,} documents: {found.staying:,} stay, {found.dropped - found.unlinked.number:,} are refused, "
        f"{found.unlinked.number:,} are unlinked, {found.losses[0].documents:,} leave the output; "
        f"{seconds:.1f} s, {_memory() - before:,.0f} MiB more memory\n"
    )
    return seconds


def _sample(address: str) -> None:
    from jobs.connectors.repository.base import Ending, Outcome
    from jobs.models import Job, RejectedAddress
    from jobs.queue.rejected import RejectedSamples
    from tests.support.factories import facts_of

    job = facts_of(Job.objects.get())
    document: Any = SimpleNamespace(hash="0" * 32)
    times = []
    with psycopg.connect(address, autocommit=True) as connection:
        sample = RejectedSamples()
        for flush in range(_FLUSHES):
            ended = [
                (
                    job,
                    Outcome(
                        document,
                        Ending.INDEXED,
                        "200",
                        rejected=[f"http://x.example/{flush}/{n}/{link}" for link in range(_REJECTED_OF_DOCUMENT)],
                    ),
                )
                for n in range(_DOCUMENTS_OF_FLUSH)
            ]
            began = time.perf_counter()
            sample.collect(ended)
            sample.write(connection, at_once=False)
            times.append((time.perf_counter() - began) * 1000)
    early, late = times[: _FLUSHES // 40], times[-_FLUSHES // 4 :]
    sys.stdout.write(
        f"sample of {RejectedAddress.objects.count():,}, flushes of {_DOCUMENTS_OF_FLUSH * _REJECTED_OF_DOCUMENT} rejected "
        f"addresses: median {statistics.median(early):.1f} ms at first, {statistics.median(late):.1f} ms when it is full\n"
    )


def _memory() -> float:
    """Return the largest memory of this process so far (MiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
