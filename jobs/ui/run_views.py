"""The page of a run, and the comparison of two runs of a job."""

import datetime as dt
from collections.abc import Callable, Collection
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from jobs.models import Run
from jobs.queries.jobs.run import Comparison, RunEvent, RunPage, compare_runs, read_run_page
from jobs.queries.jobs.runs import RunLine
from jobs.state.run_rows import KEPT
from jobs.state.run_samples import SAMPLES_KEPT
from jobs.ui.compared_documents import compared_documents
from jobs.ui.pages import page
from jobs.ui.partitions_views import at_least
from jobs.ui.runs_views import run_row
from jobs.ui.version_rows import version_rows
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.translated_words import as_label

_NODES_SHOWN: Final = 20
_COUNTS: Final = {
    "processed": gettext_lazy("Processed"),
    "indexed": gettext_lazy("Indexed"),
    "unchanged": gettext_lazy("Unchanged"),
    "failed": gettext_lazy("Failed"),
    "excluded": gettext_lazy("Excluded"),
    "deleted": gettext_lazy("Removed"),
}


class ComparisonForm(forms.Form):
    """Two runs, as parameters of the address."""

    earlier = forms.IntegerField(min_value=1, max_value=2**63 - 1)
    later = forms.IntegerField(min_value=1, max_value=2**63 - 1)


@page
@require_safe
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show a run: its counts, its events, and other runs of its job for a comparison."""
    now = read_clock()
    found = read_run_page(run_id)
    line = found.line
    others = Run.objects.filter(job_id=line.job_id).exclude(pk=run_id).order_by("-run_no").values_list("pk", "run_no")
    context = {
        "row": run_row(line, now=now),
        "found": found,
        "at_least": at_least(line.silent, now=now),
        "counts": [(label, _number(line, name), name) for name, label in _COUNTS.items()],
        "size": formats.size(line.counts.bytes),
        "rate": formats.rate(_rate(line, now=now)),
        "events": _events(found, now=now),
        "others": others[:KEPT],
    }
    return render(request, "ui/run.html", context)


@page
@require_safe
def comparison(request: HttpRequest) -> HttpResponse:
    """Compare two runs of a job."""
    now = read_clock()
    form = ComparisonForm(request.GET)
    problem = _("Choose two runs of the same job, on the page of one of these runs.")
    if form.is_valid():
        try:
            found = compare_runs(form.cleaned_data["earlier"], form.cleaned_data["later"])
        except Invalid as invalid:
            problem = str(invalid)
        else:
            return render(request, "ui/run_comparison.html", _compared(found, now=now))
    return render(request, "ui/run_comparison.html", {"problem": problem}, status=400)


def _compared(found: Comparison, *, now: dt.datetime) -> dict[str, Any]:
    earlier, later = found.earlier, found.later
    return {
        "earlier": run_row(earlier, now=now),
        "later": run_row(later, now=now),
        "at_least": at_least(earlier.silent or later.silent, now=now),
        "rows": [
            *(
                _row(str(label), _count(earlier, name), _count(later, name), formats.number)
                for name, label in _COUNTS.items()
            ),
            _row(_("Read"), earlier.counts.bytes, later.counts.bytes, formats.size),
            _row(_("Seconds"), _seconds(earlier, now=now), _seconds(later, now=now), formats.number),
            _row(_("Documents per second"), _rate(earlier, now=now), _rate(later, now=now), formats.rate),
            *_rows_of_nodes(found),
        ],
        "nodes": _nodes(found),
        "nodes_missing": ", ".join(found.nodes_missing),
        "is_open": earlier.ended_at is None or later.ended_at is None,
        "documents": compared_documents(found.documents, job_id=later.job_id, now=now) if found.documents else None,
        "samples_kept": SAMPLES_KEPT,
        "changes": [_event(event, now=now) for event in found.changes],
        "versions": version_rows(found.versions, now=now),
        "is_complete": found.is_complete,
    }


def _rows_of_nodes(found: Comparison) -> list[Record]:
    earlier, later = found.earlier_nodes, found.later_nodes
    if earlier is None or later is None:
        return []
    return [
        _row(_("Managers"), len(earlier.managers), len(later.managers), formats.number),
        _row(_("Workers"), len(earlier.workers), len(later.workers), formats.number),
    ]


def _nodes(found: Comparison) -> dict[str, str] | None:
    """Return the names of the nodes that only one of the runs had; None if the nodes of a run are not known."""
    if found.earlier_nodes is None or found.later_nodes is None:
        return None
    earlier, later = ({*nodes.managers, *nodes.workers} for nodes in (found.earlier_nodes, found.later_nodes))
    return {"earlier": _names(earlier - later), "later": _names(later - earlier)}


def _names(nodes: Collection[str]) -> str:
    """Return the first names in alphabetical order, and the number of further names."""
    shown = ", ".join(sorted(nodes)[:_NODES_SHOWN])
    return " ".join(filter(None, (shown, formats.more(len(nodes) - _NODES_SHOWN))))


def _row(label: str, earlier: float, later: float, written: Callable[[Any], str]) -> Record:
    change = later - earlier
    sign = "+" if change > 0 else "-" if change < 0 else ""
    return {
        "label": label,
        "earlier": written(earlier),
        "later": written(later),
        "change": f"{sign}{written(abs(change))}" if change else "=",
        "share": f"{sign}{100 * abs(change) / earlier:.0f} %" if change and earlier else "",
    }


def _count(line: RunLine, name: str) -> int:
    return int(getattr(line.counts, name))


def _number(line: RunLine, name: str) -> str:
    return formats.number(_count(line, name))


def _seconds(line: RunLine, *, now: dt.datetime) -> int:
    return round(((line.ended_at or now) - line.started_at).total_seconds())


def _rate(line: RunLine, *, now: dt.datetime) -> float:
    return line.counts.processed / max(1, _seconds(line, now=now))


def _events(found: RunPage, *, now: dt.datetime) -> list[Record]:
    return [_event(event, now=now) for event in found.events]


def _event(event: RunEvent, *, now: dt.datetime) -> Record:
    return {
        "key": event.id,
        "at": formats.moment(event.at, now=now),
        "message": as_label(event.message),
        "who": event.made_by,
        "to": as_label(event.to) if event.to != "-" else "",
    }
