"""What happened to jobs, in rows that people read. Written in the transaction of what they report."""

import datetime as dt
from typing import Any

from jobs.models import Job, JobEvent


def record(
    job: Job, *, kind: str, message: str, made_by: str, now: dt.datetime, detail: dict[str, Any] | None = None
) -> JobEvent:
    """Write one row of a job's journal."""
    return JobEvent.objects.create(
        job=job, job_name=job.name, at=now, kind=kind, made_by=made_by, message=message, detail=detail or {}
    )
