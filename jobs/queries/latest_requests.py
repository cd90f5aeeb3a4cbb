"""
The latest requests by host and by job, from the history that each flush writes anyway.

Of each source with running jobs a bounded number of the newest rows is read, at most every few seconds in one process,
however many pages are open. Where no history is kept, nothing is known.
"""

import datetime as dt
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.db import connection

from jobs.verdicts.requests import Counted, Requests, add_up, merge

# A verdict is about this span, or about the longer one where fewer requests than it needs ended in it.
_MINUTE: Final = dt.timedelta(minutes=1)
_LATELY: Final = dt.timedelta(minutes=10)
# Requests of one host, or job, that are looked at.
_HUNDRED: Final = 100
# Rows of one source that are read, the newest first.
_ROWS: Final = 3_000
# Running jobs whose sources are looked at, and sources of which the history is read.
_JOBS: Final = 200
_SOURCES: Final = 20
# Seconds for which one reading is used.
_FRESH: Final = 3.0

# The history is partitioned by day and has an index of source and time: the rows come in their order.
_LATEST: Final = """
SELECT job_id, host, code, since, amount, seconds, first_at
  FROM (SELECT DISTINCT repository_id AS id
          FROM (SELECT repository_id FROM jobs_job WHERE phase <> 'inactive' ORDER BY id DESC LIMIT %(jobs)s) AS job
         LIMIT %(sources)s) AS source
 CROSS JOIN LATERAL (
       SELECT job_id, host, result_code AS code, started_at > %(minute)s AS since, count(*) AS amount,
              coalesce(sum(seconds), 0) AS seconds, min(started_at) AS first_at
         FROM (SELECT job_id, host, result_code, started_at, seconds,
                      row_number() OVER (PARTITION BY job_id, host ORDER BY started_at DESC) AS place
                 FROM (SELECT job_id, split_part(entity, '/', 3) AS host, activity, result_code, started_at, seconds
                         FROM jobs_activity
                        WHERE repository_id = source.id AND started_at > %(lately)s
                        ORDER BY started_at DESC LIMIT %(rows)s) AS newest
                WHERE activity = 'fetch' AND host <> '') AS placed
        WHERE place <= %(hundred)s
        GROUP BY job_id, host, result_code, started_at > %(minute)s) AS counted
"""


@dataclass(frozen=True, slots=True)
class LatestRequests:
    """`minutes` are requests of the last minute, `hundreds` the last hundred ones, by host name and by job id."""

    minutes: Mapping[str | int, Requests] = field(default_factory=dict)
    hundreds: Mapping[str | int, Requests] = field(default_factory=dict)

    def of(self, key: str | int) -> Requests:
        """Return the requests of the last minute; the last hundred where these are too few to judge by."""
        minute, hundred = self.minutes.get(key, Requests()), self.hundreds.get(key, Requests())
        return minute if minute.can_be_judged or not hundred.can_be_judged else hundred

    def of_all(self, job_ids: Iterable[int]) -> Requests:
        """Return the requests of the last minute of these jobs together."""
        return merge(self.of(job_id) for job_id in job_ids)

    def hundred_of(self, key: str | int) -> Requests:
        return self.hundreds.get(key, Requests())


class _Reading:
    """The last reading of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._found = LatestRequests()

    def read(self, *, now: dt.datetime) -> LatestRequests:
        with self._lock:
            if time.monotonic() - self._read_at > _FRESH:
                self._found = _read(now=now)
                self._read_at = time.monotonic()
            return self._found


_READING: Final = _Reading()


def read_latest_requests(*, now: dt.datetime) -> LatestRequests:
    """Return the latest requests of running jobs, as of a few seconds ago at most."""
    return _READING.read(now=now)


def _read(*, now: dt.datetime) -> LatestRequests:
    facts = {
        "minute": now - _MINUTE,
        "lately": now - _LATELY,
        "hundred": _HUNDRED,
        "rows": _ROWS,
        "jobs": _JOBS,
        "sources": _SOURCES,
    }
    minutes: dict[str | int, list[Counted]] = defaultdict(list)
    hundreds: dict[str | int, list[Counted]] = defaultdict(list)
    for job_id, host, code, is_of_the_minute, amount, seconds, first_at in _rows(facts):
        one = Counted(code, amount, seconds, first_at)
        for key in (host, job_id):
            hundreds[key].append(one)
            if is_of_the_minute:
                minutes[key].append(one)
    of_hundreds = {key: add_up(several, lasted=_LATELY) for key, several in hundreds.items()}
    begins = {key: _begin(requests, now=now) for key, requests in of_hundreds.items()}
    return LatestRequests(
        {key: replace(add_up(several, lasted=_MINUTE), failing_since=begins[key]) for key, several in minutes.items()},
        {key: replace(requests, failing_since=begins[key]) for key, requests in of_hundreds.items()},
    )


def _begin(requests: Requests, *, now: dt.datetime) -> dt.datetime | None:
    """Return when the failures began; None where they may have begun before what was read."""
    since = requests.failing_since
    is_cut = requests.ended >= _HUNDRED or (since is not None and since < now - _LATELY + _MINUTE)
    return None if is_cut else since


def _rows(facts: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(_LATEST, facts)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
