"""
The rehearsal of a change of a job: nothing is stored.

The function that stores changes makes the change, and the transaction is rolled back. So a rehearsal has exactly the
checks of a save. If a rehearsal takes too long for a request, a background task repeats it from the beginning, and has
the rehearsal as its result.
"""

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from django.db import transaction
from django.utils import translation

from jobs.connectors.repository.kind import SourceSettings
from jobs.guard.decision import Thresholds
from jobs.lifecycle.job import HopMode, Kind, StartMethod
from jobs.models import Job, SeedRedirect
from jobs.queries.rehearsals.documents import Progress
from jobs.queries.rehearsals.jobs import Rehearsal, Wanted, read_rehearsal
from jobs.verbs import editing
from jobs.words.schedules import show_next_starts
from nodes.errors import Unknown
from nodes.tasks import verbs
from nodes.tasks.kinds import find
from nodes.tasks.models import Task

# The kind of tasks that rehearse a change.
KIND: Final = "rehearsal"
# Time limit of a rehearsal within a request (seconds).
_LONGEST: Final = 4.0


class _TakesLong(Exception):
    """Ends a rehearsal that takes too long for a request, so that a background task repeats it."""


def rehearse(job_id: int, *, made_by: str, now: dt.datetime, **changes: Any) -> Rehearsal | Task:
    """
    Return the effects of `editing.change_job` with these changes, or the task that computes them. The job stays as it
    is.

    Raises:
        Invalid, Unknown, ControlledElsewhere: as that function does.
    """
    wanted = read_wanted(job_id, now=now, **changes)
    ends_at = time.monotonic() + _LONGEST

    def watch(_read: int) -> None:
        if time.monotonic() > ends_at:
            raise _TakesLong

    try:
        return compare(wanted, now=now, note=watch)
    except _TakesLong:
        # Read again with English warnings: the task stores them, and the API shows them.
        with translation.override("en"):
            wanted = read_wanted(job_id, now=now, **changes)
        return verbs.schedule(find(KIND), arguments=_as_arguments(wanted, changes), made_by=made_by)


def read_wanted(job_id: int, *, now: dt.datetime, **changes: Any) -> Wanted:
    """
    Return the facts of the job as they would be after the changes.

    Raises:
        Invalid, Unknown, ControlledElsewhere: as `editing.change_job` does.
    """
    with transaction.atomic():
        stored = _find(job_id)
        before: dict[str, Any] = {"outputs_before": _outputs_of(stored), "starts_before": _starts_of(stored, now=now)}
        saved = editing.change_job(job_id, **changes, made_by="", now=now)
        job = _find(job_id)
        wanted = Wanted(
            job=job_id,
            connector=job.repository.connector,
            kind=Kind(job.kind),
            source=_source_settings(job, specification=job.specification, seeds=_addresses_of(job)),
            hop_limits=job.hop_limits,
            hop_mode=HopMode(job.hop_mode),
            policies=_policies_of(job),
            outputs=_outputs_of(job),
            starts=_starts_of(job, now=now),
            guard=_guard_of(job),
            warnings=saved.warnings,
            **before,
        )
        transaction.set_rollback(True)
    return wanted


def compare(wanted: Wanted, *, now: dt.datetime, note: Progress = lambda _read: None) -> Rehearsal:
    """Return the effects of a change. There is no limit of time or documents."""
    # A transaction, because the documents are read through a server-side cursor.
    with transaction.atomic():
        return read_rehearsal(wanted, now=now, note=note)


def _as_arguments(wanted: Wanted, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change as the arguments of a task. Facts that the task reads from the job itself are left out."""
    return {
        "job": wanted.job,
        "change": {
            "specification": wanted.source.specification,
            # Unchanged seeds are left out, because a job may have a hundred thousand of them.
            "seeds": list(wanted.source.seeds) if changes.get("seeds") is not None else None,
            "kind": wanted.kind,
            "hop_limits": dict(wanted.hop_limits),
            "hop_mode": wanted.hop_mode,
            "policies": list(wanted.policies),
            "outputs": list(wanted.outputs),
            "starts": list(wanted.starts),
            "guard": asdict(wanted.guard),
            "warnings": list(wanted.warnings),
        },
    }


def read_arguments(arguments: Mapping[str, Any], *, now: dt.datetime) -> Wanted:
    """
    Return the change that `_as_arguments` has put into the arguments of a task.

    Raises:
        Unknown: the job no longer exists.
    """
    job, change = _find(arguments["job"]), arguments["change"]
    seeds = _addresses_of(job) if change["seeds"] is None else change["seeds"]
    return Wanted(
        job=job.pk,
        connector=job.repository.connector,
        kind=Kind(change["kind"]),
        source=_source_settings(job, specification=change["specification"], seeds=seeds),
        # Tasks that an earlier release stored have no hop limits among their arguments.
        hop_limits=change.get("hop_limits", job.hop_limits),
        hop_mode=HopMode(change.get("hop_mode", job.hop_mode)),
        policies=change["policies"],
        outputs=change["outputs"],
        outputs_before=_outputs_of(job),
        starts=change["starts"],
        starts_before=_starts_of(job, now=now),
        guard=Thresholds(**change["guard"]),
        warnings=change["warnings"],
    )


def _find(job_id: int) -> Job:
    job = Job.objects.select_related("repository").filter(pk=job_id).first()
    if job is None:
        raise Unknown("job", job_id)
    return job


def _source_settings(job: Job, *, specification: Mapping[str, Any], seeds: list[str]) -> SourceSettings:
    return SourceSettings(
        configuration=job.repository.configuration,
        specification=specification,
        seeds=seeds,
        redirects=list(SeedRedirect.objects.filter(job=job, is_followed=True).values_list("source", "target")),
        is_confined=job.repository.is_confined,
    )


def _addresses_of(job: Job) -> list[str]:
    return [url for urls in job.seeds.filter(removed_at=None).values_list("urls", flat=True) for url in urls]


def _guard_of(job: Job) -> Thresholds:
    return Thresholds(job.guard_percent, job.guard_host_percent, job.guard_documents, job.guard_seeds)


def _policies_of(job: Job) -> list[int]:
    found = job.seeds.filter(removed_at=None, policy__isnull=False).values_list("policy_id", flat=True)
    return sorted(set(found))


def _outputs_of(job: Job) -> list[int]:
    return list(job.outputs.order_by("pk").values_list("pk", flat=True))


def _starts_of(job: Job, *, now: dt.datetime) -> list[str]:
    return show_next_starts(StartMethod(job.start_method), [window.times for window in job.windows.all()], now=now)
