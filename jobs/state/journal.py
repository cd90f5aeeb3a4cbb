"""Events of jobs as readable rows, each written in the transaction that it describes."""

import datetime as dt
from typing import Any

from jobs.lifecycle.activity import ActivityName
from jobs.models import Activity, Job, JobEvent
from jobs.settings.table import KEEP_HISTORY
from nodes.settings.running import current


def record(
    job: Job, *, kind: str, message: str, made_by: str, now: dt.datetime, detail: dict[str, Any] | None = None
) -> JobEvent:
    """Write one row of a job's journal."""
    return JobEvent.objects.create(
        job=job, job_name=job.name, at=now, kind=kind, made_by=made_by, message=message, detail=detail or {}
    )


def remember(job: Job, *, activity: ActivityName, code: str, description: str, now: dt.datetime) -> None:
    """Write one row about the job itself into the history, if a history is kept."""
    if current()[KEEP_HISTORY]:
        Activity.objects.create(
            started_at=now,
            job_id=job.pk,
            repository_id=job.repository_id,
            activity=activity,
            entity=f"{job.pk}({job.name})",
            result_code=code,
            result_description=description,
        )
