"""Jobs as lines of a list, with their latest requests in all partitions."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from jobs.models import Job
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import numbers_of
from jobs.queries.hosts.latest_requests import RequestsOfJobs, judge_together, read_latest_requests
from jobs.queries.jobs.lines import JobLine, job_lines
from nodes.database.clock import read_clock


def job_lines_everywhere(jobs: Iterable[Job], *, now: dt.datetime) -> list[JobLine]:
    """Return jobs with their counts, as `job_lines`. The requests in other partitions are some seconds old."""
    lines = job_lines(jobs, now=now)
    running = [line.id for line in lines if line.runs]
    cached = _CACHED.answers() if running else None
    if cached is None:
        return lines
    own = read_latest_requests(now=now)
    found = cached.with_own({job_id: own.of_jobs([job_id]) for job_id in running})
    parts = [found.own, *(part for _name, part in sorted(found.others.items()))]
    return [with_latest(line, parts) for line in lines]


def with_latest(job: JobLine, parts: Sequence[Mapping[int, RequestsOfJobs]]) -> JobLine:
    """Return the line of a job with its latest requests in these partitions."""
    some = [part[job.id] for part in parts if job.id in part]
    return replace(job, latest=judge_together(some)) if len(some) > 1 else job


def read_latest_by_number(*, now: dt.datetime) -> Mapping[int, RequestsOfJobs]:
    """Return the latest requests in the database of this thread, by the ids of jobs in the control partition."""
    latest = read_latest_requests(now=now)
    return {number: latest.of_jobs([job]) for job, number in numbers_of(set(latest.job_ids)).items()}


_CACHED: Final = HeldAnswers(lambda _name: read_latest_by_number(now=read_clock()))
