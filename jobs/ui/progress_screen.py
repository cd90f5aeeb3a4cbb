"""The charts of the progress, each with the numbers of its table; see `nodes.web.screens` for the structure."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.queries.progress import SPANS, Step
from nodes.web import formats
from nodes.web.screens import Record

# Width and height of the charts, in units of SVG. The style sheet stretches the charts.
_WIDTH: Final = 300
_HEIGHT: Final = 60
# Age at which a step has nearly all of its documents (seconds).
_COUNTED_AFTER: Final = 60.0
# The states in the stacked chart, from the lowest area to the highest one. Each is also the tone of its area.
STACKED: Final = ("indexed", "unchanged", "excluded", "failed", "active", "waiting")

SPAN_NAMES: Final = {
    "5min": gettext_lazy("5 minutes"),
    "1h": gettext_lazy("1 hour"),
    "24h": gettext_lazy("24 hours"),
    "7d": gettext_lazy("7 days"),
    "30d": gettext_lazy("30 days"),
}
assert SPAN_NAMES.keys() == SPANS.keys()


def progress_screen(steps: Sequence[Step], *, now: dt.datetime) -> Record:
    """Return the charts of a span and the rows of their table: documents and bytes a second, and documents by state."""
    documents, read = _rates(steps, "documents"), _rates(steps, "bytes")
    seconds = sum(step.seconds for step in steps)
    return {
        "documents_line": _line(documents),
        "documents_area": _area(documents),
        "documents_in_span": formats.number(sum(step.documents for step in steps)),
        "documents_says": _("documents: %(mean)s a second on average, at most %(peak)s")
        % {
            "mean": formats.rate(sum(step.documents for step in steps) / seconds),
            "peak": formats.rate(max(documents)),
        },
        "bytes_line": _line(read),
        "bytes_area": _area(read),
        "bytes_in_span": formats.size(sum(step.bytes for step in steps)),
        "bytes_says": _("read: %(mean)s a second on average, at most %(peak)s")
        % {
            "mean": formats.size(round(sum(step.bytes for step in steps) / seconds)),
            "peak": formats.size(round(max(read))),
        },
        "states_says": _states_in_words(steps),
        **_stack(steps),
        "progress": [_row(step, now=now) for step in reversed(steps)],
    }


def _rates(steps: Sequence[Step], name: str) -> Sequence[float]:
    """
    Return the amount of this name (documents, bytes) per second in each step, but for a present step below a minute.

    Workers report with a delay of some seconds, so even for a steady crawl the line would drop at a short step. The
    previous step contains it if this makes the previous rate higher. So the line shows a crawl that began just now, and
    no mean of the span is above the peak.
    """
    rates = [getattr(step, name) / step.seconds for step in steps]
    previous, present = steps[-2:]
    if present.seconds >= _COUNTED_AFTER:
        return rates
    of_both = (getattr(previous, name) + getattr(present, name)) / (previous.seconds + present.seconds)
    return [*rates[:-2], max(rates[-2], of_both)]


def _row(step: Step, *, now: dt.datetime) -> Record:
    states = {name: formats.number(getattr(step.states, name)) for name in STACKED}
    return {
        "key": f"{step.at.timestamp():.0f}",
        "at": formats.moment(step.at, now=now),
        "documents": formats.rate(step.documents_per_second),
        "read": formats.size(round(step.bytes_per_second)),
        "requests": formats.rate(step.requests / step.seconds),
        **{f"of_{name}": text for name, text in states.items()},
    }


def _height(step: Step) -> int:
    return sum(getattr(step.states, name) for name in STACKED)


def _x(place: int, count: int) -> float:
    return place * _WIDTH / max(1, count - 1)


def _line(values: Sequence[float]) -> str:
    peak = max(values, default=0.0)
    scale = (_HEIGHT - 2) / peak if peak else 0.0
    return " ".join(
        f"{_x(place, len(values)):.1f},{_HEIGHT - 1 - value * scale:.1f}" for place, value in enumerate(values)
    )


def _area(values: Sequence[float]) -> str:
    return f"0,{_HEIGHT} {_line(values)} {_WIDTH},{_HEIGHT}"


def _stack(steps: Sequence[Step]) -> dict[str, str]:
    """Return a polygon for each state. Each polygon lies on top of the previous one."""
    peak = max((_height(step) for step in steps), default=0)
    scale = (_HEIGHT - 1) / peak if peak else 0.0
    below = [0.0] * len(steps)
    shapes = {}
    for name in STACKED:
        above = [low + getattr(step.states, name) * scale for low, step in zip(below, steps, strict=True)]
        edge = [f"{_x(place, len(steps)):.1f},{_HEIGHT - high:.1f}" for place, high in enumerate(above)]
        back = [f"{_x(place, len(steps)):.1f},{_HEIGHT - low:.1f}" for place, low in enumerate(below)]
        shapes[f"stack_{name}"] = " ".join([*edge, *reversed(back)])
        below = above
    return shapes


def _states_in_words(steps: Sequence[Step]) -> str:
    peak = max(_height(step) for step in steps)
    if not peak:
        return _("states of documents: no data, because no job was running at the end of a minute")
    return _("at most %(peak)s documents of running jobs") % {"peak": formats.number(peak)}
