"""
Measures explanations of addresses among many documents: `python -m tests.benchmarks.explaining`.

The database has a million documents of a thousand hosts. Each address is explained by the API, for an administrator:
documents that wait or are done, and addresses that no job knows. The report shows milliseconds. The
exit code is non-zero if the 95th percentile is above 200 ms.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import django
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_GOAL: Final = 200.0
_ASKED: Final = 100


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="explaining", description="Measure explanations of addresses.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="explaining-", dir=home) as name,
        databases.embedded(Path(name)) as database,
    ):
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        return _measure(database.address, documents=options.documents)


def _measure(address: str, *, documents: int) -> int:
    from jobs.connectors.repository.base import hash_of
    from jobs.models import QueueItem
    from jobs.queue.sql.arrays import register_arrays
    from tests.support.api import client_of
    from tests.support.filled_queue import FilledQueue, Shape

    with psycopg.connect(address, autocommit=True) as connection:
        register_arrays(connection)
        FilledQueue(connection, documents=documents, shape=Shape(bins=1_000))
    urls = []
    for item in [*QueueItem.objects.filter(seq__isnull=False)[:_ASKED], *QueueItem.objects.filter(stage=2)[:_ASKED]]:
        # The filled rows have keys that are not the hashes of their addresses. An explanation finds a document by this
        # hash.
        url = f"{item.identifier}/known/{len(urls)}"
        QueueItem.objects.filter(hash=item.hash, job=item.job_id).update(hash=hash_of(url), identifier=url)
        urls.append(url)
    client = client_of("administrator")
    slow = False
    for kind, asked in (("known", urls), ("unknown", [f"{url}/unknown" for url in urls])):
        times = []
        # The first request fills the caches of the process.
        client.get("/api/v1/explain/", {"url": asked[0]}, HTTP_HOST="127.0.0.1")
        for url in asked:
            began = time.perf_counter()
            answer = client.get("/api/v1/explain/", {"url": url}, HTTP_HOST="127.0.0.1")
            times.append((time.perf_counter() - began) * 1000)
            assert answer.json()["is_known"] == (kind == "known")
        late = statistics.quantiles(times, n=20)[-1]
        sys.stdout.write(
            f"{documents:,} documents, {kind}: median {statistics.median(times):.0f} ms, 95th percentile {late:.0f} ms\n"
        )
        slow = slow or late > _GOAL
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
