"""
Measures the bytes of a document in the database, and extrapolates them: `python -m tests.benchmarks.sizes`.

The synthetic site is crawled in sizes of 10,000 and 100,000 pages, each time into a fresh embedded database with the null
output. The growth of all tables with their indexes is divided by the number of documents, and multiplied up to 10^9
documents. The history is kept for a number of days and not for each document, so the sum leaves it out.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT
from tests.benchmarks.runs import run_ours

_SIZES: Final = (10_000, 100_000)
_UP_TO: Final = (10**7, 10**8, 10**9)
_TABLES: Final = """
SELECT CASE WHEN relname LIKE 'jobs_activity%' THEN 'history' ELSE relname END AS name,
       sum(pg_table_size(oid))::bigint, sum(pg_indexes_size(oid))::bigint
  FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace GROUP BY 1
"""
# Bytes of a document below which a table is not shown.
_LEAST: Final = 1.0
# Largest table of PostgreSQL: 2^32 pages of 8 KiB.
_LARGEST_TABLE: Final = 2**32 * 8192


@dataclass(frozen=True)
class Size:
    """The bytes of a table for each document: of its rows, and of its indexes."""

    rows: float
    indexes: float

    @property
    def both(self) -> float:
        return self.rows + self.indexes


def measure(pages: int) -> dict[str, Size]:
    """Return the size of each table for one document, after a crawl of this many pages."""
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sizes-", dir=home) as name, databases.embedded(Path(name)) as database:
        before = _read(database.address)
        run = run_ours(
            pages=pages, directory=Path(name), database=database, output="null", watch=lambda _requests: None
        )
        if run.defects:
            raise SystemExit(f"{pages:,} pages: {'; '.join(run.defects)}")
        after = _read(database.address)
        with psycopg.connect(database.address) as connection:
            ((documents,),) = connection.execute("SELECT count(*) FROM jobs_queueitem").fetchall()
    grown = {name: tuple(now - then for now, then in zip(after[name], before[name], strict=True)) for name in before}
    sizes = {name: Size(rows / documents, indexes / documents) for name, (rows, indexes) in grown.items()}
    return dict(sorted(sizes.items(), key=lambda one: -one[1].both))


def _read(address: str) -> dict[str, tuple[int, int]]:
    """Return the bytes of the rows and of the indexes of each table."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        return {name: (rows, indexes) for name, rows, indexes in connection.execute(_TABLES)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sizes", description="Measure and extrapolate the bytes of a document.")
    parser.add_argument("--pages", type=int, nargs="+", default=_SIZES, help="sizes of the site, in rising order")
    given = parser.parse_args(arguments)
    found: dict[str, Size] = {}
    for pages in given.pages:
        found = measure(pages)
        _report(f"{pages:,} pages, bytes of a document:", "| table | rows | indexes |", "|---|---|---|")
        _report(
            *(
                f"| {name} | {size.rows:.0f} | {size.indexes:.0f} |"
                for name, size in found.items()
                if size.both >= _LEAST
            )
        )
        _report(f"| all but the history | {_sum(found).rows:.0f} | {_sum(found).indexes:.0f} |", "")
    total, largest = _sum(found).both, max(size.rows for size in found.values())
    for documents in _UP_TO:
        _report(f"{documents:,} documents: {documents * total / 1e9:,.0f} GB")
    _report(f"documents at which the largest table of one server is full: {_LARGEST_TABLE / largest:,.0f}")
    return 0


def _sum(found: dict[str, Size]) -> Size:
    kept = [size for name, size in found.items() if name != "history"]
    return Size(sum(size.rows for size in kept), sum(size.indexes for size in kept))


def _report(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
