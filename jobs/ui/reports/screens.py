"""
Reports as tables and charts.

A table is columns and rows of cells. A chart is the input of `static/js/chart.js`: series of numbers over labels. Both
show the same lines. The timeline of the simple history is an exception: it covers the rows of all pages.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.lifecycle.document import Action
from jobs.queries.reports.busiest import BusyLine, Measure
from jobs.queries.reports.document_states import Status
from jobs.queries.reports.document_status import DocumentStatusLine
from jobs.queries.reports.histogram import HistogramLine
from jobs.queries.reports.queue_status import QueueLine
from jobs.queries.reports.simple_history import HistoryLine, Timeline
from jobs.verdicts.results import class_of
from jobs.words.codes import explain_code
from jobs.words.reports import STATES, STATUS_TONES, STATUSES, activity_tone, status_tone
from nodes.web import formats

Cell = Mapping[str, str]
Chart = Mapping[str, Any]

# Largest number of classes in a chart.
_CLASSES_DRAWN: Final = 20


def _cell(text: str, **more: str) -> Cell:
    return {"text": text, **more}


def _number(value: int | None) -> Cell:
    return _cell(formats.UNKNOWN if value is None else formats.number(value), kind="n")


def _named(identifier_class: str) -> str:
    return identifier_class or _("(all)")


# --- The history ---------------------------------------------------------------------------------

HISTORY_COLUMNS: Final = (
    ("start", "", gettext_lazy("Start")),
    ("activity", "", gettext_lazy("Activity")),
    ("identifier", "", gettext_lazy("Identifier")),
    ("code", "", gettext_lazy("Result")),
    ("bytes", "n", gettext_lazy("Bytes")),
    ("seconds", "n", gettext_lazy("Time")),
    ("", "", gettext_lazy("Node")),
    ("", "", gettext_lazy("Description")),
)


def history_row(line: HistoryLine, *, now: dt.datetime) -> list[Cell]:
    took = (
        formats.UNKNOWN if line.seconds is None else _("%(ms)s ms") % {"ms": formats.number(round(1000 * line.seconds))}
    )
    return [
        _cell(formats.moment(line.started_at, now=now), kind="when", title=line.started_at.isoformat()),
        _cell(line.activity),
        _cell(line.identifier, kind="title address"),
        _cell(line.result_code, tone=class_of(line.result_code), title=explain_code(line.result_code)),
        _number(line.bytes),
        _cell(took, kind="n"),
        _cell(line.node),
        _cell(line.result_description, kind="long address"),
    ]


def timeline_chart(timeline: Timeline) -> Chart:
    moments = [
        timeline.since + number * timeline.step for number in range(max(map(len, timeline.counts.values()), default=0))
    ]
    # The labels have the date, also for moments of today, because the chart may show several days.
    form = "%Y-%m-%d %H:%M:%S" if timeline.step < dt.timedelta(minutes=1) else "%Y-%m-%d %H:%M"
    return {
        "labels": [moment.strftime(form) for moment in moments],
        "series": [
            {"label": name, "values": list(counts), "tone": activity_tone(name)}
            for name, counts in timeline.counts.items()
        ],
        "stacked": True,
    }


def busy_row(line: BusyLine, *, measure: Measure, now: dt.datetime) -> list[Cell]:
    amount = formats.number(line.amount) if measure == Measure.EVENTS else formats.size(line.amount)
    pace = f"{line.per_minute:,.1f}" if measure == Measure.EVENTS else formats.size(round(line.per_minute))
    return [
        _cell(_named(line.identifier_class), kind="title address"),
        _cell(formats.moment(line.began_at, now=now), kind="when"),
        _cell(formats.moment(line.ended_at, now=now), kind="when"),
        _cell(amount, kind="n"),
        _cell(pace, kind="n"),
    ]


def busy_chart(lines: Sequence[BusyLine], *, measure: Measure) -> Chart:
    shown = lines[:_CLASSES_DRAWN]
    label = _("Peak per minute") if measure == Measure.EVENTS else _("Peak bytes per minute")
    return {
        "labels": [_named(line.identifier_class) for line in shown],
        "series": [{"label": label, "values": [line.per_minute for line in shown]}],
        "horizontal": True,
    }


def histogram_row(line: HistogramLine) -> list[Cell]:
    return [
        _cell(_named(line.identifier_class), kind="title address"),
        _cell(
            line.result_class or formats.UNKNOWN,
            tone=class_of(line.result_class),
            title=explain_code(line.result_class),
        ),
        _number(line.amount),
    ]


def histogram_chart(lines: Sequence[HistogramLine]) -> Chart:
    classes = list(dict.fromkeys(line.identifier_class for line in lines))[:_CLASSES_DRAWN]
    results = list(dict.fromkeys(line.result_class for line in lines))
    amounts = {(line.identifier_class, line.result_class): line.amount for line in lines}
    return {
        "labels": [_named(name) for name in classes],
        "series": [
            {
                "label": result or formats.UNKNOWN,
                "values": [amounts.get((name, result), 0) for name in classes],
                "tone": class_of(result),
            }
            for result in results
        ],
        "horizontal": True,
        "stacked": True,
    }


# --- Documents -----------------------------------------------------------------------------------


def document_row(line: DocumentStatusLine, *, now: dt.datetime) -> list[Cell]:
    action = {Action.PROCESS: _("process"), Action.EXPIRE: _("expire")}
    return [
        _cell(line.identifier, kind="title address", address=reverse("document", args=[line.job_id, line.hash])),
        _cell(line.job, address=reverse("job", args=[line.job_id])),
        _cell(str(STATES[line.state])),
        _cell(str(STATUSES[line.status]), pill=status_tone(line.status, line.result_code)),
        _cell(formats.moment(line.scheduled_at, now=now) if line.scheduled_at else "", kind="when"),
        _cell(action[line.action] if line.action is not None else ""),
        _cell(_retries(line), kind="n"),
        _cell(_failing(line, now=now)),
    ]


def _retries(line: DocumentStatusLine) -> str:
    if not line.retry_count:
        return ""
    if line.retry_limit is None:
        return formats.number(line.retry_count)
    return _("%(n)d of %(most)d") % {"n": line.retry_count, "most": line.retry_limit}


def _failing(line: DocumentStatusLine, *, now: dt.datetime) -> str:
    since = formats.age(line.failing_since, now=now) if line.failing_since else ""
    if line.retry_until is None:
        return since
    return _("%(since)s, until %(until)s") % {"since": since, "until": formats.moment(line.retry_until, now=now)}


def queue_row(line: QueueLine) -> list[Cell]:
    return [
        _cell(_named(line.identifier_class), kind="title address"),
        _number(line.documents),
        *(_number(line.counts[status]) for status in Status),
    ]


def queue_chart(lines: Sequence[QueueLine]) -> Chart:
    shown = lines[:_CLASSES_DRAWN]
    present = [status for status in Status if any(line.counts[status] for line in shown)]
    return {
        "labels": [_named(line.identifier_class) for line in shown],
        "series": [
            {
                "label": str(STATUSES[status]),
                "values": [line.counts[status] for line in shown],
                "tone": STATUS_TONES[status],
            }
            for status in present
        ],
        "horizontal": True,
        "stacked": True,
    }
