"""docs/metrics.md, generated from the metrics: `python -m jobs.metrics.manual`."""

from pathlib import Path
from typing import Final

from jobs.metrics.table import SECTIONS
from nodes.metrics.kinds import Counter, Gauge, Histogram, Metric

MANUAL: Final = Path("docs/metrics.md")
BEGIN: Final = "<!-- The metrics, printed by `python -m jobs.metrics.manual`: begin -->\n"
END: Final = "<!-- The metrics: end -->\n"


def tables() -> str:
    """Return the metrics as tables in Markdown, under their headings."""
    return "\n".join(
        f"### {heading}\n\n| metric | kind | labels | shown by | meaning |\n|---|---|---|---|---|\n"
        + "".join(_row(metric) for metric in metrics)
        for heading, metrics in SECTIONS.items()
    )


def rewritten(manual: str) -> str:
    """Return the manual with the present tables in their place."""
    before, _begin, rest = manual.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}{END}{after}"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    shown_by = ", ".join(sorted(metric.shown_by))
    return f"| `{metric.name}` | {_kind(metric)} | {labels} | {shown_by} | {metric.meaning} |\n"


def _kind(metric: Metric) -> str:
    match metric:
        case Counter():
            return "counter"
        case Gauge():
            return "gauge"
        case Histogram():
            return "histogram"


if __name__ == "__main__":
    MANUAL.write_text(rewritten(MANUAL.read_text()))
