"""
`make bench`: our crawler beside Scrapy, on one machine, in one run.

Both crawl the same synthetic site with 64 connections and no delay, each with a queue that survives a crash.
What is measured: pages a second by the site's own log, CPU by kind of process, memory, and the statements
that a crawl costs the database. docs/benchmarks.md says how to read the figures.

Standard output ends with one line for each figure; `var/bench.json` holds the same and every single run.
The exit code is 1 if a crawler did not fetch every page.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT
from tests.benchmarks.runs import SCRAPY_PYTHON, Run, Watch, run_ours, run_scrapy

_SCRAPY = "scrapy"
_OUTPUTS = ("null", "jsonl", "search")
_STATEMENTS_SHOWN = 40


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    (ROOT / "var" / "bench").mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[Run]] = {name: [] for name in (_SCRAPY, *_OUTPUTS)}
    for number in range(1, options.rounds + 1):
        for name, done in runs.items():
            with _Step(f"round {number} of {options.rounds}, {_title(name)}", pages=options.pages) as step:
                done.append(step.ended(_run(name, pages=options.pages, watch=step.watch)))
    statements = _count_statements(pages=options.pages)
    figures = _figures(runs, statements=statements)
    _write(options, runs=runs, statements=statements, figures=figures)
    for name, value in figures.items():
        sys.stdout.write(f"{name}: {_in_words(value)}\n")
    all_runs = [*runs.items(), *([("statements", [statements.run])] if statements else [])]
    defects = [f"{_title(name)}: {defect}" for name, done in all_runs for run in done for defect in run.defects]
    for defect in defects:
        sys.stderr.write(f"{defect}\n")
    return 1 if defects else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure our crawler beside Scrapy.")
    parser.add_argument("--pages", type=_at_least_one, default=10_000, help="pages of the site (%(default)s)")
    parser.add_argument(
        "--rounds", type=_at_least_one, default=1, help="runs of each kind; figures are their medians (%(default)s)"
    )
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: at least 1 is needed")
    return number


# --- Running -------------------------------------------------------------------------------------


def _run(name: str, *, pages: int, watch: Watch) -> Run:
    with _directory() as directory:
        if name == _SCRAPY:
            return run_scrapy(pages=pages, directory=directory, watch=watch)
        output = f"jsonl:{directory / 'pages.jsonl'}" if name == "jsonl" else name
        with databases.embedded(directory) as database:
            return run_ours(pages=pages, directory=directory, database=database, output=output, watch=watch)


@dataclasses.dataclass(frozen=True)
class Statements:
    """What a crawl without outputs asks of the database; `top` are (calls, ms in all, text)."""

    run: Run
    calls: int
    top: list[tuple[int, float, str]]


def _count_statements(*, pages: int) -> Statements | None:
    """Count the statements of a run on Debian's PostgreSQL; None where that is not installed."""
    if not databases.has_statistics():
        sys.stderr.write("Debian's postgresql is not installed, so statements are not counted.\n")
        return None
    with (
        _Step("statements, on Debian's PostgreSQL", pages=pages) as step,
        _directory() as directory,
        databases.with_statistics(directory) as (database, address),
    ):
        databases.forget_statements(address)
        run = run_ours(pages=pages, directory=directory, database=database, output="null", watch=step.watch)
        rows = databases.read_statements(address)
        step.ended(run)
    return Statements(run=run, calls=sum(row[0] for row in rows), top=rows[:_STATEMENTS_SHOWN])


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """A directory of one run's own, for a while."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=ROOT / "var" / "bench") as name:
        yield Path(name)


class _Step:
    """One run as it is shown on standard error: a line that counts where somebody watches, else its end only."""

    def __init__(self, title: str, *, pages: int) -> None:
        self._title, self._pages = title, pages
        self._is_watched = sys.stderr.isatty()
        self._end = "failed"

    def __enter__(self) -> "_Step":
        self._show("starting")
        return self

    def __exit__(self, *_: object) -> None:
        self._show(self._end)
        if self._is_watched:
            sys.stderr.write("\n")

    def watch(self, requests: int) -> None:
        if self._is_watched:
            self._show(f"{requests:,} of {self._pages:,} pages")

    def ended(self, run: Run) -> Run:
        self._end = f"{run.distinct:,} pages at {run.pages_a_second:,.0f} a second"
        return run

    def _show(self, text: str) -> None:
        line = f"{self._title}: {text}"
        sys.stderr.write(f"\r\033[K{line}" if self._is_watched else f"{line}\n")
        sys.stderr.flush()


# --- Figures -------------------------------------------------------------------------------------


def _figures(runs: Mapping[str, Sequence[Run]], *, statements: Statements | None) -> dict[str, float]:
    """All figures by name, the most asked for last; each is the median of its runs."""
    figures: dict[str, float] = {}
    for name, done in runs.items():
        for kind in done[0].peak_mib:
            figures[f"peak MiB, {_title(name)}, {kind}"] = _median(run.peak_mib[kind] for run in done)
    for name, done in runs.items():
        for kind in done[0].cpu_ms_a_page:
            figures[f"CPU-ms a page, {_title(name)}, {kind}"] = _median(run.cpu_ms_a_page[kind] for run in done)
    for name, done in runs.items():
        figures[f"cores used by others, {_title(name)}"] = _median(run.others_cores for run in done)
    cpu = {name: _median(_without_site(run) for run in done) for name, done in runs.items()}
    rate = {name: _median(run.pages_a_second for run in done) for name, done in runs.items()}
    figures |= {f"CPU-ms a page, {_title(name)}": value for name, value in cpu.items()}
    figures |= {f"pages a second, {_title(name)}": value for name, value in rate.items()}
    if statements:
        figures["statements per 1,000 documents"] = 1000 * statements.calls / max(statements.run.distinct, 1)
    figures |= {f"CPU ratio to scrapy, {_title(name)}": _ratio(cpu[_SCRAPY], cpu[name]) for name in _OUTPUTS}
    figures |= {f"ratio to scrapy, {_title(name)}": _ratio(rate[name], rate[_SCRAPY]) for name in _OUTPUTS}
    return figures


def _without_site(run: Run) -> float:
    return sum(used for kind, used in run.cpu_ms_a_page.items() if kind != "site")


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _ratio(value: float, to: float) -> float:
    return value / to if to else 0.0


def _title(name: str) -> str:
    return name if name == _SCRAPY else f"{name} output"


def _in_words(value: float) -> str:
    """As many digits as mean something."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def _write(
    options: argparse.Namespace,
    *,
    runs: Mapping[str, Sequence[Run]],
    statements: Statements | None,
    figures: Mapping[str, float],
) -> None:
    facts: dict[str, Any] = {
        "pages": options.pages,
        "rounds": options.rounds,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "system": platform.platform(),
            "python": platform.python_version(),
            "scrapy": _version_of_scrapy(),
        },
        "figures": figures,
        "runs": {name: [dataclasses.asdict(run) for run in done] for name, done in runs.items()},
        "statements": dataclasses.asdict(statements) if statements else None,
    }
    target = ROOT / "var" / "bench.json"
    target.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _version_of_scrapy() -> str:
    command = [str(SCRAPY_PYTHON), "-c", "import scrapy; print(scrapy.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
