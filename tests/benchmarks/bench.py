"""
`make bench`: compares crawlctl with Scrapy, on one machine, in one run.

Both crawl the same synthetic sites, a small one and a large one, with 64 connections and no delay. Both have a queue
that survives a crash. The figures are pages a second by the site's own log, CPU by kind of process, and memory. Further
figures are the time until a search finds a new text, and the statements that a crawl sends to the database. In the same
run the fastest loop that we know how to write shows how much of the machine a crawler could use. docs/benchmarks.md
says how to read the figures.

Standard output ends with one line for each figure. `var/bench.json` holds the same and every single run. The exit code
is 1 if a crawler did not fetch every page, if a text was found too late, or if a goal was missed.
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
from tests.benchmarks.runs import SCRAPY_PYTHON, Run, Watch, run_ceiling, run_ours, run_scrapy

_SCRAPY, _CEILING = "scrapy", "ceiling"
# Goal of each output, as a multiple of Scrapy's pages a second.
_GOALS = {"null": 10.0, "jsonl": 6.0, "search": 3.0, "warc": 6.0}
# This is not an output, but the null output with a WARC archive.
_ARCHIVE = "warc"
# Least number of pages for a goal: the crawl of a smaller site is mostly its start.
_LEAST_PAGES_OF_A_GOAL = 10_000
_STATEMENTS_SHOWN = 40


@dataclasses.dataclass(frozen=True)
class Size:
    """A site and the number of its crawls. Figures are medians of the crawls."""

    pages: int
    rounds: int


# The runs of one size, by the name of the crawler.
_Runs = Mapping[str, Sequence[Run]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    (ROOT / "var" / "bench").mkdir(parents=True, exist_ok=True)
    # Scrapy takes nine minutes for the large site, so one run of it is enough.
    sizes = [Size(pages, options.rounds if pages == min(options.pages) else 1) for pages in sorted(options.pages)]
    runs = {size.pages: _run_all(size) for size in sizes}
    statements = _count_statements(pages=sizes[0].pages)
    figures = _figures(runs, statements=statements)
    _write(sizes, runs=runs, statements=statements, figures=figures)
    for name, value in figures.items():
        sys.stdout.write(f"{name}: {_in_words(value)}\n")
    complaints = [*_defects(runs, statements=statements), *_missed(figures, pages=sizes[0].pages)]
    for complaint in complaints:
        sys.stderr.write(f"{complaint}\n")
    return 1 if complaints else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure our crawler beside Scrapy.")
    parser.add_argument(
        "--pages", type=_at_least_one, nargs="+", default=[10_000, 100_000], help="pages of each site (%(default)s)"
    )
    parser.add_argument(
        "--rounds", type=_at_least_one, default=3, help="runs of each kind on the smallest site (%(default)s)"
    )
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: at least 1 is needed")
    return number


# --- Running -------------------------------------------------------------------------------------


def _run_all(size: Size) -> _Runs:
    runs: dict[str, list[Run]] = {name: [] for name in (_SCRAPY, _CEILING, *_GOALS)}
    for number in range(1, size.rounds + 1):
        for name, done in runs.items():
            title = f"{size.pages:,} pages, round {number} of {size.rounds}, {_title(name)}"
            with _Step(title, pages=size.pages) as step:
                done.append(step.ended(_run(name, pages=size.pages, watch=step.watch)))
    return runs


def _run(name: str, *, pages: int, watch: Watch) -> Run:
    with _directory() as directory:
        if name == _SCRAPY:
            return run_scrapy(pages=pages, directory=directory, watch=watch)
        output = f"jsonl:{directory / 'pages.jsonl'}" if name == "jsonl" else name
        with databases.embedded(directory) as database:
            if name == _CEILING:
                return run_ceiling(pages=pages, directory=directory, database=database, watch=watch)
            archive = _ARCHIVE if name == _ARCHIVE else ""
            output = "null" if archive else output
            return run_ours(
                pages=pages, directory=directory, database=database, output=output, archive=archive, watch=watch
            )


@dataclasses.dataclass(frozen=True)
class Statements:
    """The statements of a crawl without outputs. `top` holds (calls, total ms, text)."""

    run: Run
    calls: int
    top: list[tuple[int, float, str]]


def _count_statements(*, pages: int) -> Statements | None:
    """Count the statements of a run on Debian's PostgreSQL. Return None if that is not installed."""
    if not databases.has_statistics():
        sys.stderr.write("Debian's postgresql is not installed, so statements are not counted.\n")
        return None
    with (
        _Step("statements, on Debian's PostgreSQL", pages=pages) as step,
        _directory() as directory,
        databases.with_statistics(directory) as database,
    ):
        databases.forget_statements(database.address)
        run = run_ours(pages=pages, directory=directory, database=database, output="null", watch=step.watch)
        rows = databases.read_statements(database.address)
        step.ended(run)
    return Statements(run=run, calls=sum(row[0] for row in rows), top=rows[:_STATEMENTS_SHOWN])


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """Yield a directory for one run, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=ROOT / "var" / "bench") as name:
        yield Path(name)


class _Step:
    """Shows one run on standard error: a counting line on a terminal, otherwise one line at the end of the run."""

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


def _figures(runs: Mapping[int, _Runs], *, statements: Statements | None) -> dict[str, float]:
    """Return all figures by name, the most important last. Each is the median of its runs."""
    figures: dict[str, float] = {}
    rates: dict[tuple[str, int], float] = {}
    for pages, of_size in runs.items():
        for name, done in of_size.items():
            figures |= _figures_of(done, what=f"{_title(name)}, {pages:,} pages")
            rates[name, pages] = _median(run.pages_a_second for run in done)
    if statements:
        figures["statements per 1,000 documents"] = 1000 * statements.calls / max(statements.run.distinct, 1)
    for name in _GOALS:
        for pages, of_size in runs.items():
            saved = _ratio(_cpu(of_size[_SCRAPY]), _cpu(of_size[name]))
            figures[f"CPU of scrapy by CPU of ours, {_title(name)}, {pages:,} pages"] = saved
            times = _ratio(rates[name, pages], rates[_SCRAPY, pages])
            figures[f"times scrapy, {_title(name)}, {pages:,} pages"] = times
    for pages in runs:
        share = _ratio(rates["null", pages], rates[_CEILING, pages])
        figures[f"ratio to ceiling, {_title('null')}, {pages:,} pages"] = share
    # A goal applies to the smallest ratio of all sizes.
    return figures | {
        f"ratio to scrapy, {_title(name)}": min(_ratio(rates[name, pages], rates[_SCRAPY, pages]) for pages in runs)
        for name in _GOALS
    }


def _figures_of(done: Sequence[Run], *, what: str) -> dict[str, float]:
    figures = {f"peak MiB, {what}, {kind}": _median(run.peak_mib[kind] for run in done) for kind in done[0].peak_mib}
    for kind in done[0].cpu_ms_a_page:
        figures[f"CPU-ms a page, {what}, {kind}"] = _median(run.cpu_ms_a_page[kind] for run in done)
    figures[f"cores used by others, {what}"] = _median(run.others_cores for run in done)
    figures[f"CPU-ms a page, {what}"] = _cpu(done)
    if lags := [run.lag for run in done if run.lag is not None]:
        figures[f"seconds until a text is found, at most, {what}"] = max(lags)
    figures[f"pages a second, {what}"] = _median(run.pages_a_second for run in done)
    return figures


def _defects(runs: Mapping[int, _Runs], *, statements: Statements | None) -> list[str]:
    """Return the failures of single runs, in sentences."""
    all_runs = [(_title(name), done) for of_size in runs.values() for name, done in of_size.items()]
    all_runs += [("statements", [statements.run])] if statements else []
    return [f"{title}: {defect}" for title, done in all_runs for run in done for defect in run.defects]


def _missed(figures: Mapping[str, float], *, pages: int) -> list[str]:
    """Return the missed goals, in sentences."""
    if pages < _LEAST_PAGES_OF_A_GOAL:
        return []
    ratios = {name: figures[f"ratio to scrapy, {_title(name)}"] for name in _GOALS}
    return [
        f"{_title(name)}: {ratio:.2f} times Scrapy, and {_GOALS[name]:.0f} is the goal"
        for name, ratio in ratios.items()
        if ratio < _GOALS[name]
    ]


def _cpu(done: Sequence[Run]) -> float:
    return _median(_without_site(run) for run in done)


def _without_site(run: Run) -> float:
    return sum(used for kind, used in run.cpu_ms_a_page.items() if kind != "site")


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _ratio(value: float, to: float) -> float:
    return value / to if to else 0.0


def _title(name: str) -> str:
    if name == _ARCHIVE:
        return "null output with a WARC archive"
    return f"{name} output" if name in _GOALS else name


def _in_words(value: float) -> str:
    """Return the value with its significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _write(
    sizes: Sequence[Size],
    *,
    runs: Mapping[int, _Runs],
    statements: Statements | None,
    figures: Mapping[str, float],
) -> None:
    facts: dict[str, Any] = {
        "sizes": [dataclasses.asdict(size) for size in sizes],
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "system": platform.platform(),
            "python": platform.python_version(),
            "scrapy": _version_of_scrapy(),
        },
        "figures": figures,
        "runs": {
            pages: {name: [dataclasses.asdict(run) for run in done] for name, done in of_size.items()}
            for pages, of_size in runs.items()
        },
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
