"""The seeds of jobs in a list: the number of each job's seeds, and the first of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import connection

_SHOWN: Final = 3
_ADDRESSES_SHOWN: Final = 3
# Largest number of seeds that are counted. It is above the number of seeds that one request can add to a job.
_COUNTED: Final = 1_001

_FIRST: Final = f"""
SELECT wanted.id, counted.in_all, first.id, first.urls, first.urls_in_all, first.policy_id, first.tag
  FROM unnest(%(jobs)s::bigint[]) AS wanted(id)
 CROSS JOIN LATERAL (SELECT count(*) AS in_all
                       FROM (SELECT FROM jobs_seed WHERE job_id = wanted.id AND removed_at IS NULL LIMIT {_COUNTED}) AS known) AS counted
  LEFT JOIN LATERAL (SELECT id, urls[1:{_ADDRESSES_SHOWN}] AS urls, cardinality(urls) AS urls_in_all, policy_id, tag
                       FROM jobs_seed WHERE job_id = wanted.id AND removed_at IS NULL ORDER BY id LIMIT {_SHOWN}) AS first ON true
 ORDER BY wanted.id, first.id
"""


@dataclass(frozen=True, slots=True)
class FirstSeed:
    """A seed and its first addresses. `policy` is the id of a policy, or None."""

    id: int
    first_urls: Sequence[str]
    urls_in_all: int
    policy: int | None
    tag: str


@dataclass(slots=True)
class SeedsOfJob:
    """The seeds of one job: `in_all` is counted up to 1,001."""

    in_all: int
    first: list[FirstSeed] = field(default_factory=list)


def read_first_seeds(job_ids: Iterable[int]) -> dict[int, SeedsOfJob]:
    """Return the number of seeds of each of these jobs, and the first of them."""
    found: dict[int, SeedsOfJob] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FIRST, {"jobs": list(job_ids)})
        for job_id, in_all, *seed in cursor.fetchall():
            of_job = found.setdefault(job_id, SeedsOfJob(in_all))
            if in_all:
                of_job.first.append(FirstSeed(*seed))
    return found
