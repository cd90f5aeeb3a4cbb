"""Result histogram: for each class of identifiers, the number of activities with each class of results."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.partitions.merged import Silent
from jobs.queries.reports.classes import EVERYTHING, ITSELF, class_of
from jobs.queries.reports.execution import check_patterns, read_position, run_report, write_position
from jobs.queries.reports.history_filter import HistoryFilter

ORDER: Final = "histogram"
_HISTOGRAM: Final = """
WITH counted AS (
    SELECT {identifier} AS identifier_class, {result} AS result_class, count(*) AS amount
      FROM jobs_activity AS past WHERE {where}
     GROUP BY 1, 2
)
SELECT * FROM counted
 WHERE %(last)s::bigint IS NULL
    OR (-amount, identifier_class, result_class) > (-%(last)s::bigint, %(last_identifier)s, %(last_result)s)
 ORDER BY amount DESC, identifier_class, result_class LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class HistogramLine:
    """The number of activities for identifiers of one class with results of one class."""

    identifier_class: str
    result_class: str
    amount: int


@dataclass(frozen=True, slots=True)
class HistogramPage:
    """A page of counts, the highest first; `next` is the `after` of the page that follows."""

    lines: Sequence[HistogramLine]
    next: str | None
    silent: Sequence[Silent] = ()


def read_histogram(
    wanted: HistoryFilter,
    *,
    identifier_class: str = EVERYTHING,
    result_class: str = ITSELF,
    limit: int,
    after: str | Sequence[Any] | None = None,
) -> HistogramPage:
    """
    Return the number of activities by result.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: the statement took too long.
    """
    wanted.check()
    check_patterns({"identifier_class": identifier_class, "result_class": result_class})
    last, last_identifier, last_result = read_position(after, of=ORDER) if after else (None, None, None)
    statement = _HISTOGRAM.format(
        where=wanted.where,
        identifier=class_of("past.entity", identifier_class, parameter="identifier_class"),
        result=class_of("past.result_code", result_class, parameter="result_class"),
    )
    values: dict[str, Any] = {
        **wanted.values,
        "identifier_class": identifier_class,
        "result_class": result_class,
        "last": last,
        "last_identifier": last_identifier,
        "last_result": last_result,
        "limit": limit + 1,
    }
    found = run_report(statement, values, by_many=identifier_class != EVERYTHING)
    lines = [HistogramLine(*row) for row in found[:limit]]
    position = None
    if len(found) > limit:
        end = lines[-1]
        position = write_position([end.amount, end.identifier_class, end.result_class], of=ORDER)
    return HistogramPage(lines, position)
