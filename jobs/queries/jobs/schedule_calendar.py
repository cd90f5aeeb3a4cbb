"""
The calendar of all jobs: for each day, the runs that started, and the starts that are planned. Its days are days in
UTC.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from django.db import connection

from jobs.lifecycle.schedule import openings_between
from jobs.queries.jobs.schedules import ScheduleLine, list_schedules

MOST_DAYS: Final = 42
# Largest number of starts of one schedule that are computed. It is enough for one start on each day of the longest
# calendar, or for more on each day of a week.
STARTS_OF_ONE: Final = 62
FIRST_DAY: Final = dt.date(2000, 1, 1)
LAST_DAY: Final = dt.date(2199, 1, 1)

_DAY: Final = dt.timedelta(days=1)
# The index of runs by their start gives the newest runs of each day.
_STARTED: Final = """
SELECT day.number, run.id, run.job_id, job.name, run.run_no, run.started_at, run.run_end, run.ended_at IS NOT NULL,
       run.indexed + run.unchanged + run.failed + run.excluded, run.failed
  FROM generate_series(0, %(days)s - 1) AS day(number)
 CROSS JOIN LATERAL (
       SELECT * FROM jobs_run
        WHERE started_at >= %(first)s + make_interval(days => day.number)
          AND started_at < %(first)s + make_interval(days => day.number + 1)
        ORDER BY started_at DESC, id DESC LIMIT %(most)s) AS run
  JOIN jobs_job AS job ON job.id = run.job_id
 ORDER BY day.number, run.started_at, run.id
"""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that started on a day. Its counts are 0 while it lasts."""

    id: int
    job_id: int
    job_name: str
    run_no: int
    started_at: dt.datetime
    run_end: str
    is_over: bool
    documents: int
    failed: int


@dataclass(frozen=True, slots=True)
class ComingStart:
    """The first start of a job on a day, and the number of its starts on that day."""

    job_id: int
    job_name: str
    at: dt.datetime
    starts: int


@dataclass(frozen=True, slots=True)
class Day:
    """
    A day with its newest runs and its first planned starts, both in order of time. `more_runs` and `more_starts` are
    the numbers of runs and starts that are not shown.
    """

    date: dt.date
    runs: Sequence[StartedRun]
    more_runs: bool
    starts: Sequence[ComingStart]
    more_starts: int


@dataclass(frozen=True, slots=True)
class Calendar:
    """
    The days. It is complete, unless there are more schedules than a list shows, or a schedule has more starts than are
    computed.
    """

    days: Sequence[Day]
    is_complete: bool


def read_calendar(first: dt.date, *, days: int, shown: int, now: dt.datetime) -> Calendar:
    """Return the calendar of some days, with at most `shown` runs and starts of each."""
    begins = dt.datetime.combine(first, dt.time(), tzinfo=dt.UTC)
    ends = begins + days * _DAY
    runs = _started(begins, days=days, most=shown + 1)
    starts: dict[int, list[ComingStart]] = {}
    is_complete = True
    if ends > now:
        schedules = list_schedules(now=now)
        is_complete = not schedules.has_more
        for line in schedules.lines:
            of_job, is_whole = _coming(
                line, first=first, after=max(now, begins - dt.timedelta(microseconds=1)), ends=ends
            )
            is_complete = is_complete and is_whole
            for number, start in of_job.items():
                starts.setdefault(number, []).append(start)
    return Calendar(
        [_day(first + n * _DAY, runs.get(n, []), starts.get(n, []), shown) for n in range(days)], is_complete
    )


def _day(date: dt.date, runs: Sequence[StartedRun], starts: Sequence[ComingStart], shown: int) -> Day:
    in_order = sorted(starts, key=lambda start: (start.at, start.job_name))
    return Day(
        date=date,
        runs=runs[-shown:],
        more_runs=len(runs) > shown,
        starts=in_order[:shown],
        more_starts=max(0, len(in_order) - shown),
    )


def _started(begins: dt.datetime, *, days: int, most: int) -> dict[int, list[StartedRun]]:
    found: dict[int, list[StartedRun]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_STARTED, {"first": begins, "days": days, "most": most})
        for number, *run in cursor.fetchall():
            found.setdefault(number, []).append(StartedRun(*run))
    return found


def _coming(
    line: ScheduleLine, *, first: dt.date, after: dt.datetime, ends: dt.datetime
) -> tuple[Mapping[int, ComingStart], bool]:
    """
    Return the starts of a job by the number of their day, and False if it has further starts that are not computed.
    """
    if line.paused_at is not None:
        return {}, True
    until = ends - dt.timedelta(microseconds=1)
    found = list(islice(openings_between(line.windows, after=after, until=until), STARTS_OF_ONE + 1))
    by_day = Counter((at.astimezone(dt.UTC).date() - first).days for at in found[:STARTS_OF_ONE])
    firsts: dict[int, dt.datetime] = {}
    for at in found[:STARTS_OF_ONE]:
        firsts.setdefault((at.astimezone(dt.UTC).date() - first).days, at)
    return {number: ComingStart(line.id, line.name, at, by_day[number]) for number, at in firsts.items()}, len(
        found
    ) <= STARTS_OF_ONE
