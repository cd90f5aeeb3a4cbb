"""
Reports over all partitions, as the control partition shows them. Without partitions, they are the reports of this
database.

Rows of partitions are merged in the order of the report, and the position of a page has one position for each
partition: the place after its last row that was shown. So no row is repeated or left out, in any order. Counts are
added by class, so each partition gives all its classes, up to a limit.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from jobs.partitions import this_partition
from jobs.partitions.merged import (
    Merged,
    Silent,
    merge_lines,
    numbers_of,
)
from jobs.queries.reports.busiest import DEFAULT_INTERVAL, BusyLine, BusyPage, Measure, read_busiest
from jobs.queries.reports.classes import EVERYTHING, ITSELF
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_states import Status
from jobs.queries.reports.document_status import DocumentStatusLine, DocumentStatusPage, read_document_status
from jobs.queries.reports.each_partition import answers, read_named, refuse_parts
from jobs.queries.reports.execution import read_position, write_position
from jobs.queries.reports.histogram import ORDER as ORDER_OF_HISTOGRAM
from jobs.queries.reports.histogram import HistogramLine, HistogramPage, read_histogram
from jobs.queries.reports.history_filter import HistoryFilter
from jobs.queries.reports.queue_status import ORDER as ORDER_OF_QUEUE
from jobs.queries.reports.queue_status import QueueLine, QueuePage, read_queue_status
from jobs.queries.reports.simple_history import (
    HistoryLine,
    HistoryPage,
    Timeline,
    read_simple_history,
    read_timeline,
)
from nodes.errors import TooSlow

# Largest number of classes that each partition contributes to the sums of all partitions.
MOST_CLASSES: Final = 20_000
# Number of documents that one query reads from each partition.
_AT_ONCE: Final = 2_000

F = TypeVar("F", HistoryFilter, StatusFilter)
L = TypeVar("L", HistoryLine, BusyLine, DocumentStatusLine)
C = TypeVar("C", HistogramLine, QueueLine)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class TooManyClasses(TooSlow):
    """A partition has more classes than the sums of all partitions may include."""

    code = "too_many_classes"


class _PageOf(Protocol[T_co]):
    @property
    def lines(self) -> Sequence[T_co]: ...

    @property
    def next(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _Part:
    """The next lines of a partition, with the position after each, and True if more follow."""

    lines: Sequence[tuple[Any, Sequence[Any]]] = ()
    has_more: bool = False


# --- Rows ------------------------------------------------------------------------------------------------------------


def read_history_everywhere(
    wanted: HistoryFilter, *, sort: str = "start", descending: bool = True, limit: int, after: str | None = None
) -> HistoryPage:
    """
    Return a page of the activities of all partitions, as `read_simple_history`.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: a partition took too long.
    """
    read = partial(read_simple_history, sort=sort, descending=descending, limit=limit)
    if not this_partition.control_name():
        return read(wanted, after=after)
    lines, position, silent = _rows(
        wanted,
        read,
        limit=limit,
        after=after,
        of=f"history everywhere by {sort} {descending}",
        # The last value of a position is the number of a row, which means nothing in other partitions.
        key=lambda _line, position: tuple(position[:-1]),
        is_downwards=descending,
    )
    return HistoryPage(lines, position, silent)


def read_timeline_everywhere(wanted: HistoryFilter, *, steps: int) -> Timeline:
    """
    Return the numbers of starts in all partitions, as `read_timeline`.

    Raises:
        BadPattern, TooSlow: as `read_timeline`.
    """
    found = read_named(wanted, lambda asked, _name: read_timeline(asked, steps=steps))
    counts: dict[str, list[int]] = {}
    for timeline in answers(found):
        for name, values in timeline.counts.items():
            sums = counts.get(name, [0] * steps)
            counts[name] = [before + value for before, value in zip(sums, values, strict=True)]
    own: Timeline = found.own
    return replace(own, counts=dict(sorted(counts.items())))


def read_busiest_everywhere(
    wanted: HistoryFilter,
    *,
    measure: Measure,
    interval: dt.timedelta = DEFAULT_INTERVAL,
    identifier_class: str = EVERYTHING,
    limit: int,
    after: str | None = None,
) -> BusyPage:
    """
    Return the busiest interval of each class of identifiers in each partition, as `read_busiest`.

    Raises:
        BadPattern, BadPosition, TooSlow: as `read_busiest`.
    """
    read = partial(read_busiest, measure=measure, interval=interval, identifier_class=identifier_class, limit=limit)
    if not this_partition.control_name():
        return read(wanted, after=after)
    lines, position, silent = _rows(
        wanted,
        read,
        limit=limit,
        after=after,
        of=f"busiest everywhere by {measure}",
        key=lambda line, _position: (-line.amount, line.identifier_class),
    )
    return BusyPage(lines, position, silent)


def read_documents_everywhere(wanted: StatusFilter, *, limit: int, after: str | None = None) -> DocumentStatusPage:
    """
    Return a page of the documents of all partitions, as `read_document_status`.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: a partition took too long.
    """
    read = partial(read_document_status, limit=limit)
    if not this_partition.control_name():
        return read(wanted, after=after)
    lines, position, silent = _rows(
        wanted, read, limit=limit, after=after, of="documents everywhere", key=lambda line, _position: line.hash
    )
    return DocumentStatusPage(lines, position, silent)


def read_all_documents_everywhere(wanted: StatusFilter) -> Iterator[Sequence[DocumentStatusLine]]:
    """
    Yield all documents of all partitions in pages. No connection or lock is held between two pages.

    Raises:
        BadPattern, TooSlow: as for one page.
        PartitionAway: a partition does not answer.
    """
    after: str | None = None
    while True:
        page = read_documents_everywhere(wanted, limit=_AT_ONCE, after=after)
        refuse_parts(page.silent)
        yield page.lines
        after = page.next
        if after is None:
            return


def _rows(
    wanted: F,
    read: Callable[..., _PageOf[L]],
    *,
    limit: int,
    after: str | None,
    of: str,
    key: Callable[[L, Sequence[Any]], Any],
    is_downwards: bool = False,
) -> tuple[list[L], str | None, Sequence[Silent]]:
    """
    Return the next lines of all partitions in their order, the position after them (None at the end), and the silent
    partitions.
    """
    begun = dict(read_position(after, of=of)) if after else {}

    def read_part(asked: F, partition: str) -> _Part:
        page = read(asked, after=begun.get(partition))
        positions = [line.position for line in page.lines]
        lines = page.lines if not partition else _with_partition(page.lines, partition)
        return _Part(list(zip(lines, positions, strict=True)), page.next is not None)

    found = read_named(wanted, read_part)
    parts = replace(found, others={name: part or _Part() for name, part in found.others.items()})
    merged = merge_lines(parts, lambda part: part.lines, key=lambda pair: key(*pair), is_downwards=is_downwards)
    shown = merged[:limit]
    for one in shown:
        begun[one.partition] = one.line[1]
    has_more = len(merged) > limit or any(part.has_more for part in answers(parts))
    position = write_position([[name, place] for name, place in begun.items()], of=of) if has_more and shown else None
    return [one.line[0] for one in shown], position, found.silent


def _with_partition(lines: Sequence[L], partition: str) -> list[L]:
    """Return lines of another partition with its name, and with the ids of jobs in the control partition."""
    jobs: list[int | None] = [getattr(line, "job_id", None) for line in lines]
    numbers = numbers_of({job for job in jobs if job is not None})
    changes: list[dict[str, Any]] = [{} if job is None else {"job_id": numbers.get(job)} for job in jobs]
    return [replace(line, partition=partition, **change) for line, change in zip(lines, changes, strict=True)]


# --- Counts ----------------------------------------------------------------------------------------------------------


def read_histogram_everywhere(
    wanted: HistoryFilter,
    *,
    identifier_class: str = EVERYTHING,
    result_class: str = ITSELF,
    limit: int,
    after: str | None = None,
    most_classes: int | None = None,
) -> HistogramPage:
    """
    Return the number of activities of all partitions by result, as `read_histogram`.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: a partition took too long, or has too many classes.
    """
    read = partial(read_histogram, identifier_class=identifier_class, result_class=result_class)
    if not this_partition.control_name():
        return read(wanted, limit=limit, after=after)
    most = most_classes or MOST_CLASSES
    found = read_named(wanted, lambda asked, name: read(replace(asked, omits_jobs=bool(name)), limit=most))
    amounts: Counter[tuple[str, str]] = Counter()
    for line in _all_classes(found, most):
        amounts[line.identifier_class, line.result_class] += line.amount
    lines = [HistogramLine(*classes, amount) for classes, amount in amounts.items()]
    shown, position = _page(
        lines,
        key=lambda line: (-line.amount, line.identifier_class, line.result_class),
        after=read_position(after, of=ORDER_OF_HISTOGRAM) if after else (),
        limit=limit,
    )
    return HistogramPage(shown, write_position(position, of=ORDER_OF_HISTOGRAM) if position else None, found.silent)


def read_queue_everywhere(
    wanted: StatusFilter,
    *,
    identifier_class: str = EVERYTHING,
    limit: int,
    after: str | None = None,
    most_classes: int | None = None,
) -> QueuePage:
    """
    Return the number of documents of all partitions in each status, as `read_queue_status`.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: a partition took too long, or has too many classes.
    """
    read = partial(read_queue_status, identifier_class=identifier_class)
    if not this_partition.control_name():
        return read(wanted, limit=limit, after=after)
    most = most_classes or MOST_CLASSES
    found = read_named(wanted, lambda asked, _name: read(asked, limit=most))
    documents: Counter[str] = Counter()
    counts: dict[str, Counter[Status]] = {}
    for line in _all_classes(found, most):
        documents[line.identifier_class] += line.documents
        counts.setdefault(line.identifier_class, Counter()).update(line.counts)
    lines = [
        QueueLine(name, documents[name], {status: amounts[status] for status in Status})
        for name, amounts in counts.items()
    ]
    shown, position = _page(
        lines,
        key=lambda line: (-line.documents, line.identifier_class),
        after=read_position(after, of=ORDER_OF_QUEUE) if after else (),
        limit=limit,
    )
    return QueuePage(shown, write_position(position, of=ORDER_OF_QUEUE) if position else None, found.silent)


def _all_classes(found: "Merged[Any]", most: int) -> Iterator[Any]:
    for page in answers(found):
        if page.next is not None:
            raise TooManyClasses(
                f"A partition has more than {most:,} classes, so they cannot be added. "
                "Choose a class that fewer identifiers have, fewer jobs, or a shorter time."
            )
        yield from page.lines


def _page(
    lines: list[C], *, key: Callable[[C], tuple[Any, ...]], after: Sequence[Any], limit: int
) -> tuple[list[C], list[Any] | None]:
    """Return the lines after a position in the order of their keys, and the position after them; None at the end."""
    if after:
        amount, *classes = after
        lines = [line for line in lines if key(line) > (-amount, *classes)]
    behind = sorted(lines, key=key)
    if len(behind) <= limit:
        return behind, None
    amount, *classes = key(behind[limit - 1])
    return behind[:limit], [-amount, *classes]
