"""
Runs of which no seed could be read.

An ended run does not change, so a process reads the seeds of each run once. For most jobs, the first seed is enough.
"""

import contextlib
import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.db import connection

from jobs.connectors.repository import registry
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import BadIdentifier
from jobs.lifecycle.document import Stage
from jobs.models import Job, Outcome
from jobs.queries.jobs.seed_endings import failed_seeds_code

# Largest number of runs that are cached.
_REMEMBERED: Final = 1_000
_KNOWN: Final[dict[tuple[int, int, dt.datetime], str]] = {}

_FIRST_SEEDS: Final = """
SELECT DISTINCT ON (seed.job_id) seed.job_id, repository.connector, seed.urls[1]
  FROM jobs_seed AS seed
  JOIN jobs_job AS job ON job.id = seed.job_id
  JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
 WHERE seed.job_id = ANY(%(jobs)s) AND seed.removed_at IS NULL
 ORDER BY seed.job_id, seed.id
"""
_NOT_READ: Final = f"""
SELECT item.job_id
  FROM unnest(%(jobs)s::bigint[], %(hashes)s::uuid[]) AS first(job_id, hash)
  JOIN jobs_queueitem AS item ON item.job_id = first.job_id AND item.hash = first.hash
  JOIN jobs_job AS job ON job.id = item.job_id AND job.run_no = item.run_no
 WHERE item.stage = {Stage.DONE:d} AND item.outcome NOT IN ({Outcome.INDEXED:d}, {Outcome.UNCHANGED:d})
"""


def read_failed_seeds(jobs: Iterable[Job]) -> dict[int, str]:
    """Return the most frequent result code of each of these ended jobs whose seeds could not be read, by job id."""
    runs = [(job.pk, job.run_no, job.ended_at) for job in jobs if job.ended_at is not None]
    if len(_KNOWN) > _REMEMBERED:
        _KNOWN.clear()
    new = [run for run in runs if run not in _KNOWN]
    if new:
        _KNOWN.update(dict.fromkeys(new, ""))
        suspects = set(_first_seeds_not_read([run[0] for run in new]))
        for run in new:
            if run[0] in suspects:
                _KNOWN[run] = failed_seeds_code(Job.objects.select_related("repository").get(pk=run[0]))
    return {run[0]: _KNOWN[run] for run in runs if _KNOWN[run]}


def _first_seeds_not_read(job_ids: Sequence[int]) -> list[int]:
    """Return the jobs whose first seed ended in the last run and could not be read, or redirected."""
    first: dict[int, uuid.UUID] = {}
    for job_id, connector, url in _rows(_FIRST_SEEDS, {"jobs": list(job_ids)}):
        kind = registry.installed().get(connector)
        with contextlib.suppress(BadIdentifier):
            if kind is not None and url:
                first[job_id] = uuid.UUID(hash_of(kind.canonical(url)))
    rows = _rows(_NOT_READ, {"jobs": list(first), "hashes": list(first.values())})
    return [job_id for (job_id,) in rows]


def _rows(query: str, facts: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, facts)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
