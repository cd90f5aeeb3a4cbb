"""Noticed restores of the database, and the verifications after them."""

import datetime as dt
from typing import Final

from django.db.models import Q, QuerySet

from jobs.lifecycle.job import Phase
from jobs.models import Job, OutputConnection
from nodes.models import DatabaseRestore
from nodes.tasks.models import Task

# Longest wait for a run of each job of an output.
CATCH_UP_WITHIN: Final = dt.timedelta(days=1)


def jobs_behind(output: OutputConnection, *, since: dt.datetime) -> QuerySet[Job]:
    """Return the jobs of an output that have not ended a run since a restore."""
    ended = Q(phase=Phase.INACTIVE, ended_at__gte=since)
    return Job.objects.filter(outputs=output).exclude(ended).order_by("name")


def read_open_restores() -> list[tuple[DatabaseRestore, list[str]]]:
    """
    Return the last restore while verifications after it are still to be done, with a sentence for each of these
    verifications.
    """
    restore = DatabaseRestore.objects.first()
    if restore is None:
        return []
    tasks = {task for task in restore.outputs.values() if isinstance(task, int)}
    running = set(Task.objects.filter(pk__in=tasks).values_list("pk", flat=True))
    sentences = []
    for output in OutputConnection.objects.order_by("name"):
        noted = restore.outputs.get(str(output.pk))
        if noted in running:
            sentences.append(f"{output.name} (task {noted})")
        elif noted is None and restore.handled_at is None:
            behind = ", ".join(jobs_behind(output, since=restore.noticed_at).values_list("name", flat=True)[:5])
            sentences.append(f"{output.name} (after a run of {behind})" if behind else output.name)
    if restore.outputs.get("archive") in running:
        sentences.append(f"archive (task {restore.outputs['archive']})")
    return [(restore, sentences)] if sentences else []
