"""
Measures speed, CPU and memory as the work grows: `python -m tests.benchmarks.growth`.

The synthetic site is crawled in sizes of 10,000, 100,000 and 1,000,000 pages. Each crawl is a fresh `crawlctl crawl`
with two workers and the null output, on a fresh embedded database. The report shows pages a second, CPU per page by
kind of process, and the peak memory of each kind. The exit code is 1 if a run did not fetch every page. It is also 1 if
the processes of the largest run had more than 1.2 times the memory of the run before.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT
from tests.benchmarks.runs import Run, run_ours

_SIZES: Final = (10_000, 100_000, 1_000_000)
_MOST_MEMORY: Final = 1.2
# Kinds of processes whose memory crawlctl must bound. A database takes the memory that its settings allow.
_OURS: Final = ("manager", "workers")
_KINDS: Final = (*_OURS, "PostgreSQL")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="growth", description="Measure speed, CPU and memory as the work grows.")
    parser.add_argument("--pages", type=int, nargs="+", default=_SIZES, help="sizes of the site, in rising order")
    parser.add_argument("--plot", type=Path, help="write a picture of it (SVG) to this file")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(
        "| pages | pages a second | CPU-ms a page: manager, workers, PostgreSQL | peak MiB: manager, workers |\n"
    )
    sys.stdout.write("|---|---|---|---|\n")
    runs: dict[int, Run] = {}
    for pages in options.pages:
        with (
            tempfile.TemporaryDirectory(prefix="growth-", dir=home) as name,
            databases.embedded(Path(name)) as database,
        ):
            runs[pages] = run_ours(
                pages=pages, directory=Path(name), database=database, output="null", watch=lambda _requests: None
            )
        sys.stdout.write(_row(pages, runs[pages]))
        sys.stdout.flush()
    if options.plot:
        options.plot.write_text(_picture(runs), encoding="utf-8")
    defects = [f"{pages:,} pages: {defect}" for pages, run in runs.items() for defect in run.defects]
    defects += _too_much_memory(runs)
    for defect in defects:
        sys.stderr.write(f"{defect}\n")
    return int(bool(defects))


def _row(pages: int, run: Run) -> str:
    cpu = " + ".join(f"{run.cpu_ms_a_page[kind]:.2f}" for kind in _KINDS)
    memory = ", ".join(f"{run.peak_mib[kind]:.0f}" for kind in _OURS)
    return f"| {pages:,} | {run.pages_a_second:,.0f} | {cpu} = {_cpu(run):.2f} | {memory} |\n"


def _cpu(run: Run) -> float:
    return sum(run.cpu_ms_a_page[kind] for kind in _KINDS)


def _too_much_memory(runs: Mapping[int, Run]) -> list[str]:
    if len(runs) < 2:
        return []
    before, last = list(runs.values())[-2:]
    ratios = {kind: last.peak_mib[kind] / before.peak_mib[kind] for kind in _OURS}
    for kind, ratio in ratios.items():
        sys.stdout.write(f"memory of {kind}, the largest run to the one before: {ratio:.2f}\n")
    return [f"the memory of {kind} grew {ratio:.2f} times" for kind, ratio in ratios.items() if ratio > _MOST_MEMORY]


# --- The picture ---------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _MARGIN = 320, 180, 40


def _picture(runs: Mapping[int, Run]) -> str:
    """Return two plots side by side, with the sizes in equal steps."""
    speed = _plot("pages a second", {pages: run.pages_a_second for pages, run in runs.items()})
    cpu = _plot("CPU-ms a page", {pages: _cpu(run) for pages, run in runs.items()})
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{speed}'
        f'<g transform="translate({_WIDTH} 0)">\n{cpu}</g>\n</svg>\n'
    )


def _plot(title: str, values: Mapping[int, float]) -> str:
    top = 1.2 * max(values.values())
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(values) - 1)
    points = [
        (_MARGIN + step * place, _HEIGHT - _MARGIN - value / top * (_HEIGHT - 2 * _MARGIN), pages, value)
        for place, (pages, value) in enumerate(values.items())
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
    floor = _HEIGHT - _MARGIN
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#1f6feb"/>'
        f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{value:,.4g}</text>'
        f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{pages:,}</text>\n'
        for x, y, pages, value in points
    )
    return (
        f'<text x="{_WIDTH / 2}" y="18" text-anchor="middle" font-weight="bold">{title}</text>\n'
        f'<line x1="{_MARGIN}" y1="{floor}" x2="{_WIDTH - _MARGIN}" y2="{floor}" stroke="#999"/>\n'
        f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="2"/>\n{marks}'
    )


if __name__ == "__main__":
    sys.exit(main())
