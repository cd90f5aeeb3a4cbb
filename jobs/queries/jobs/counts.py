"""Counts of documents of many jobs at once, each for the job's present run."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.queue.counting.counters import RunCounts
from jobs.queue.sql.low_water import LOWEST_DELTA

# The condition on the run is in both branches, so that each reads its index and not its table.
_OF_PRESENT_RUNS: Final = f"""
SELECT job_id, measure, stage, outcome, sum(amount)::bigint AS amount
  FROM (SELECT counter.job_id, measure, stage, outcome, amount
          FROM jobs_job AS job JOIN jobs_jobcounter AS counter ON counter.job_id = job.id AND counter.run_no = job.run_no
         WHERE job.id = ANY(%(jobs)s)
         UNION ALL
        SELECT delta.job_id, measure, stage, outcome, amount
          FROM jobs_job AS job JOIN jobs_counterdelta AS delta ON delta.job_id = job.id AND delta.run_no = job.run_no
         WHERE job.id = ANY(%(jobs)s) AND delta.id >= {LOWEST_DELTA}) AS both_
 GROUP BY job_id, measure, stage, outcome
"""


def count_present_runs(job_ids: Iterable[int]) -> dict[int, RunCounts]:
    """Return the counts of each job's present run (without codes); all zero for a run without counts."""
    wanted = list(job_ids)
    found: dict[int, dict[tuple[str, int, int], int]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(_OF_PRESENT_RUNS, {"jobs": wanted})
        for job_id, measure, stage, outcome, amount in cursor.fetchall():
            found[job_id][measure, stage, outcome] = amount
    return {job_id: _as_counts(found[job_id]) for job_id in wanted}


def add_up(counts: Iterable[RunCounts]) -> RunCounts:
    """Return the sum of counts (without codes)."""
    names = ("pending", "active", "indexed", "unchanged", "failed", "excluded", "deleted", "bytes", "offered")
    every = list(counts)
    return RunCounts(**{name: sum(getattr(one, name) for one in every) for name in names})


def _as_counts(amounts: dict[tuple[str, int, int], int]) -> RunCounts:
    def at(stage: Stage) -> int:
        return sum(amount for (measure, where, _), amount in amounts.items() if (measure, where) == ("stage", stage))

    def ended(outcome: Outcome) -> int:
        return amounts.get(("stage", Stage.DONE, outcome), 0)

    def event(measure: str) -> int:
        return sum(amount for (name, _, _), amount in amounts.items() if name == measure)

    return RunCounts(
        pending=at(Stage.PENDING),
        active=at(Stage.ACTIVE),
        indexed=ended(Outcome.INDEXED),
        unchanged=ended(Outcome.UNCHANGED),
        failed=ended(Outcome.FAILED),
        excluded=ended(Outcome.EXCLUDED),
        deleted=event("deleted"),
        bytes=event("bytes"),
        offered=event("offered"),
    )
