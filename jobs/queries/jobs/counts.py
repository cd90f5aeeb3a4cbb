"""Counts of documents of many jobs in one query, each for the present run of the job."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.partitions import this_partition
from jobs.partitions.merged import Silent, local_job, read_everywhere
from jobs.queue.counting.counters import RunCounts, read_run
from jobs.queue.sql.low_water import LOWEST_DELTA

# The condition on the run is in both branches, so that each branch reads an index and not the whole table.
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


# Reads the figures that other partitions sent about the same run of a job (`jobs.duties.exchange`).
_IN_OTHER_PARTITIONS: Final = """
SELECT known.job_id, reported.body
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
 CROSS JOIN LATERAL (SELECT DISTINCT ON (source) body FROM jobs_partitionfact
                      WHERE key = 'figures:' || known.number AND source <> %(here)s
                      ORDER BY source, number DESC) AS reported
 WHERE known.job_id = ANY(%(jobs)s) AND (reported.body ->> 'run_no')::int = job.run_no
"""


def count_present_runs(job_ids: Iterable[int]) -> dict[int, RunCounts]:
    """
    Return the counts of each job's present run (without codes); all zero for a run without counts.

    In the control partition they contain the last figures of the other partitions, some seconds old.
    """
    counts = count_own_documents(job_ids)
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        return counts
    with connection.cursor() as cursor:
        cursor.execute(_IN_OTHER_PARTITIONS, {"jobs": list(counts), "here": placement.here})
        for job_id, body in cursor.fetchall():
            counts[job_id] = add_up([counts[job_id], RunCounts(**json.loads(body)["counts"])])
    return counts


def count_own_documents(job_ids: Iterable[int], *, cursor: Any = None) -> dict[int, RunCounts]:
    """Return the counts of each job's present run in this partition, over Django's connection or with this cursor."""
    wanted = list(job_ids)
    found: dict[int, dict[tuple[str, int, int], int]] = defaultdict(dict)
    with cursor or connection.cursor() as reading:
        reading.execute(_OF_PRESENT_RUNS, {"jobs": wanted})
        for job_id, measure, stage, outcome, amount in reading.fetchall():
            found[job_id][measure, stage, outcome] = amount
    return {job_id: _as_counts(found[job_id]) for job_id in wanted}


@dataclass(frozen=True, slots=True)
class CountsEverywhere:
    """Exact counts of a job's present run with its codes, in all partitions except silent partitions."""

    counts: RunCounts
    silent: Sequence[Silent] = ()


def read_counts_everywhere(job_id: int, *, run_no: int) -> CountsEverywhere:
    """Return the exact counts of a run, read in all databases at this moment."""

    def elsewhere(_name: str) -> RunCounts:
        local = local_job(job_id)
        return RunCounts() if local is None else read_exactly(local)

    def read_exactly(number: int) -> RunCounts:
        connection.ensure_connection()
        return read_run(connection.connection, job_id=number, run_no=run_no)

    found = read_everywhere(lambda: read_exactly(job_id), elsewhere)
    return CountsEverywhere(add_up([found.own, *found.others.values()]), found.silent)


def add_up(counts: Iterable[RunCounts]) -> RunCounts:
    """Return the sum of counts."""
    names = ("pending", "active", "indexed", "unchanged", "failed", "excluded", "deleted", "bytes", "offered")
    every = list(counts)
    codes: Counter[str] = Counter()
    for one in every:
        codes.update(one.codes)
    return RunCounts(
        **{name: sum(getattr(one, name) for one in every) for name in names}, codes=dict(sorted(codes.items()))
    )


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
