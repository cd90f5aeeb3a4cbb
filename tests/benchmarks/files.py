"""
Measures the crawl of a tree of small files into the null output: a first run, and a second run without changes.

The tree has the shape of ManifoldCF's BigCrawlTester: ten directories in each directory, and ten files in each of the
lowest. So 100,000 files are 111,111 documents. ManifoldCF published 33 of them a second on two cores, and 57 on eight.
A bare walk that reads and hashes the same tree in the same run shows the speed of the disk.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT, Database

_MANIFOLDCF = {"2 cores": 33.0, "8 cores": 57.0}
_FAN_OUT = 10
_TEXT = "The quick brown fox jumps over the lazy dog. " * 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the crawl of a tree of small files.")
    parser.add_argument(
        "--levels", type=int, default=4, help="levels of directories: 10^(levels+1) files (%(default)s)"
    )
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    (ROOT / "var" / "bench").mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="files-", dir=ROOT / "var" / "bench") as name,
        databases.embedded(Path(name)) as database,
    ):
        tree = Path(name) / "tree"
        documents = create_files(tree, levels=options.levels)
        bare = documents / walk(tree)
        rates = {run: documents / crawl(tree, database, workers=options.workers, documents=documents) for run in RUNS}
    for run, rate in rates.items():
        sys.stdout.write(f"files {run} run: {rate:.0f} documents/s\n")
        for cores, theirs in _MANIFOLDCF.items():
            sys.stdout.write(f"files {run} run, ratio to ManifoldCF's {theirs:.0f} on {cores}: {rate / theirs:.1f}\n")
        sys.stdout.write(f"files {run} run, ratio to a bare walk: {rate / bare:.4f}\n")
    return 0


RUNS = ("first", "unchanged second")


def create_files(directory: Path, *, levels: int) -> int:
    """Make the tree, and return the number of its directories and files."""
    directory.mkdir()
    created = 1
    for number in range(_FAN_OUT):
        if levels:
            created += create_files(directory / f"d{number}", levels=levels - 1)
        else:
            (directory / f"f{number}.txt").write_text(f"{directory} {number}. {_TEXT}")
            created += 1
    return created


def walk(tree: Path) -> float:
    """Read and hash every file, and return the seconds that this took."""
    began = time.monotonic()
    for above, _, names in os.walk(tree):
        for name in names:
            hashlib.blake2b((Path(above) / name).read_bytes()).hexdigest()
    return time.monotonic() - began


def crawl(tree: Path, database: Database, *, workers: int, documents: int) -> float:
    """Run `manage.py crawl` of the tree, as users start it, and return the seconds of its run."""
    arguments = [f"file://{tree}", "--job=tree", "--output=null", f"--workers={workers}", "--json", "--no-progress"]
    done = subprocess.run(
        [sys.executable, "manage.py", "crawl", *arguments],
        cwd=ROOT,
        env=database.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the crawl ended with {done.returncode}: {done.stderr[-2000:]}")
    ended = json.loads(done.stdout.splitlines()[-1])
    counted = sum(ended["result_codes"].values())
    if counted != documents:
        raise SystemExit(f"{counted} of {documents} documents were read: {ended['result_codes']}")
    return float(ended["seconds"])


if __name__ == "__main__":
    sys.exit(main())
