"""Calls by which operators restore removed documents and deleted jobs. Workers do the work behind them."""

import datetime as dt
from typing import Final

from django.db import transaction

from jobs import journal
from jobs.deleted_jobs import CannotComeBack, dig_out
from jobs.lifecycle.job import Phase
from jobs.models import DeletedJob, Job, Restoration
from jobs.queries.removals import read_runs
from jobs.transitions import JobUnknown

__all__ = ["CannotComeBack", "NothingToRestore", "find_deleted", "restore", "restore_deleted"]

# As the removal of a deleted job's documents is called.
_DELETED: Final = "job deleted"


class NothingToRestore(Exception):
    """A job has no removed documents that could be brought back, or cannot take them now."""


def restore(
    job_id: int, *, run_no: int | None = None, since: dt.datetime | None = None, made_by: str, now: dt.datetime
) -> Restoration:
    """
    Bring back what a run of a job removed, the newest run with removals if none is named; only what was removed `since`.

    Raises:
        JobUnknown: there is no such job.
        NothingToRestore: no such removal is kept, or the job is removing documents now.
    """
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise JobUnknown(job_id)
    if job.phase == Phase.SHUTTING_DOWN:
        raise NothingToRestore(f"Job {job.name} removes documents just now: abort it, or wait until it has ended.")
    runs = {run.run_no: run for run in read_runs(job_id)}
    if run_no is None:
        run_no = max(runs, default=job.run_no)
    if run_no not in runs or (since is not None and runs[run_no].last_at < since):
        raise NothingToRestore(
            f"Job {job.name} has no documents that run {run_no} removed and that can be brought back."
        )
    same = {"job_id": job_id, "run_no": run_no, "since": since, "cause": ""}
    with transaction.atomic():
        # A second request for the same restoration is not done again.
        open_one = Restoration.objects.filter(**same, ended_at=None).first()
        if open_one is not None:
            return open_one
        wanted = Restoration.objects.create(**same, asked_at=now, asked_by=made_by)
        message = f"is to get back what run {run_no} removed"
        journal.record(job, kind="restore", message=message, made_by=made_by, now=now)
    return wanted


def restore_deleted(job_id: int, *, made_by: str, now: dt.datetime) -> Restoration:
    """
    Bring back a job that was deleted, with the documents that its deletion removed.

    Raises:
        CannotComeBack: the job is no longer kept, its name is taken, or something that it needs no longer exists.
    """
    with transaction.atomic():
        job = dig_out(job_id, now=now)
        wanted = Restoration.objects.create(
            job_id=job_id, run_no=job.run_no, cause=_DELETED, asked_at=now, asked_by=made_by
        )
        journal.record(job, kind="restore_deleted", message="was brought back", made_by=made_by, now=now)
    return wanted


def find_deleted(name: str) -> DeletedJob | None:
    """Return the job of this name that was deleted last."""
    return DeletedJob.objects.filter(name=name).order_by("-deleted_at").first()
