"""The open request of a job's delete guard for approval."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connection

from jobs.lifecycle.job import Guard
from jobs.models import Job, RemovalQuestion, Restoration
from jobs.queue.removing.tombstones import CLEARED, TAKEN_AWAY

# Documents of a run that are counted, at most.
COUNTED_AT_MOST: Final = 10_000
_RESTORATIONS: Final = 10


@dataclass(frozen=True, slots=True)
class Removals:
    """A job's removals. `question` is None if no removal waits for approval; `restorations` begin with the newest."""

    job: Job
    question: "Question | None"
    runs: "Sequence[RunRemovals]" = ()
    outputs: "Sequence[OutputRemovals]" = ()
    restorations: Sequence[Restoration] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Question:
    """The removals of a run's clean-up, as they were counted when the run ended."""

    run_no: int
    asked_at: dt.datetime
    leaving: int
    staying: int
    cause: str
    hosts: Sequence[Mapping[str, Any]]
    parents: Sequence[Mapping[str, Any]]
    seeds: Sequence[Mapping[str, Any]]
    examples: Sequence[str]


def read_removals(job_id: int) -> Removals | None:
    """Return the removals of a job; None if there is no such job."""
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        return None
    restorations = Restoration.objects.filter(job_id=job_id).order_by("-pk")[:_RESTORATIONS]
    return Removals(job, _question_of(job), read_runs(job_id), read_outputs(job_id), list(restorations))


def _question_of(job: Job) -> Question | None:
    row = RemovalQuestion.objects.filter(job=job).first() if job.guard == Guard.WAITING else None
    if row is None:
        return None
    return Question(
        run_no=row.run_no,
        asked_at=row.asked_at,
        leaving=row.leaving,
        staying=row.staying,
        cause=row.cause,
        hosts=row.hosts,
        parents=row.parents,
        seeds=row.seeds,
        examples=row.examples,
    )


# The runs with tombstones, by one step of the index each.
_RUNS: Final = """
WITH RECURSIVE run AS (
    (SELECT run_no FROM jobs_tombstone WHERE job_id = %(job)s AND run_no > 0 ORDER BY run_no DESC LIMIT 1)
     UNION ALL
    SELECT (SELECT run_no FROM jobs_tombstone WHERE job_id = %(job)s AND run_no > 0 AND run_no < run.run_no ORDER BY run_no DESC LIMIT 1)
      FROM run WHERE run.run_no IS NOT NULL
)
SELECT run.run_no, counted.documents, counted.last_at
  FROM run
 CROSS JOIN LATERAL (SELECT count(DISTINCT hash) AS documents, max(removed_at) AS last_at
                       FROM (SELECT hash, removed_at FROM jobs_tombstone
                              WHERE job_id = %(job)s AND run_no = run.run_no LIMIT %(most)s) AS first_ones) AS counted
 WHERE run.run_no IS NOT NULL
 ORDER BY run.run_no DESC
 LIMIT 20
"""


@dataclass(frozen=True, slots=True)
class RunRemovals:
    """Removals of a run that can be undone: its documents, counted up to 10,000, and the moment of the last removal."""

    run_no: int
    documents: int
    last_at: dt.datetime


def read_runs(job_id: int) -> list[RunRemovals]:
    """Return the newest runs of a job whose removals can be restored."""
    with connection.cursor() as cursor:
        cursor.execute(_RUNS, {"job": job_id, "most": COUNTED_AT_MOST})
        return [RunRemovals(*row) for row in cursor.fetchall()]


# An operator's orders about outputs have run 0. The count of a large output is a lower bound.
_OUTPUTS: Final = """
SELECT output.id, output.name, count(DISTINCT stone.hash), max(stone.removed_at), bool_or(stone.cause = %(taken_away)s)
  FROM (SELECT output_id, hash, removed_at, cause FROM jobs_tombstone
         WHERE job_id = %(job)s AND run_no = 0 LIMIT %(most)s) AS stone
  JOIN jobs_outputconnection AS output ON output.id = stone.output_id
 GROUP BY output.id, output.name
 ORDER BY output.name
"""


@dataclass(frozen=True, slots=True)
class OutputRemovals:
    """Documents that an operator's order took out of an output; `was_taken_away` if the job lost the output, too."""

    output_id: int
    output: str
    documents: int
    last_at: dt.datetime
    was_taken_away: bool


def read_outputs(job_id: int) -> list[OutputRemovals]:
    """Return the outputs that were cleared or taken away from a job, if their documents can be restored."""
    with connection.cursor() as cursor:
        cursor.execute(_OUTPUTS, {"job": job_id, "most": COUNTED_AT_MOST, "taken_away": TAKEN_AWAY})
        return [OutputRemovals(*row) for row in cursor.fetchall()]


# One step of the index of each job.
_OF_CLEARED: Final = """
SELECT job.id FROM jobs_job AS job
 WHERE EXISTS (SELECT FROM jobs_tombstone AS stone
                WHERE stone.job_id = job.id AND stone.run_no = 0 AND stone.output_id = %(output)s AND stone.cause = %(cleared)s)
"""


def jobs_of_cleared_output(output_id: int) -> list[int]:
    """Return the jobs that have documents to restore into an output that was cleared."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_CLEARED, {"output": output_id, "cleared": CLEARED})
        return [row[0] for row in cursor.fetchall()]
