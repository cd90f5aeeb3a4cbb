"""The removals of a job that wait for approval or can be restored, and its restorations."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from django.db import connection

from jobs.lifecycle.job import Guard
from jobs.models import Job, OutputConnection, RemovalQuestion, Restoration
from jobs.partitions.merged import Merged, Silent, local_job, read_everywhere
from jobs.queue.removing.tombstones import CLEARED, TAKEN_AWAY

# Largest number of removed documents that are counted for a run.
COUNTED_AT_MOST: Final = 10_000
_RESTORATIONS: Final = 10
# Largest number of runs in the list. `_RUNS` has this limit, too.
_RUNS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Removals:
    """
    A job's removals. `question` is None if no removal waits for approval.

    `restorations` begin with the newest. Removals of the `silent` partitions are missing, because these did not answer.
    """

    job: Job
    question: "Question | None"
    runs: "Sequence[RunRemovals]" = ()
    outputs: "Sequence[OutputRemovals]" = ()
    restorations: Sequence[Restoration] = field(default_factory=tuple)
    silent: Sequence[Silent] = ()


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


def read_removals_everywhere(job_id: int) -> Removals | None:
    """
    Return the removals of a job in all partitions, with the ids of this partition; None if there is no such job.

    The numbers of documents of a run, or of a removal from an output, are added up. The numbers of the request for
    approval are not, because it covers all partitions.
    """
    found: Merged[_Part | None] = read_everywhere(lambda: None, lambda _name: _read_part(job_id))
    own = read_removals(job_id)
    if own is None or not (found.others or found.silent):
        return own
    parts = {name: part for name, part in sorted(found.others.items()) if part is not None}
    names = {name for part in parts.values() for name in part.names.values()}
    here = dict(OutputConnection.objects.filter(name__in=names).values_list("name", "pk"))
    runs, outputs = {run.run_no: run for run in own.runs}, {one.output: one for one in own.outputs}
    restorations = list(own.restorations)
    for partition, part in parts.items():
        for run in part.runs:
            runs[run.run_no] = _added(runs.get(run.run_no), run)
        for output in part.outputs:
            if output.output in here:
                known = outputs.get(output.output)
                added = _added(known, replace(output, output_id=here[output.output]))
                was_taken_away = output.was_taken_away or (known is not None and known.was_taken_away)
                outputs[output.output] = replace(added, was_taken_away=was_taken_away)
        for one in part.restorations:
            one.partition, one.job_id = partition, job_id
            one.output_id = here.get(part.names.get(one.output_id or 0, ""))
        restorations += part.restorations
    return Removals(
        own.job,
        own.question,
        [runs[run_no] for run_no in sorted(runs, reverse=True)][:_RUNS_SHOWN],
        [outputs[name] for name in sorted(outputs)],
        sorted(restorations, key=lambda one: one.asked_at, reverse=True)[:_RESTORATIONS],
        found.silent,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """The removals of another partition, and the names of its outputs by their ids in that partition."""

    runs: "Sequence[RunRemovals]"
    outputs: "Sequence[OutputRemovals]"
    restorations: Sequence[Restoration]
    names: Mapping[int, str]


def _read_part(number: int) -> _Part | None:
    job_id = local_job(number)
    found = None if job_id is None else read_removals(job_id)
    if found is None:
        return None
    numbers = {one.output_id for one in found.outputs} | {one.output_id for one in found.restorations}
    names = dict(
        OutputConnection.objects.filter(pk__in=[one for one in numbers if one is not None]).values_list("pk", "name")
    )
    return _Part(found.runs, found.outputs, found.restorations, names)


_R = TypeVar("_R", "RunRemovals", "OutputRemovals")


def _added(one: _R | None, other: _R) -> _R:
    """Return the removals of two partitions together."""
    if one is None:
        return other
    return replace(
        one,
        documents=one.documents + other.documents,
        last_at=max(one.last_at, other.last_at),
        is_least=one.is_least or other.is_least,
    )


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


# Reads the runs that have tombstones. Each run takes one look-up in the index.
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
    """
    Removals of a run that can be undone: its documents, and the moment of the last removal.

    Each partition counts up to 10,000 documents. `is_least` is true if a partition has more, so that the number is a
    lower limit.
    """

    run_no: int
    documents: int
    last_at: dt.datetime
    is_least: bool


def read_runs(job_id: int) -> list[RunRemovals]:
    """Return the newest runs of a job whose removals can be restored."""
    with connection.cursor() as cursor:
        cursor.execute(_RUNS, {"job": job_id, "most": COUNTED_AT_MOST})
        return [RunRemovals(run, number, at, number >= COUNTED_AT_MOST) for run, number, at in cursor.fetchall()]


# An operator's removals from outputs have run 0. The count of a large output is a lower bound.
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
    """
    Documents that an operator removed from an output. `was_taken_away` is true if the output was also removed from the
    job.
    """

    output_id: int
    output: str
    documents: int
    last_at: dt.datetime
    was_taken_away: bool
    is_least: bool


def read_outputs(job_id: int) -> list[OutputRemovals]:
    """Return the outputs that were cleared or taken away from a job, if their documents can be restored."""
    with connection.cursor() as cursor:
        cursor.execute(_OUTPUTS, {"job": job_id, "most": COUNTED_AT_MOST, "taken_away": TAKEN_AWAY})
        return [
            OutputRemovals(number, name, documents, at, was_taken, documents >= COUNTED_AT_MOST)
            for number, name, documents, at, was_taken in cursor.fetchall()
        ]


# One look-up in the index for each job.
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
