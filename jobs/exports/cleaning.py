"""The cleaner of exports: it ends lost exports, and deletes expired ones and files without an export."""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from jobs.exports import files
from jobs.exports.models import Export
from jobs.settings.kept import KEEP_EXPORTS
from nodes.database.clock import read_clock
from nodes.membership.silent_periods import moment_of_ages
from nodes.settings.running import current
from nodes.tasks.context import TaskContext
from nodes.tasks.models import ArchivedTask, Task
from nodes.tasks.retrying import Why

_CHUNK: Final = 500
CANCELLED: Final = "The export was cancelled."


def clean_exports(context: TaskContext, _arguments: Mapping[str, Any]) -> dict[str, int]:
    """
    End lost exports, and delete expired exports and the files of this machine without an export. Return the numbers of
    deleted exports and files.
    """
    end_lost_exports()
    connection.ensure_connection()
    now = moment_of_ages(connection.connection, now=read_clock())
    deleted = 0
    while not context.is_cancelled():
        chunk = list(expired(now=now).values_list("pk", flat=True)[:_CHUNK])
        if not chunk:
            break
        deleted += Export.objects.filter(pk__in=chunk).delete()[0]
        context.report({"deleted": deleted})
    return {"deleted": deleted, "files": remove_lost_files()}


def expired(*, now: dt.datetime) -> QuerySet[Export]:
    """Return the exports whose retention has passed."""
    return Export.objects.filter(expires_at__lte=now).order_by("expires_at")


def why_lost(export: Export) -> str:
    """
    Return the reason why the task of an open export wrote no file, as a sentence; '' if the task may still write it.
    """
    if export.ended_at is not None or Task.objects.filter(pk=export.task).exists():
        return ""
    ended = ArchivedTask.objects.filter(pk=export.task).first()
    if ended is None:
        return "The task of the export no longer exists."
    if ended.why == Why.CANCELLED.value:
        return CANCELLED
    return ended.last_message or f"The task of the export ended: {ended.why}."


def end_lost_exports() -> int:
    """End open exports whose tasks have ended, and delete their parts. Return the number of exports."""
    lost = Export.objects.filter(~Exists(Task.objects.filter(pk=OuterRef("task"))), ended_at=None)
    expires_at = read_clock() + dt.timedelta(days=current()[KEEP_EXPORTS])
    ended = 0
    for export in lost.order_by("pk"):
        problem = why_lost(export)
        # An abandoned attempt may have written its file since the read. The export has then ended, and is not changed.
        found = Export.objects.filter(pk=export.pk, attempt=export.attempt, ended_at=None)
        if found.update(ended_at=Now(), expires_at=expires_at, problem=problem, parts=[]):
            files.remove(files.files_of(export.pk))
            ended += 1
    return ended


def remove_lost_files() -> int:
    """Delete the files of this machine whose exports no longer exist. Return the number of files."""
    # Names of files are read before the rows. A row is inserted before its files are written, so no new file looks
    # lost.
    found = files.files_by_export()
    kept = set(Export.objects.filter(pk__in=found).values_list("pk", flat=True))
    lost = [name for number, names in found.items() if number not in kept for name in names]
    files.remove(lost)
    return len(lost)
