"""The pages of reports. All of them use `_show`, which reads a report and handles the common errors."""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from jobs.partitions import this_partition
from jobs.partitions.merged import Silent
from jobs.queries.reports.all_partitions import (
    read_busiest_everywhere,
    read_documents_everywhere,
    read_histogram_everywhere,
    read_history_everywhere,
    read_queue_everywhere,
    read_timeline_everywhere,
)
from jobs.queries.reports.busiest import Measure
from jobs.queries.reports.document_states import Status
from jobs.queries.reports.execution import BadPattern, BadPosition
from jobs.ui.partitions_views import silent_partitions
from jobs.ui.reports import screens
from jobs.ui.reports.forms import (
    BusyForm,
    DocumentsForm,
    HistogramForm,
    HistoryForm,
    QueueForm,
    ReportForm,
    SimpleHistoryForm,
)
from jobs.ui.reports.screens import Cell, Chart
from jobs.words.reports import STATUSES
from nodes.database.clock import read_clock
from nodes.errors import TooSlow

_LINES_A_PAGE: Final = 50
_STEPS: Final = 60

_REPORTS: Final = {
    "report-history": gettext_lazy("Simple history"),
    "report-activity": gettext_lazy("Maximum activity"),
    "report-bandwidth": gettext_lazy("Maximum bandwidth"),
    "report-results": gettext_lazy("Result histogram"),
    "report-documents": gettext_lazy("Document status"),
    "report-queue": gettext_lazy("Queue status"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """
    The head of a column. A sortable column has an `address`. The column by which the table is sorted has a direction.
    """

    label: str
    kind: str = ""
    address: str = ""
    sorted: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The result of a report. `next` is the position after its last row."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]] = ()
    chart: Chart | None = None
    next: str | None = None
    # Parameters that give the next page the same period.
    pinned: Mapping[str, str] = field(default_factory=dict)
    silent: Sequence[Silent] = ()


_Form = TypeVar("_Form", bound=ReportForm)


def _page(view: Callable[..., HttpResponse], *, permission: str) -> Callable[..., HttpResponseBase]:
    return login_required(permission_required(permission, raise_exception=True)(require_safe(view)))


def _of_history(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
    return _page(view, permission="jobs.view_activity")


def _of_documents(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
    return _page(view, permission="jobs.view_queueitem")


@_of_history
def reports(request: HttpRequest) -> HttpResponse:
    return redirect("report-history")


@_of_history
def history(request: HttpRequest) -> HttpResponse:
    def read(form: SimpleHistoryForm, *, now: dt.datetime) -> Table:
        wanted = form.as_filter(now=now)
        sort, descending = form.cleaned_data["sort"] or "start", form.cleaned_data["order"] != "ascending"
        found = read_history_everywhere(
            wanted, sort=sort, descending=descending, limit=_LINES_A_PAGE, after=form.cleaned_data["after"]
        )
        timeline = read_timeline_everywhere(wanted, steps=_STEPS)
        return Table(
            columns=_history_columns(form, sort=sort, descending=descending),
            rows=[[*screens.history_row(line, now=now), *_partition_cell(line.partition)] for line in found.lines],
            chart=screens.timeline_chart(timeline),
            next=found.next,
            pinned=_pin(form, now=now),
            silent=found.silent,
        )

    return _show(request, SimpleHistoryForm, read)


@_of_history
def activity(request: HttpRequest) -> HttpResponse:
    return _show_busiest(request, Measure.EVENTS, _("Peak per minute"), _("Minute"))


@_of_history
def bandwidth(request: HttpRequest) -> HttpResponse:
    return _show_busiest(request, Measure.BYTES, _("Peak per minute"), _("Minute"))


@_of_history
def results(request: HttpRequest) -> HttpResponse:
    columns = [Column(_("Identifiers")), Column(_("Result")), Column(_("Times"), "n")]

    def read(form: HistogramForm, *, now: dt.datetime) -> Table:
        found = read_histogram_everywhere(
            form.as_filter(now=now),
            identifier_class=form.cleaned_data["identifier_class"],
            result_class=form.cleaned_data["result_class"],
            limit=_LINES_A_PAGE,
            after=form.cleaned_data["after"],
        )
        rows = [screens.histogram_row(line) for line in found.lines]
        chart = screens.histogram_chart(found.lines)
        return Table(columns, rows, chart, found.next, _pin(form, now=now), found.silent)

    return _show(request, HistogramForm, read)


@_of_documents
def documents(request: HttpRequest) -> HttpResponse:
    columns = [
        Column(_("Identifier")),
        Column(_("Job")),
        Column(_("State")),
        Column(_("Status")),
        Column(_("Scheduled")),
        Column(_("Action")),
        Column(_("Retries"), "n"),
        Column(_("Failing since")),
        *_partition_column(),
    ]

    def read(form: DocumentsForm, *, now: dt.datetime) -> Table:
        wanted = form.as_filter(now=now)
        found = read_documents_everywhere(wanted, limit=_LINES_A_PAGE, after=form.cleaned_data["after"])
        rows = [[*screens.document_row(line, now=now), *_partition_cell(line.partition)] for line in found.lines]
        return Table(columns, rows, None, found.next, {"now": wanted.now.isoformat()}, found.silent)

    return _show(request, DocumentsForm, read, files="api:report-documents-download")


@_of_documents
def queue(request: HttpRequest) -> HttpResponse:
    counts = [Column(str(STATUSES[status]), "n") for status in Status]
    columns = [Column(_("Identifiers")), Column(_("Documents"), "n"), *counts]

    def read(form: QueueForm, *, now: dt.datetime) -> Table:
        wanted = form.as_filter(now=now)
        found = read_queue_everywhere(
            wanted,
            identifier_class=form.cleaned_data["identifier_class"],
            limit=_LINES_A_PAGE,
            after=form.cleaned_data["after"],
        )
        rows = [screens.queue_row(line) for line in found.lines]
        pinned = {"now": wanted.now.isoformat()}
        return Table(columns, rows, screens.queue_chart(found.lines), found.next, pinned, found.silent)

    return _show(request, QueueForm, read, files="api:report-queue-download")


def _show_busiest(request: HttpRequest, measure: Measure, *labels: str) -> HttpResponse:
    amounts = [Column(label, "n") for label in labels]
    columns = [Column(_("Identifiers")), Column(_("From")), Column(_("Until")), *amounts, *_partition_column()]

    def read(form: BusyForm, *, now: dt.datetime) -> Table:
        found = read_busiest_everywhere(
            form.as_filter(now=now),
            measure=measure,
            interval=form.interval_asked,
            identifier_class=form.cleaned_data["identifier_class"],
            limit=_LINES_A_PAGE,
            after=form.cleaned_data["after"],
        )
        rows = [
            [*screens.busy_row(line, measure=measure, now=now), *_partition_cell(line.partition)]
            for line in found.lines
        ]
        chart = screens.busy_chart(found.lines, measure=measure)
        return Table(columns, rows, chart, found.next, _pin(form, now=now), found.silent)

    return _show(request, BusyForm, read)


def _show(request: HttpRequest, kind: type[_Form], read: Callable[..., Table], *, files: str = "") -> HttpResponse:
    """Show the report that the form requests, or an expected problem of it."""
    form = kind(request.GET)
    table, problem = None, ""
    if form.is_valid():
        try:
            table = read(form, now=read_clock())
        except BadPattern as bad:
            form.add_error(bad.field, str(bad))
        except (BadPosition, TooSlow) as refused:
            problem = str(refused)
    name = request.resolver_match.url_name if request.resolver_match else ""
    context = {
        "title": _REPORTS[name or ""],
        "tabs": [
            {"label": label, "address": reverse(page), "is_shown": page == name} for page, label in _REPORTS.items()
        ],
        "form": form,
        "problem": problem,
        "silent": silent_partitions(table.silent, now=read_clock()) if table else [],
        "table": table,
        "rows": [_labelled(table.columns, row) for row in table.rows] if table else [],
        "chart": json.dumps(table.chart) if table and table.chart and table.rows else "",
        "next_query": form.as_query(**table.pinned, after=table.next) if table and table.next else "",
        "first_query": form.as_query() if form.data.get("after") else "",
        "files": _files(files, form) if files and table else [],
        "export": _export(name or "", form) if form.is_valid() else "",
    }
    return render(request, "ui/report.html", context)


def _labelled(columns: Sequence[Column], row: Sequence[Cell]) -> list[tuple[str, Cell]]:
    """Return each cell with the head of its column. On a phone, the head is shown above the cell."""
    return [(column.label, cell) for column, cell in zip(columns, row, strict=True)]


def _files(name: str, form: ReportForm) -> list[tuple[str, str]]:
    return [(kind.upper(), f"{reverse(name, args=[kind])}?{form.as_query()}") for kind in ("csv", "json")]


def _export(name: str, form: ReportForm) -> str:
    """Return the address of an export of the same report, with its filter as in the API."""
    what = name.removeprefix("report-")
    return f"{reverse('export-new')}?{urlencode({'what': what, 'filter': json.dumps(form.as_api_filter(now=read_clock()))})}"


def _pin(form: HistoryForm, *, now: dt.datetime) -> dict[str, str]:
    wanted = form.as_filter(now=now)
    return {"since": wanted.since.isoformat(), "until": wanted.until.isoformat(), "last": ""}


def _history_columns(form: SimpleHistoryForm, *, sort: str, descending: bool) -> list[Column]:
    columns = []
    for name, kind, label in screens.HISTORY_COLUMNS:
        is_sorted = name == sort
        turned = "ascending" if is_sorted and descending else "descending"
        columns.append(
            Column(
                label=str(label),
                kind=kind,
                address=f"?{form.as_query(sort=name, order=turned)}" if name else "",
                sorted=("descending" if descending else "ascending") if is_sorted else "",
            )
        )
    return [*columns, *_partition_column()]


def _partition_column() -> list[Column]:
    """
    Return the column with the partition of each row. Only the control partition of several partitions has this column.
    """
    return [Column(_("Partition"))] if this_partition.control_name() else []


def _partition_cell(name: str) -> list[Cell]:
    control = this_partition.control_name()
    return [{"text": name or control}] if control else []
