"""
Deleted jobs: their rows are kept as long as tombstones of documents, so that a deletion can be undone.

A job is restored with its old id, stopped, and with its former seeds, windows and private policies.
"""

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any, Final

from django.core import serializers
from django.db import transaction

from jobs.lifecycle.job import JobState
from jobs.models import DeletedJob, Job, OutputConnection, RepositoryConnection, Seed, ThrottlePolicy, ThrottleRule
from jobs.settings.table import KEEP_REMOVED
from nodes.errors import Refused
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.running import current

# Values for columns about the last run, and about nodes that may no longer exist: a restored job starts without them.
_RESTORED_FACTS: Final[dict[str, Any]] = {
    "node_scope": CLUSTER_SCOPE,
    "run_end": "",
    "reason": "",
    "failures": 0,
    "failing_since": None,
    "retry_at": None,
    "reseed_at": None,
    "window_ends_at": None,
    "schedule_due_at": None,
    "missed_window_at": None,
    # The deletion also removed the stored state of the seeds, so the next run reads the whole source.
    "from_the_beginning": True,
    "ungrouped": 1,
    "unread": 1,
}


def store_deleted_job(job: Job, *, now: dt.datetime) -> None:
    """Keep the rows of a job that is about to be deleted."""
    if not current()[KEEP_REMOVED]:
        return
    policies = list(ThrottlePolicy.objects.filter(private_to=job))
    rows = [
        job,
        *policies,
        *ThrottleRule.objects.filter(policy__in=policies),
        *job.seeds.order_by("pk"),
        *job.windows.order_by("pk"),
    ]
    DeletedJob.objects.update_or_create(
        pk=job.pk,
        defaults={
            "name": job.name,
            "run_no": job.run_no,
            "deleted_at": now,
            "rows": json.loads(serializers.serialize("json", rows)),
        },
    )


def recreate_deleted_job(job_id: int, *, now: dt.datetime) -> Job:
    """
    Restore a deleted job, stopped and without its documents.

    Raises: Refused: the job is no longer kept, its name is taken, or an object that it needs no longer exists.
    """
    with transaction.atomic():
        kept = DeletedJob.objects.select_for_update().filter(pk=job_id).first()
        if kept is None:
            raise Refused(f"Deleted job {job_id} does not exist, or its retention has passed.")
        if Job.objects.filter(name=kept.name).exists():
            raise Refused(f"Another job has the name {kept.name}. Rename it, then restore the deleted job.")
        for found in serializers.deserialize("json", json.dumps(kept.rows), ignorenonexistent=True):
            row: Any = found.object
            if isinstance(row, Job):
                _check(row, outputs=(found.m2m_data or {}).get("outputs", ()))
                for name, value in {**_facts_of(JobState()), **_RESTORED_FACTS, "schedule_checked_at": now}.items():
                    setattr(row, name, value)
            if isinstance(row, Seed):
                row.group_id = None
                if row.policy_id and not ThrottlePolicy.objects.filter(pk=row.policy_id).exists():
                    raise Refused(
                        f"Job {kept.name} cannot be restored: its throttle policy {row.policy_id} no longer exists."
                    )
            found.save()
        kept.delete()
        return Job.objects.get(pk=job_id)


def _facts_of(state: JobState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in JobState.__dataclass_fields__}


def _check(job: Job, *, outputs: Iterable[Any]) -> None:
    if not RepositoryConnection.objects.filter(pk=job.repository_id).exists():
        raise Refused(
            f"Job {job.name} cannot be restored: its repository connection {job.repository_id} no longer exists."
        )
    wanted: set[int] = {int(getattr(output, "pk", output)) for output in outputs}
    there = set(OutputConnection.objects.filter(pk__in=wanted).values_list("pk", flat=True))
    if wanted - there:
        raise Refused(f"Job {job.name} cannot be restored: its output {min(wanted - there)} no longer exists.")
