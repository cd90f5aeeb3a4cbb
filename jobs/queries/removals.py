"""What a job would remove: the open question of its delete guard."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.lifecycle.job import Guard
from jobs.models import Job, RemovalQuestion


@dataclass(frozen=True, slots=True)
class Removals:
    """A job's removals. `question` is None where none waits for approval."""

    job: Job
    question: "Question | None"


@dataclass(frozen=True, slots=True)
class Question:
    """What the clean-up of a run would remove, as it was counted when the run ended."""

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
    """Return what a job would remove; None if there is no such job."""
    job = Job.objects.filter(pk=job_id).first()
    return None if job is None else Removals(job, _question_of(job))


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
