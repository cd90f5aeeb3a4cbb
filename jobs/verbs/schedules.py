"""
Operations of operators on schedules: a paused schedule starts no run until it is resumed.

A run in progress continues, and still waits for its windows. Windows that open during the pause start no run, even
after it.
"""

import datetime as dt
from typing import Final

from django.db import transaction

from jobs.lifecycle.job import StartMethod
from jobs.models import Job
from jobs.state import journal
from jobs.state.transitions import lock_job
from nodes.errors import Refused
from nodes.lifecycle import CLUSTER_SCOPE

# Largest number of schedules that one request pauses or resumes.
_MOST: Final = 10_000


def pause(job_id: int, *, made_by: str, now: dt.datetime) -> Job:
    """
    Pause the schedule of a job, and return the job. A paused schedule stays as it is.

    Raises:
        Refused: the job has no schedule.
        Unknown: the job does not exist.
    """
    with transaction.atomic():
        job = _lock(job_id)
        if job.schedule_paused_at is None:
            job.schedule_paused_at, job.schedule_paused_by = now, made_by[:200]
            job.save(update_fields=["schedule_paused_at", "schedule_paused_by"])
            journal.record(job, kind="schedule paused", message="its schedule was paused", made_by=made_by, now=now)
    return job


def resume(job_id: int, *, made_by: str, now: dt.datetime) -> Job:
    """
    Resume the schedule of a job, and return the job. A schedule that is not paused stays as it is.

    Raises:
        Refused: the job has no schedule.
        Unknown: the job does not exist.
    """
    with transaction.atomic():
        job = _lock(job_id)
        if job.schedule_paused_at is not None:
            job.schedule_paused_at, job.schedule_paused_by = None, ""
            # Windows that opened meanwhile are skipped, and the schedule is checked immediately.
            job.schedule_checked_at, job.schedule_due_at, job.missed_window_at = now, None, None
            job.save(
                update_fields=[
                    *("schedule_paused_at", "schedule_paused_by"),
                    *("schedule_checked_at", "schedule_due_at", "missed_window_at"),
                ]
            )
            journal.record(job, kind="schedule resumed", message="its schedule was resumed", made_by=made_by, now=now)
    return job


def pause_all(*, made_by: str, now: dt.datetime) -> int:
    """Pause all schedules of the cluster; return the number of paused schedules."""
    return sum(pause(key, made_by=made_by, now=now) is not None for key in _with_schedules(paused=False))


def resume_all(*, made_by: str, now: dt.datetime) -> int:
    """Resume all paused schedules of the cluster; return the number of resumed schedules."""
    return sum(resume(key, made_by=made_by, now=now) is not None for key in _with_schedules(paused=True))


def _with_schedules(*, paused: bool) -> list[int]:
    jobs = Job.objects.exclude(start_method=StartMethod.MANUAL).filter(
        node_scope=CLUSTER_SCOPE, schedule_paused_at__isnull=not paused
    )
    return list(jobs.order_by("pk").values_list("pk", flat=True)[:_MOST])


def _lock(job_id: int) -> Job:
    job = lock_job(job_id)
    if job.start_method == StartMethod.MANUAL:
        raise Refused(f"Job {job.name} has no schedule: it starts by hand.")
    return job
