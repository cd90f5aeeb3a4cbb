"""The contents of exports: documents, the history, and each report, with typed columns."""

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from jobs.api.reports.parameters import (
    BusyQuery,
    DocumentsQuery,
    HistogramQuery,
    HistoryQuery,
    QueueQuery,
    documents_of,
    history_of,
)
from jobs.exports.parts import Part, Query, Row, Type
from jobs.exports.reports import BUSY, QUEUE, RESULTS, read_busy, read_queue, read_results
from jobs.lifecycle.document import Action
from jobs.partitions import this_partition
from jobs.queries.reports.busiest import Measure
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_status import DocumentStatusLine
from jobs.queries.reports.each_partition import read_in
from jobs.queries.reports.execution import run_report
from jobs.queries.reports.history_filter import HistoryFilter
from jobs.queries.reports.simple_history import HistoryLine, read_simple_history
from jobs.queries.reports.whole_documents import count_documents, read_part, result_of
from jobs.queue.address_index import GRAM
from jobs.queue.sql.chosen_states import NAMES
from nodes.api.strict import StrictSerializer
from nodes.errors import Invalid

_MOST_NAMED: Final = 1_000

F = TypeVar("F", HistoryFilter, StatusFilter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    A content of exports.

    `permission` is the permission that the page with the same content requires. `form` checks the filter. `read`
    returns the rows after a cursor. `count` returns their number, if that is cheap.
    """

    name: str
    title: Promise
    permission: str
    form: type[StrictSerializer]
    columns: Mapping[str, Type]
    read: Callable[[Query, Any, int], Part]
    count: Callable[[Query], int] | None = None


class _HistoryForm(HistoryQuery):
    limit = cursor = None  # type: ignore[assignment]


class _BusyForm(BusyQuery):
    limit = cursor = None  # type: ignore[assignment]


class _HistogramForm(HistogramQuery):
    limit = cursor = None  # type: ignore[assignment]


class _DocumentsForm(DocumentsQuery):
    """Filter of documents, with the fields of the report and of the list of documents."""

    host = serializers.CharField(max_length=300, required=False)
    code = serializers.ListField(child=serializers.CharField(max_length=30), max_length=_MOST_NAMED, required=False)
    listed_state = serializers.ChoiceField(NAMES, required=False)
    contains = serializers.CharField(min_length=GRAM, max_length=1_000, required=False)
    documents = serializers.ListField(
        child=serializers.RegexField(r"^[0-9a-f]{32}\Z"), max_length=_MOST_NAMED, required=False
    )


def find(name: object) -> Source:
    """
    Return the source of this name.

    Raises:
        Invalid: no source has this name.
    """
    if isinstance(name, str) and name in SOURCES:
        return SOURCES[name]
    raise Invalid({"what": [f"Unknown content. Choose one of {', '.join(SOURCES)}."]})


def read_filter(source: Source, given: object) -> tuple[dict[str, Any], Query]:
    """
    Return a filter as JSON, with a value for each moment that it may name, and the checked values of the filter.

    Raises:
        Invalid: a field of the filter is unknown or invalid.
    """
    if not isinstance(given, Mapping):
        raise Invalid({"filter": ["A filter is an object."]})
    form = source.form(data=given)
    if not form.is_valid():
        raise Invalid({_below(str(name)): _sentences(found) for name, found in form.errors.items()})
    query = dict(form.validated_data)
    stored = {
        name: value.isoformat()
        if isinstance(value, dt.datetime)
        else [str(one) for one in value]
        if _has_words(value)
        else value
        for name, value in query.items()
    }
    if "\0" in str(stored):
        raise Invalid({"filter": ["NUL characters are not possible."]})
    return stored, query


def _below(name: str) -> str:
    return "filter" if name == "non_field_errors" else f"filter.{name}"


def _has_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _sentences(found: Any) -> list[str]:  # noqa: ANN401 (errors of lists are nested)
    if isinstance(found, Mapping):
        return [sentence for inner in found.values() for sentence in _sentences(inner)]
    return [str(sentence) for sentence in found]


# --- Documents ---------------------------------------------------------------------------------------

_DOCUMENTS: Final = {
    "identifier": Type.TEXT,
    "job": Type.TEXT,
    "host": Type.TEXT,
    "state": Type.TEXT,
    "status": Type.TEXT,
    "result": Type.TEXT,
    "result_code": Type.TEXT,
    "run_no": Type.WHOLE,
    "depth": Type.WHOLE,
    "redirects": Type.WHOLE,
    "version": Type.TEXT,
    "fetched_at": Type.MOMENT,
    "response_ms": Type.WHOLE,
    "changed_at": Type.MOMENT,
    "scheduled_at": Type.MOMENT,
    "scheduled_action": Type.TEXT,
    "retry_count": Type.WHOLE,
    "failing_since": Type.MOMENT,
    "hash": Type.TEXT,
}


def _read_documents(query: Query, after: Any, limit: int) -> Part:  # noqa: ANN401 (a cursor is JSON)
    return _in_turn(documents_of(dict(query)), _read_documents_of_one, after=after, limit=limit)


def _read_documents_of_one(wanted: StatusFilter, after: Any, limit: int) -> Part:  # noqa: ANN401 (a cursor is JSON)
    key = (uuid.UUID(hex=after[0]), int(after[1])) if after else None
    found, then = read_part(wanted, after=key, limit=limit)
    return Part([_document(row, line) for row, line in found], [then[0].hex, then[1]] if then else None)


def _in_turn(
    wanted: F,
    read: Callable[[F, Any, int], Part],
    *,
    after: Any,  # noqa: ANN401 (a cursor is JSON)
    limit: int,
) -> Part:
    """
    Return the next rows of the partition that the cursor names. Partitions follow one after the other, the control
    partition first. Without partitions, return the rows of this database.
    """
    partitions = ["", *_others()]
    if len(partitions) == 1:
        return read(wanted, after, limit)
    place, inner = after if isinstance(after, list) and len(after) == 2 and after[0] in partitions else ("", after)
    part = read_in(place, wanted, lambda asked: read(asked, inner, limit), empty=Part([], None))
    if part.next is not None:
        return Part(part.rows, [place, part.next])
    following = partitions[partitions.index(place) + 1 :]
    return Part(part.rows, [following[0], None] if following else None)


def _others() -> Sequence[str]:
    placement = this_partition.placement()
    return placement.others if placement is not None and placement.is_control else ()


def _count_in_all(wanted: F, count: Callable[[F], int]) -> int:
    return sum(read_in(name, wanted, count, empty=0) for name in ["", *_others()])


def _document(row: Any, line: DocumentStatusLine) -> Row:  # noqa: ANN401 (a row of a query)
    return (
        line.identifier,
        line.job,
        row.host,
        line.state.value,
        line.status.value,
        result_of(row),
        line.result_code,
        row.run_no,
        row.depth,
        row.redirects,
        row.version,
        row.fetched_at,
        row.response_ms,
        row.changed_at,
        line.scheduled_at,
        None if line.action is None else Action(line.action).name.lower(),
        line.retry_count,
        line.failing_since,
        row.hash.hex,
    )


# --- The history -------------------------------------------------------------------------------------

_HISTORY: Final = {
    "started_at": Type.MOMENT,
    "activity": Type.TEXT,
    "identifier": Type.TEXT,
    "result_code": Type.TEXT,
    "bytes": Type.WHOLE,
    "seconds": Type.NUMBER,
    "result_description": Type.TEXT,
    "repository": Type.TEXT,
    "job": Type.TEXT,
    "node": Type.TEXT,
}


def _read_history(query: Query, after: Any, limit: int) -> Part:  # noqa: ANN401 (a cursor is JSON)
    return _in_turn(history_of(dict(query)), _read_history_of_one, after=after, limit=limit)


def _read_history_of_one(wanted: HistoryFilter, after: Any, limit: int) -> Part:  # noqa: ANN401 (a cursor is JSON)
    page = read_simple_history(wanted, sort="start", descending=False, limit=limit, after=after)
    return Part([_activity(line) for line in page.lines], page.next)


def _activity(line: HistoryLine) -> Row:
    return tuple(getattr(line, name) for name in _HISTORY)


def _count_history(query: Query) -> int:
    return _count_in_all(history_of(dict(query)), _count_history_of_one)


def _count_history_of_one(wanted: HistoryFilter) -> int:
    wanted.check()
    statement = f"SELECT count(*) AS rows FROM jobs_activity AS past WHERE {wanted.where}"  # noqa: S608 (our own words)
    return int(run_report(statement, wanted.values)[0].rows)


_OF_HISTORY: Final = "jobs.view_activity"
_OF_DOCUMENTS: Final = "jobs.view_queueitem"
_ALL: Final = (
    Source(
        name="documents",
        title=_("Documents"),
        permission=_OF_DOCUMENTS,
        form=_DocumentsForm,
        columns=_DOCUMENTS,
        read=_read_documents,
        count=lambda query: _count_in_all(documents_of(dict(query)), count_documents),
    ),
    Source(
        name="history",
        title=_("Simple history"),
        permission=_OF_HISTORY,
        form=_HistoryForm,
        columns=_HISTORY,
        read=_read_history,
        count=_count_history,
    ),
    Source(
        name="activity",
        title=_("Maximum activity"),
        permission=_OF_HISTORY,
        form=_BusyForm,
        columns=BUSY,
        read=partial(read_busy, measure=Measure.EVENTS),
    ),
    Source(
        name="bandwidth",
        title=_("Maximum bandwidth"),
        permission=_OF_HISTORY,
        form=_BusyForm,
        columns=BUSY,
        read=partial(read_busy, measure=Measure.BYTES),
    ),
    Source(
        name="results",
        title=_("Result histogram"),
        permission=_OF_HISTORY,
        form=_HistogramForm,
        columns=RESULTS,
        read=read_results,
    ),
    Source(
        name="queue",
        title=_("Queue status"),
        permission=_OF_DOCUMENTS,
        form=QueueQuery,
        columns=QUEUE,
        read=read_queue,
    ),
)
SOURCES: Final[Mapping[str, Source]] = {source.name: source for source in _ALL}
