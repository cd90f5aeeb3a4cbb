"""
Comparison of a job's counters with its documents, and with the sum of its lanes' counters.

Each statement compares some lanes, in one snapshot. A process that moves a document counts it in the same transaction,
so counters and documents agree in every snapshot, also of a running crawl. The comparison takes no locks, and its
memory does not grow with the queue. A lane is read in one statement, even a long one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.models import Job
from jobs.queue.counting.repair import COUNTED_AND_EXISTING, repair_lanes, repair_sums

_LANES_AT_ONCE: Final = 200

# The lanes of the job's seeds, and further lanes that only have counters.
_LANES: Final = """
SELECT id
  FROM (SELECT lane.id FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
         WHERE seed.job_id = %(job)s AND lane.id > %(after)s
         UNION
        SELECT lane_id FROM jobs_counter WHERE job_id = %(job)s AND lane_id > %(after)s
         UNION
        SELECT lane_id FROM jobs_counterdelta WHERE job_id = %(job)s AND lane_id > %(after)s) AS lane
 ORDER BY id LIMIT %(limit)s
"""
_COMPARE: Final = f"""
WITH {COUNTED_AND_EXISTING}
SELECT both_.lane_id, coalesce(bin.name, ''), both_.run_no, both_.stage, both_.code,
       both_.counted::bigint, both_.existing::bigint, (SELECT coalesce(sum(existing), 0)::bigint FROM both_)
  FROM (SELECT 1) AS always
  LEFT JOIN both_ ON both_.counted <> both_.existing
  LEFT JOIN jobs_lane AS lane ON lane.id = both_.lane_id LEFT JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 ORDER BY 1, 3, 4, 5
"""
# One statement writes both the counts of lanes and of jobs, so they agree in every snapshot.
_COMPARE_SUMS: Final = """
SELECT run_no, measure, stage, code, sum(of_job)::bigint, sum(of_lanes)::bigint
  FROM (SELECT run_no, measure, stage, outcome, code, amount AS of_job, 0 AS of_lanes FROM jobs_jobcounter WHERE job_id = %(job)s
         UNION ALL
        SELECT run_no, measure, stage, outcome, code, 0, amount FROM jobs_counter WHERE job_id = %(job)s) AS both_
 GROUP BY run_no, measure, stage, outcome, code
HAVING sum(of_job) <> sum(of_lanes)
 ORDER BY run_no, measure, stage, code
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """
    A wrong count of one lane: in this run, stage and code, the counters have `counted` documents, and `existing`
    documents exist.
    """

    lane: int
    host: str
    run_no: int
    stage: Stage
    code: str
    counted: int
    existing: int


@dataclass(frozen=True, slots=True)
class WrongSum:
    """
    A wrong sum of a job: the job's own count in a run, and the sum of the counts of its lanes, which should be equal.
    """

    run_no: int
    measure: str
    stage: Stage
    code: str
    of_job: int
    of_lanes: int


@dataclass(frozen=True, slots=True)
class Compared:
    """Some lanes of a job: the number of their documents, and the wrong counts."""

    documents: int
    differences: list[Difference]


def compare_counters(job: Job) -> Iterator[Compared]:
    """Compare the counters of all runs of a job with its documents, a few lanes at a time."""
    after = 0
    while lanes := _lanes_of(job, after=after):
        after = lanes[-1]
        with connection.cursor() as cursor:
            cursor.execute(_COMPARE, {"job": job.pk, "lanes": lanes, "done": Stage.DONE})
            rows = cursor.fetchall()
        yield Compared(
            documents=rows[0][-1],
            differences=[
                Difference(lane, host, run_no, Stage(stage), code, counted, existing)
                for lane, host, run_no, stage, code, counted, existing, _ in rows
                if lane is not None
            ],
        )


def find_wrong_sums(job: Job) -> list[WrongSum]:
    """Return the counts of a job that differ from the sums of the counts of its lanes."""
    with connection.cursor() as cursor:
        cursor.execute(_COMPARE_SUMS, {"job": job.pk})
        return [
            WrongSum(run_no, measure, Stage(stage), code, of_job, of_lanes)
            for run_no, measure, stage, code, of_job, of_lanes in cursor.fetchall()
        ]


def repair_counters(job: Job) -> int:
    """Correct the counts of a job, also while it runs; return the number of wrong counts."""
    connection.ensure_connection()
    plain = connection.connection
    repaired, after = repair_sums(plain, job_id=job.pk), 0
    while lanes := _lanes_of(job, after=after):
        after = lanes[-1]
        repaired += repair_lanes(plain, job_id=job.pk, lanes=lanes)
    return repaired


def _lanes_of(job: Job, *, after: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(_LANES, {"job": job.pk, "after": after, "limit": _LANES_AT_ONCE})
        return [lane for (lane,) in cursor.fetchall()]
