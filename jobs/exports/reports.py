"""Reads the rows of exported reports: the same rows as on the pages, from all partitions."""

import datetime as dt
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from jobs.api.reports.parameters import documents_of, history_of
from jobs.exports.parts import Part, Query, Row, Type
from jobs.queries.reports.all_partitions import (
    read_busiest_everywhere,
    read_histogram_everywhere,
    read_queue_everywhere,
)
from jobs.queries.reports.busiest import BusyPage, Measure
from jobs.queries.reports.document_states import Status
from jobs.queries.reports.each_partition import refuse_parts
from jobs.queries.reports.histogram import HistogramPage
from jobs.queries.reports.queue_status import QueueLine, QueuePage

# Largest number of classes that each partition adds to the sums in a file.
_MOST_CLASSES: Final = 200_000

BUSY: Final = {
    "identifier_class": Type.TEXT,
    "began_at": Type.MOMENT,
    "ended_at": Type.MOMENT,
    "amount": Type.WHOLE,
    "per_minute": Type.NUMBER,
    "partition": Type.TEXT,
}
RESULTS: Final = {"identifier_class": Type.TEXT, "result_class": Type.TEXT, "amount": Type.WHOLE}
QUEUE: Final = {
    "identifier_class": Type.TEXT,
    "documents": Type.WHOLE,
    **{status.value: Type.WHOLE for status in Status},
}


def read_busy(query: Query, after: Any, limit: int, *, measure: Measure) -> Part:  # noqa: ANN401 (a cursor is JSON)
    """Return the busiest interval of each class of identifiers."""
    page = read_busiest_everywhere(
        history_of(dict(query)),
        measure=measure,
        interval=dt.timedelta(seconds=query["interval"]),
        identifier_class=query["identifier_class"],
        limit=limit,
        after=after,
    )
    return _whole(page, attrgetter(*BUSY))


def read_results(query: Query, after: Any, limit: int) -> Part:  # noqa: ANN401 (a cursor is JSON)
    """Return the number of activities by the classes of their identifiers and results."""
    page = read_histogram_everywhere(
        history_of(dict(query)),
        identifier_class=query["identifier_class"],
        result_class=query["result_class"],
        limit=limit,
        after=after,
        most_classes=_MOST_CLASSES,
    )
    return _whole(page, attrgetter(*RESULTS))


def read_queue(query: Query, after: Any, limit: int) -> Part:  # noqa: ANN401 (a cursor is JSON)
    """Return the number of documents in each status, by the class of their identifiers."""
    page = read_queue_everywhere(
        documents_of(dict(query)),
        identifier_class=query["identifier_class"],
        limit=limit,
        after=after,
        most_classes=_MOST_CLASSES,
    )
    return _whole(page, _queue)


def _queue(line: QueueLine) -> Row:
    return (line.identifier_class, line.documents, *(line.counts[status] for status in Status))


def _whole(page: BusyPage | HistogramPage | QueuePage, row: Callable[[Any], Row]) -> Part:
    """
    Return the rows of a page of a report, which must have the rows of all partitions.

    Raises:
        PartitionAway: a partition did not answer.
    """
    refuse_parts(page.silent)
    return Part([row(line) for line in page.lines], page.next)
