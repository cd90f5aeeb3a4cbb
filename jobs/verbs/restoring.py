"""
Operations of operators that restore removed documents and deleted jobs. They store a request, which workers execute
later.
"""

import datetime as dt
from typing import Final

from django.db import transaction

from jobs.lifecycle.job import Phase
from jobs.models import DeletedJob, Job, OutputConnection, Restoration
from jobs.queries.jobs.removals import jobs_of_cleared_output, read_outputs, read_runs
from jobs.queue.removing.tombstones import CLEARED, NO_RUN
from jobs.state import journal
from jobs.state.deleted_jobs import recreate_deleted_job
from jobs.state.transitions import lock_job
from jobs.verbs import editing
from nodes.errors import Refused, Unknown

__all__ = [
    "NothingRemoved",
    "Refused",
    "find_deleted",
    "restore",
    "restore_cleared",
    "restore_deleted",
    "restore_output",
]

# The cause that tombstones of a deleted job's documents have.
_DELETED: Final = "job deleted"


class NothingRemoved(Refused):
    """The removals that the request names are not kept, or do not exist."""


def restore(
    job_id: int, *, run_no: int | None = None, since: dt.datetime | None = None, made_by: str, now: dt.datetime
) -> Restoration:
    """
    Restore the removals of a run of a job, by default of the newest run with removals. `since` restores only later
    removals.

    Raises:
        Unknown: the job does not exist.
        Refused: no such removal is kept, or the job is removing documents now.
    """
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise Unknown("job", job_id)
    if job.phase == Phase.SHUTTING_DOWN:
        raise Refused(f"Job {job.name} is removing documents. Abort it, or wait until it has ended.")
    runs = {run.run_no: run for run in read_runs(job_id)}
    if run_no is None:
        run_no = max(runs, default=job.run_no)
    if run_no not in runs or (since is not None and runs[run_no].last_at < since):
        raise NothingRemoved(f"Job {job.name} has no removals of run {run_no} that can be restored.")
    same = {"job_id": job_id, "run_no": run_no, "since": since, "cause": "", "output_id": None}
    with transaction.atomic():
        # If the same restoration is already requested and has not ended, a second request has no effect.
        open_one = Restoration.objects.filter(**same, ended_at=None).first()
        if open_one is not None:
            return open_one
        wanted = Restoration.objects.create(**same, asked_at=now, asked_by=made_by)
        message = f"restores what run {run_no} removed"
        journal.record(job, kind="restore", message=message, made_by=made_by, now=now)
    return wanted


def restore_output(job_id: int, output_id: int, *, made_by: str, now: dt.datetime) -> Restoration:
    """
    Restore documents that an operator removed from an output of a job. If the job has lost the output, it gets the
    output again.

    Raises:
        Invalid: the job lost the output, and cannot be changed now.
        Unknown: the job does not exist.
        Refused: no such removal is kept.
    """
    with transaction.atomic():
        job = lock_job(job_id)
        output = _stop_clearing(output_id)
        if output is None or output_id not in {found.output_id for found in read_outputs(job_id)}:
            name = output.name if output else str(output_id)
            raise NothingRemoved(
                f"Job {job.name} has no documents that were removed from output {name} and can be restored."
            )
        return_output(job, output, made_by=made_by, now=now)
        return _restore_into(job, output, cause="", made_by=made_by, now=now)


def return_output(job: Job, output: OutputConnection, *, made_by: str, now: dt.datetime) -> None:
    """
    Give a job an output that it lost.

    Raises:
        Invalid: the job cannot be changed now.
    """
    outputs = list(job.outputs.order_by("pk"))
    if output not in outputs:
        editing.change_job(job.pk, outputs=[*outputs, output], made_by=made_by, now=now)


def restore_cleared(output_id: int, *, made_by: str, now: dt.datetime) -> list[Restoration]:
    """
    Restore the documents of a cleared output, for all jobs that have the output. If workers are still clearing it, they
    stop.

    Raises:
        Refused: no such removal is kept, or the output does not exist.
    """
    with transaction.atomic():
        output = _stop_clearing(output_id)
        if output is None:
            raise Refused(f"There is no output {output_id}.")
        jobs = list(Job.objects.filter(pk__in=jobs_of_cleared_output(output_id), outputs=output).order_by("pk"))
        if not jobs:
            raise NothingRemoved(f"Output {output.name} was not cleared, or its removed documents are no longer kept.")
        return [_restore_into(job, output, cause=CLEARED, made_by=made_by, now=now) for job in jobs]


def _stop_clearing(output_id: int) -> OutputConnection | None:
    """
    Stop the clearing of an output, and return the output. The row of the output is locked, so that no chunk is removed
    meanwhile.
    """
    output = OutputConnection.objects.select_for_update(no_key=True).filter(pk=output_id).first()
    if output is not None and output.clear_before is not None:
        output.clear_before = None
        output.save(update_fields=["clear_before"])
    return output


def _restore_into(job: Job, output: OutputConnection, *, cause: str, made_by: str, now: dt.datetime) -> Restoration:
    same = {"job_id": job.pk, "run_no": NO_RUN, "output_id": output.pk, "cause": cause}
    open_one = Restoration.objects.filter(**same, ended_at=None).first()
    if open_one is not None:
        return open_one
    message = f"restores the documents that were removed from output {output.name}"
    journal.record(job, kind="restore", message=message, made_by=made_by, now=now)
    return Restoration.objects.create(**same, asked_at=now, asked_by=made_by)


def restore_deleted(job_id: int, *, made_by: str, now: dt.datetime) -> Restoration:
    """
    Restore a deleted job, with the documents that its deletion removed.

    Raises:
        Refused: the job is no longer kept, its name is taken, or an object that it needs no longer exists.
    """
    with transaction.atomic():
        job = recreate_deleted_job(job_id, now=now)
        wanted = Restoration.objects.create(
            job_id=job_id, run_no=job.run_no, cause=_DELETED, asked_at=now, asked_by=made_by
        )
        journal.record(job, kind="restore_deleted", message="was brought back", made_by=made_by, now=now)
    return wanted


def find_deleted(name: str) -> DeletedJob | None:
    """
    Return the deleted job with this name; None if there is none. If there are several, return the one that was deleted
    last.
    """
    return DeletedJob.objects.filter(name=name).order_by("-deleted_at").first()
