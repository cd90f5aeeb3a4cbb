"""The latest answers of a host, from the newest entries of the history, which has no index of hosts."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connection

from jobs.lifecycle.activity import ActivityName
from jobs.verdicts.results import ResultClass, class_of

_REFUSALS_SHOWN: Final = 10
# Number of newest history entries of a job's source that are examined.
EXAMINED: Final = 5_000
LATELY: Final = dt.timedelta(hours=1)
_FAILED: Final = {ResultClass.FAILED, ResultClass.REFUSED}

# Returns a row for each code, a row for all codes together, and the newest refusals.
_ANSWERS: Final = """
WITH answer AS MATERIALIZED (
SELECT newest.started_at, newest.entity, newest.result_code, newest.seconds
  FROM (SELECT DISTINCT job.repository_id AS id
          FROM (SELECT seed_id FROM jobs_lane WHERE bin_id = %(bin)s LIMIT 200) AS lane
          JOIN jobs_seed AS seed ON seed.id = lane.seed_id JOIN jobs_job AS job ON job.id = seed.job_id) AS repository
 CROSS JOIN LATERAL (
       SELECT started_at, activity, entity, result_code, seconds FROM jobs_activity
        WHERE repository_id = repository.id AND started_at > %(since)s
        ORDER BY started_at DESC LIMIT %(examined)s) AS newest
 WHERE newest.activity = %(fetch)s AND (starts_with(newest.entity, %(http)s) OR starts_with(newest.entity, %(https)s)))
SELECT grouping(result_code) = 1, result_code, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds), min(started_at), ''
  FROM answer GROUP BY GROUPING SETS ((result_code), ())
 UNION ALL
(SELECT NULL, result_code, 1, NULL, NULL, started_at, entity
   FROM answer WHERE result_code IN ('429', '503') ORDER BY started_at DESC LIMIT %(refusals)s)
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response by which the host refused a request because of the load (429 or 503)."""

    at: dt.datetime
    address: str
    code: str


@dataclass(frozen=True, slots=True)
class Answers:
    """
    The answers of a host in a span of time, among the examined entries of the history.

    `since` is the start of the first request. The percentiles are those of the seconds until the end of an answer; None
    if no answer was measured. `refusals` has the newest first.
    """

    count: int = 0
    since: dt.datetime | None = None
    p50: float | None = None
    p95: float | None = None
    by_code: Mapping[str, int] = field(default_factory=dict)
    refusals: Sequence[Refusal] = ()

    @property
    def failed(self) -> int:
        """Return the number of errors among the answers: server errors, refusals, broken connections."""
        return sum(amount for code, amount in self.by_code.items() if class_of(code) in _FAILED)


def read_answers(bin_id: int, name: str, *, span: dt.timedelta = LATELY, now: dt.datetime) -> Answers:
    """Return the latest answers of a host, at most as old as `span`."""
    facts: dict[str, Any] = {
        "bin": bin_id,
        "fetch": ActivityName.FETCH,
        "since": now - span,
        "examined": EXAMINED,
        "http": f"http://{name}/",
        "https": f"https://{name}/",
        "refusals": _REFUSALS_SHOWN,
    }
    with connection.cursor() as cursor:
        cursor.execute(_ANSWERS, facts)
        rows = cursor.fetchall()
    codes = {row[1]: row[2] for row in rows if row[0] is False}
    refusals = [Refusal(row[5], row[6], row[1]) for row in rows if row[0] is None]
    (whole,) = (row for row in rows if row[0] is True)
    _, _, count, p50, p95, since, _ = whole
    by_code = dict(sorted(codes.items(), key=lambda code: (-code[1], code[0])))
    return Answers(count=count, since=since, p50=p50, p95=p95, by_code=by_code, refusals=refusals)
