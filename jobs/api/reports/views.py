"""The views of reports, which return one page each. Reports about documents can also be downloaded as files."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Protocol

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from jobs.api.downloads import DownloadKind, Row, download
from jobs.api.reports.lines import (
    BusyLineSerializer,
    DocumentStatusSerializer,
    HistogramLineSerializer,
    HistoryLineSerializer,
    QueueLineSerializer,
    page_of,
)
from jobs.api.reports.parameters import (
    BusyQuery,
    DocumentsQuery,
    DocumentStatusQuery,
    HistogramQuery,
    QueueQuery,
    QueueStatusQuery,
    SimpleHistoryQuery,
    documents_of,
    history_of,
)
from jobs.partitions import this_partition
from jobs.partitions.merged import Silent
from jobs.queries.reports.all_partitions import (
    read_all_documents_everywhere,
    read_busiest_everywhere,
    read_documents_everywhere,
    read_histogram_everywhere,
    read_history_everywhere,
    read_queue_everywhere,
)
from jobs.queries.reports.busiest import BusyPage, Measure
from jobs.queries.reports.document_status import DocumentStatusPage
from jobs.queries.reports.each_partition import refuse_parts
from jobs.queries.reports.histogram import HistogramPage
from jobs.queries.reports.queue_status import QueuePage
from jobs.queries.reports.simple_history import HistoryPage
from nodes.api.base import ContractView
from nodes.api.paging import page_response
from nodes.api.strict import StrictSerializer, read_query

_CLASSES_IN_A_FILE: Final = 100_000
_KIND: Final = OpenApiParameter("kind", OpenApiTypes.STR, OpenApiParameter.PATH, enum=[*DownloadKind])


class Page(Protocol):
    """A page of any report."""

    @property
    def lines(self) -> Sequence[Any]: ...

    @property
    def next(self) -> str | None: ...

    @property
    def silent(self) -> Sequence[Silent]: ...


class ReportView(ContractView):
    """
    A report in pages. The address of the next page contains the moments that the query left out, so all pages cover the
    same time.
    """

    http_method_names = ["get", "head", "options"]
    query_class: ClassVar[type[StrictSerializer]]
    line_class: ClassVar[type[serializers.Serializer[Any]]]

    def read(self, query: dict[str, Any]) -> Page:
        raise NotImplementedError

    def get(self, request: Request) -> Response:
        query = read_query(self.query_class, request)
        page = self.read(query)
        address = None
        if page.next is not None:
            address = replace_query_param(request.build_absolute_uri(), "cursor", page.next)
            for name, value in query.items():
                if isinstance(value, dt.datetime):
                    address = replace_query_param(address, name, value.isoformat())
        response = page_response(self.line_class(page.lines, many=True).data, next_page=address)
        response.data |= {"partition": this_partition.only_name(), "silent": [one.name for one in page.silent]}
        return response


class HistoryReportView(ReportView):
    permissions_needed = {"get": "jobs.view_activity"}


class HistoryView(HistoryReportView):
    query_class = SimpleHistoryQuery
    line_class = HistoryLineSerializer

    @extend_schema(
        operation_id="report_history",
        description="List the activities of the history.",
        parameters=[SimpleHistoryQuery],
        responses=page_of(HistoryLineSerializer),
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    def read(self, query: dict[str, Any]) -> HistoryPage:
        return read_history_everywhere(
            history_of(query),
            sort=query["sort"],
            descending=query["order"] == "descending",
            limit=query["limit"],
            after=query.get("cursor"),
        )


class BusyView(HistoryReportView):
    query_class = BusyQuery
    line_class = BusyLineSerializer
    measure = Measure.EVENTS

    @extend_schema(
        operation_id="report_activity",
        description="Return the busiest interval of each class of identifiers, in each partition.",
        parameters=[BusyQuery],
        responses=page_of(BusyLineSerializer),
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    def read(self, query: dict[str, Any]) -> BusyPage:
        return read_busiest_everywhere(
            history_of(query),
            measure=self.measure,
            interval=dt.timedelta(seconds=query["interval"]),
            identifier_class=query["identifier_class"],
            limit=query["limit"],
            after=query.get("cursor"),
        )


class BandwidthView(BusyView):
    measure = Measure.BYTES

    @extend_schema(
        operation_id="report_bandwidth",
        description="Return the interval with the most bytes for each class of identifiers, in each partition.",
        parameters=[BusyQuery],
        responses=page_of(BusyLineSerializer),
    )
    def get(self, request: Request) -> Response:
        return super().get(request)


class HistogramView(HistoryReportView):
    query_class = HistogramQuery
    line_class = HistogramLineSerializer

    @extend_schema(
        operation_id="report_results",
        description="Count activities by class of identifiers and class of results.",
        parameters=[HistogramQuery],
        responses=page_of(HistogramLineSerializer),
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    def read(self, query: dict[str, Any]) -> HistogramPage:
        return read_histogram_everywhere(
            history_of(query),
            identifier_class=query["identifier_class"],
            result_class=query["result_class"],
            limit=query["limit"],
            after=query.get("cursor"),
        )


class DocumentStatusView(ReportView):
    permissions_needed = {"get": "jobs.view_queueitem"}
    query_class = DocumentStatusQuery
    line_class = DocumentStatusSerializer

    @extend_schema(
        operation_id="report_documents",
        description="List documents with their state and next step, ordered by key.",
        parameters=[DocumentStatusQuery],
        responses=page_of(DocumentStatusSerializer),
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    def read(self, query: dict[str, Any]) -> DocumentStatusPage:
        return read_documents_everywhere(documents_of(query), limit=query["limit"], after=query.get("cursor"))


class QueueStatusView(ReportView):
    permissions_needed = {"get": "jobs.view_queueitem"}
    query_class = QueueStatusQuery
    line_class = QueueLineSerializer

    @extend_schema(
        operation_id="report_queue",
        description="Count documents by status and class of identifiers. The counts are exact at this moment.",
        parameters=[QueueStatusQuery],
        responses=page_of(QueueLineSerializer),
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    def read(self, query: dict[str, Any]) -> QueuePage:
        return read_queue_everywhere(
            documents_of(query),
            identifier_class=query["identifier_class"],
            limit=query["limit"],
            after=query.get("cursor"),
        )


class DocumentDownloadView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_queueitem"}

    @extend_schema(
        operation_id="report_documents_file",
        description="Download the whole report. In CSV, an apostrophe precedes each cell that could be a formula.",
        parameters=[DocumentsQuery, _KIND],
        responses={(200, "text/csv"): OpenApiTypes.STR, (200, "application/json"): DocumentStatusSerializer(many=True)},
    )
    def get(self, request: Request, kind: DownloadKind) -> StreamingHttpResponse:
        query = read_query(DocumentsQuery, request)
        pages = read_all_documents_everywhere(documents_of(query))
        rows = (_rows(DocumentStatusSerializer, lines) for lines in pages)
        return download(rows, name="documents", kind=kind, now=query["now"])


class QueueDownloadView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_queueitem"}

    @extend_schema(
        operation_id="report_queue_file",
        description="Download the report, with at most 100,000 classes.",
        parameters=[QueueQuery, _KIND],
        responses={(200, "text/csv"): OpenApiTypes.STR, (200, "application/json"): QueueLineSerializer(many=True)},
    )
    def get(self, request: Request, kind: DownloadKind) -> StreamingHttpResponse:
        query = read_query(QueueQuery, request)
        page = read_queue_everywhere(
            documents_of(query),
            identifier_class=query["identifier_class"],
            limit=_CLASSES_IN_A_FILE,
            most_classes=_CLASSES_IN_A_FILE,
        )
        refuse_parts(page.silent)
        rows = iter([_rows(QueueLineSerializer, page.lines)])
        return download(rows, name="queue", kind=kind, now=query["now"])


def _rows(line: type[serializers.Serializer[Any]], lines: Sequence[Any]) -> Sequence[Row]:
    return list(line(lines, many=True).data)
