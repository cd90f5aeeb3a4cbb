"""
The latest requests by host and by job, from the history, which each flush writes in any case.

For each source with running jobs, this module reads all requests of the last minute, and some before it. So the
requests of a job or host are always its latest requests, without a gap. If the minute has too many rows, only its
newest part is read. One result serves all pages of a process for some seconds, longer if its query was slow. If no
history is kept, nothing is known.

A process of the control partition also reads the requests of other partitions, and keeps them separately.
"""

import datetime as dt
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from django.db import connection

from jobs.partitions import this_partition
from jobs.verdicts.requests import Counted, Requests, add_up
from jobs.verdicts.results import is_failure
from nodes.database.shared_results import kept

# Span of time for a verdict, and the longer span that replaces it if too few requests ended in it.
_MINUTE: Final = dt.timedelta(minutes=1)
_LATELY: Final = dt.timedelta(minutes=10)
# Number of newest rows of one source that are read even if they are older than a minute, and largest number of rows
# that are read.
_ROWS: Final = 10_000
_MOST_ROWS: Final = 100_000
# Largest number of running jobs whose sources are examined, and of sources whose history is read. Only sources with a
# recent request are read, those with the latest start of a job first. An order by the last request would select other
# sources at each call.
_JOBS: Final = 200
_SOURCES: Final = 20
# Time for which one result is reused (seconds): at least the first number, 100 times the duration of the query if this
# is longer, but at most the last number.
_FRESH: Final = 3.0
_FRESH_TIMES: Final = 100
_STALEST: Final = 20.0

# The history is partitioned by day and has an index of source and time: the rows come in their order. `span` is
# materialized: otherwise its sub-select may run again for each row that is read.
# `LIMIT 1` in the order of the index reads one row, while EXISTS may read all rows of ten minutes.
_LATEST: Final = """
WITH source AS MATERIALIZED (
    SELECT repository_id AS id
      FROM (SELECT repository_id, started_at FROM jobs_job WHERE phase <> 'inactive' ORDER BY id DESC LIMIT %(jobs)s) AS job
     GROUP BY repository_id
    HAVING (SELECT started_at FROM jobs_activity WHERE repository_id = job.repository_id AND started_at > %(lately)s
             ORDER BY started_at DESC LIMIT 1) IS NOT NULL
     ORDER BY max(started_at) DESC NULLS LAST, repository_id DESC LIMIT %(sources)s
), span AS MATERIALIZED (
    SELECT id, least(%(minute)s, coalesce((SELECT started_at FROM jobs_activity
                                            WHERE repository_id = source.id AND started_at > %(lately)s
                                            ORDER BY started_at DESC OFFSET %(rows)s LIMIT 1), %(lately)s)) AS begins_at
      FROM source
)
SELECT job_id, host, code, since, amount, seconds, first_at, begins_at
  FROM span
 CROSS JOIN LATERAL (
       SELECT newest.job_id, host, result_code AS code, is_of_the_minute AS since, count(*) AS amount,
              coalesce(sum(seconds), 0) AS seconds, min(newest.started_at) AS first_at
         FROM (SELECT job_id, split_part(entity, '/', 3) AS host, activity, result_code, started_at, seconds,
                      started_at > %(minute)s AS is_of_the_minute
                 FROM jobs_activity
                WHERE repository_id = span.id AND started_at > span.begins_at AND started_at > %(lately)s
                ORDER BY started_at DESC LIMIT %(most_rows)s) AS newest
         JOIN jobs_job AS job ON job.id = newest.job_id AND job.phase <> 'inactive' AND job.started_at <= newest.started_at
        WHERE activity = 'fetch' AND host <> ''
        GROUP BY GROUPING SETS ((newest.job_id, result_code, is_of_the_minute), (host, result_code, is_of_the_minute))) AS counted
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """Requests of one job or host with one result code: of the last minute, or of the longer span before it."""

    counted: Counted
    is_of_the_minute: bool


@dataclass(frozen=True, slots=True)
class RequestsOfJobs:
    """The latest requests of some jobs in one partition; all requests since `begin` were read."""

    parts: Sequence[_Part]
    begin: dt.datetime


def judge_together(some: Sequence[RequestsOfJobs]) -> Requests:
    """Return the latest requests of these jobs together, counted over the same span of time."""
    parts = [part for one in some for part in one.parts]
    longer = add_up(part.counted for part in parts)
    minute = add_up(part.counted for part in parts if part.is_of_the_minute)
    found = minute if minute.can_be_judged or not longer.can_be_judged else longer
    first, begin = longer.failing_since, max((one.begin for one in some), default=None)
    # Close to the first request that was read, the beginning of the failures is unknown: they may have begun before it.
    is_known = first is not None and begin is not None and first > begin + _MINUTE
    return replace(found, failing_since=first if is_known else None)


class LatestRequests:
    """The latest requests of the present runs by host name and by job id; all requests since `begin` were read."""

    def __init__(self, parts: Mapping[str | int, Sequence[_Part]], *, begin: dt.datetime) -> None:
        self._parts = parts
        self._begin = begin

    def of(self, key: str | int) -> Requests:
        """Return the requests of the last minute. If they are too few for a verdict, return those of a longer span."""
        return judge_together([RequestsOfJobs(self._parts.get(key, ()), self._begin)])

    def of_all(self, job_ids: Iterable[int]) -> Requests:
        """Return the latest requests of these jobs together, counted over the same span of time."""
        return judge_together([self.of_jobs(job_ids)])

    def of_jobs(self, job_ids: Iterable[int]) -> RequestsOfJobs:
        """Return the latest requests of these jobs, for a verdict together with the requests of other partitions."""
        return RequestsOfJobs([part for job_id in job_ids for part in self._parts.get(job_id, ())], self._begin)

    @property
    def job_ids(self) -> Sequence[int]:
        """Return the ids of the running jobs with requests."""
        return [job for job in self._parts if isinstance(job, int)]

    @cached_property
    def failing_hosts(self) -> Sequence[tuple[str, Requests]]:
        """Return the hosts that fail by their latest requests, the most failures first."""
        suspects = [host for host, parts in self._parts.items() if any(is_failure(part.counted.code) for part in parts)]
        hosts = [(host, self.of(host)) for host in suspects if isinstance(host, str)]
        return sorted((one for one in hosts if one[1].is_failing), key=lambda one: (-one[1].failed, one[0]))

    @cached_property
    def failing_jobs(self) -> Sequence[int]:
        """Return the jobs that fail by their latest requests, the most failures first."""
        suspects = [job for job, parts in self._parts.items() if any(is_failure(part.counted.code) for part in parts)]
        jobs = [(job, self.of(job)) for job in suspects if isinstance(job, int)]
        return [job for job, _ in sorted((one for one in jobs if one[1].is_failing), key=lambda one: -one[1].failed)]


class _Reading:
    """Caches the last result of this process, and reads it again when it is too old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._good_until = float("-inf")
        self._found: LatestRequests | None = None

    def read(self, *, now: dt.datetime) -> LatestRequests:
        with self._lock:
            began = time.monotonic()
            if self._found is None or began > self._good_until:
                self._found = _read(now=now)
                ended = time.monotonic()
                self._good_until = ended + max(_FRESH, min(_FRESH_TIMES * (ended - began), _STALEST))
            return self._found


# By the name of the partition whose database was read; "" for this partition.
_READINGS: Final[defaultdict[str, _Reading]] = defaultdict(_Reading)


def read_latest_requests(*, now: dt.datetime) -> LatestRequests:
    """
    Return the latest requests of running jobs, at most a few seconds old. All calls for one moment return the same
    requests.
    """
    of_moment: dict[None, LatestRequests] = kept("latest requests")
    if None not in of_moment:
        of_moment[None] = _READINGS[this_partition.foreign_name()].read(now=now)
    return of_moment[None]


def _read(*, now: dt.datetime) -> LatestRequests:
    facts = {
        "minute": now - _MINUTE,
        "lately": now - _LATELY,
        "rows": _ROWS,
        "most_rows": _MOST_ROWS,
        "jobs": _JOBS,
        "sources": _SOURCES,
    }
    parts: dict[str | int, list[_Part]] = defaultdict(list)
    begin = now - _LATELY
    for job_id, host, code, is_of_the_minute, amount, seconds, first_at, begins_at in _rows(facts):
        begin = max(begin, begins_at)
        key = job_id if host is None else host
        parts[key].append(_Part(Counted(code, amount, seconds, first_at), is_of_the_minute))
    return LatestRequests(parts, begin=begin)


def _rows(facts: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(_LATEST, facts)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
