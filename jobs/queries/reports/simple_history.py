"""Simple history: the activities, row by row, and their number over time."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.partitions.merged import Silent
from jobs.queries.reports.execution import read_position, run_report, write_position
from jobs.queries.reports.history_filter import HistoryFilter

# Sort keys of rows. A missing value sorts below all other values.
SORTS: Final[Mapping[str, str]] = {
    "start": "past.started_at",
    "activity": "past.activity",
    "identifier": "past.entity",
    "code": "past.result_code",
    "bytes": "coalesce(past.bytes, -1)",
    "seconds": "coalesce(past.seconds, -1)",
}
_COLUMNS: Final = """
past.id, past.started_at, past.seconds, past.job_id, past.repository_id, past.output_id, past.activity, past.entity,
       past.bytes, past.result_code, past.result_description, past.node
"""

# In the order of time, each source's index is read from its end, and only rows that are shown (or filtered out) are
# read. In any other order, all rows of the filter are read.
_BY_TIME: Final = f"""
SELECT past.* FROM unnest(%(repositories)s::bigint[]) AS source(id) CROSS JOIN LATERAL (
    SELECT {_COLUMNS}, past.started_at AS sorted FROM jobs_activity AS past
     WHERE past.repository_id = source.id AND {{conditions}}
     ORDER BY past.started_at {{direction}}, past.id {{direction}} LIMIT %(limit)s) AS past
"""
_BY_COLUMN: Final = f"""
SELECT {_COLUMNS}, {{column}} AS sorted FROM jobs_activity AS past
 WHERE past.repository_id = ANY(%(repositories)s) AND {{conditions}}
"""
_PAGE: Final = """
WITH page AS MATERIALIZED ({rows} ORDER BY sorted {direction}, started_at {direction}, id {direction} LIMIT %(limit)s)
SELECT page.*, job.name AS job, repository.name AS repository, output.name AS output
  FROM page
  LEFT JOIN jobs_job AS job ON job.id = page.job_id
  LEFT JOIN jobs_repositoryconnection AS repository ON repository.id = page.repository_id
  LEFT JOIN jobs_outputconnection AS output ON output.id = page.output_id
 ORDER BY page.sorted {direction}, page.started_at {direction}, page.id {direction}
"""
_BEHIND: Final = "({column}, past.started_at, past.id) {beyond} (%(last)s, %(last_start)s, %(last_id)s)"
# A separate condition, so that the index is read from this position on.
_NOT_BEFORE: Final = "past.started_at {beyond}= %(last_start)s"

_TIMELINE: Final = """
SELECT date_bin(%(step)s, past.started_at, %(since)s) AS began_at, past.activity, count(*) AS amount
  FROM jobs_activity AS past
 WHERE {where}
 GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """
    One activity. `seconds` and `bytes` are None if they were not measured.

    For an activity of an output, `activity` has its name in parentheses. `node` is the name of the worker, if a worker
    did it. A page that begins at `position` shows the rows after this row. `partition` names another partition that has
    the row, and is empty for this one.
    """

    started_at: dt.datetime
    activity: str
    identifier: str
    result_code: str
    bytes: int | None
    seconds: float | None
    result_description: str
    repository: str
    job: str
    job_id: int | None
    node: str
    position: Sequence[Any] = ()
    partition: str = ""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of rows; `next` is the `after` of the page that follows, None at the end."""

    lines: Sequence[HistoryLine]
    next: str | None
    silent: Sequence[Silent] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """The number of starts of each activity in equal steps of time from `since` on."""

    since: dt.datetime
    step: dt.timedelta
    counts: Mapping[str, Sequence[int]]


def read_simple_history(
    wanted: HistoryFilter,
    *,
    sort: str = "start",
    descending: bool = True,
    limit: int,
    after: str | Sequence[Any] | None = None,
) -> HistoryPage:
    """
    Return a page of activities, sorted by a key of SORTS; ties in the order of time.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: the statement took too long.
    """
    wanted.check()
    column, direction, beyond = SORTS[sort], *(("DESC", "<") if descending else ("ASC", ">"))
    order = f"history by {sort} {direction}"
    conditions = list(wanted.conditions)
    values: dict[str, Any] = {**wanted.values, "limit": limit + 1}
    if after:
        last, last_start, last_id = read_position(after, of=order)
        conditions.append(_BEHIND.format(column=column, beyond=beyond))
        if sort == "start":
            conditions.append(_NOT_BEFORE.format(beyond=beyond))
        values |= {"last": last, "last_start": last_start, "last_id": last_id}
    rows = (_BY_TIME if sort == "start" else _BY_COLUMN).format(
        conditions=" AND ".join(conditions), column=column, direction=direction
    )
    found = run_report(_PAGE.format(rows=rows, direction=direction), values)
    shown = found[:limit]
    lines = [_line(row) for row in shown]
    return HistoryPage(lines, write_position(lines[-1].position, of=order) if len(found) > limit else None)


def read_timeline(wanted: HistoryFilter, *, steps: int) -> Timeline:
    """
    Return the number of starts of each activity, in `steps` equal steps of the filter's span.

    Raises:
        BadPattern: an argument is invalid.
        TooSlow: the statement took too long.
    """
    wanted.check()
    step = (wanted.until - wanted.since) / steps
    counts: dict[str, list[int]] = {}
    for row in run_report(_TIMELINE.format(where=wanted.where), {**wanted.values, "step": step}):
        # The length of a step is rounded to whole microseconds, so the steps may end shortly before the span ends. The
        # last step takes the remaining time.
        number = min((row.began_at - wanted.since) // step, steps - 1)
        counts.setdefault(row.activity, [0] * steps)[number] += row.amount
    return Timeline(wanted.since, step, dict(sorted(counts.items())))


def _line(row: Any) -> HistoryLine:
    name = f"{row.activity} ({row.output})" if row.output else row.activity
    sorted_by = row.sorted.isoformat() if isinstance(row.sorted, dt.datetime) else row.sorted
    return HistoryLine(
        started_at=row.started_at,
        activity=name,
        identifier=row.entity,
        result_code=row.result_code,
        bytes=row.bytes,
        seconds=row.seconds,
        result_description=row.result_description,
        repository=row.repository or "",
        job=row.job or "",
        job_id=row.job_id if row.job else None,
        node=row.node,
        position=[sorted_by, row.started_at.isoformat(), row.id],
    )
