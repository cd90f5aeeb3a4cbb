"""
Measures what the filter by access costs a search: `python -m tests.benchmarks.search_access`.

The index is in its own embedded database: documents of 25 words, each with one of a thousand accesses of two levels.
Readers see all of them, a half, a tenth, one of a thousand, or none. After each search, the same search runs without a
filter, as for documents that everyone may see. Each figure is the median time of the reader's search divided by that of
the open one.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import django
import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

# Largest number of documents that one statement inserts.
_AT_ONCE = 100_000
_READERS = ("all", "half", "tenth", "one of 1000", "none")
# Searches, with the share of the documents that match.
_QUERIES = {
    "a word in 0.01 %": "rare7",
    "a word in 1 %": "some7",
    "a word in 10 %": "often7",
    "a word in all": "common",
    "two words in 1 %": "often7 many3",
}
_FILL = """
INSERT INTO jobs_searchdocument (output_id, hash, url, title, description, text, content_type, language, fetched_at,
                                 written_at, access, vector)
SELECT %(output)s, md5(n || ' ' || %(output)s)::uuid, 'https://a.example/' || n, 'page ' || n, '', words.text, 'text/html', '', now(),
       now(), md5('access ' || n %% 1000)::uuid,
       to_tsvector('simple', words.text)
  FROM generate_series(%(first)s::int, %(last)s::int) AS n,
       LATERAL (SELECT 'common rare' || n / 7 %% 10000 || ' some' || n / 3 %% 100 || ' often' || n / 11 %% 10 || ' many' || n / 13 %% 10 || ' '
                       || string_agg('w' || abs(hashint8(n * 100 + place)) %% 50000, ' ') AS text
                  FROM generate_series(1, 20) AS place) AS words
"""
_ACCESSES = """
INSERT INTO jobs_searchaccess (digest, place, of, level, allow, deny)
SELECT md5('access ' || n)::uuid, place, 2, CASE place WHEN 0 THEN 'document' ELSE 'parent' END,
       array_remove(ARRAY['g:all', 'g:own ' || n, CASE WHEN n % 2 = 0 THEN 'g:half' END, CASE WHEN n % 10 = 0 THEN 'g:tenth' END,
                          CASE WHEN n = 7 THEN 'g:one of 1000' END], NULL), ARRAY['g:DEAD_AUTHORITY']
  FROM generate_series(0, 999) AS n, generate_series(0, 1) AS place
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="search_access", description="Measure the filter of a search by access.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents of the index (%(default)s)")
    parser.add_argument("--reads", type=int, default=15, help="times of each search; the median counts (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="access-", dir=home) as name, databases.embedded(Path(name)) as database:
        os.environ.update(database.environment)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        _measure(documents=options.documents, reads=options.reads, address=database.address)
    return 0


def _measure(*, documents: int, reads: int, address: str) -> None:
    from django.db import connection

    from jobs.queries.documents import search as searching

    filtered = searching._search
    began = time.monotonic()
    _fill(documents, address)
    _write_line(f"{documents:,} documents in {time.monotonic() - began:.0f} s")
    worst = 0.0
    try:
        for title, query in _QUERIES.items():
            for reader in _READERS:
                taken: dict[bool, list[float]] = {True: [], False: []}
                found = {}
                for read in range(2 * reads + 2):
                    is_open = bool(read % 2)
                    searching._search = (lambda **_conditions: filtered()) if is_open else filtered
                    start = time.perf_counter()
                    tokens = () if is_open else (f"g:{reader}",)
                    found[is_open] = searching.search(query, tokens=tokens, limit=20).total
                    # The first search of each kind fills the caches.
                    if read > 1:
                        taken[is_open].append(1000 * (time.perf_counter() - start))
                median, of_open = statistics.median(taken[False]), statistics.median(taken[True])
                worst = max(worst, median / of_open)
                _write_line(
                    f"{title}, reader of {reader}: {median / of_open:.2f}"
                    f" ({median:.1f} ms for {found[False]:,}, {of_open:.1f} ms for {found[True]:,})"
                )
        _write_line(f"largest ratio: {worst:.2f}")
    finally:
        searching._search = filtered
        connection.close()


def _fill(documents: int, address: str) -> None:
    from jobs.models import OutputConnection

    output = OutputConnection.objects.create(name="search", connector="search")
    # The index of words is built once, which takes longer than a web server waits for a statement.
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(_ACCESSES)
        connection.execute("DROP INDEX search_vector")
        for first in range(1, documents + 1, _AT_ONCE):
            facts = {"first": first, "last": min(first + _AT_ONCE - 1, documents), "output": output.pk}
            connection.execute(_FILL, facts)
        connection.execute("SET maintenance_work_mem = '512MB'")
        connection.execute("CREATE INDEX search_vector ON jobs_searchdocument USING gin (vector)")
        connection.execute("VACUUM ANALYZE jobs_searchdocument")
        connection.execute("ANALYZE jobs_searchaccess")


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
