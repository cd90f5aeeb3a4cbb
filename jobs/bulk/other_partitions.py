"""
The parts of an operation in other partitions, after its confirmation in the control partition.

Each partition has its own row and its own task, which change its documents. The parts have the key of the operation, so
repeated requests begin a part only once. The task in the control partition follows the parts, and notes their progress
in its row.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from jobs.bulk import verbs
from jobs.bulk.models import BulkOperation
from jobs.partitions.merged import PartitionAway, change_elsewhere, local_job, read_everywhere
from nodes.errors import NotDone
from nodes.permissions import May
from nodes.tasks import verbs as task_verbs
from nodes.tasks.context import TaskContext

# Time between two checks of the parts (seconds).
_CHECK_SECONDS: Final = 1.0
# Time after which a silent partition ends an attempt of the task (seconds). The retry policy of the task begins the
# next attempt.
_SILENT_SECONDS: Final = 60.0


def begin(operation: BulkOperation) -> list[str]:
    """Begin the parts of an operation that have not begun. Return the partitions that did not answer."""

    def begin_there(name: str) -> None:
        if name not in operation.elsewhere or _has_begun(operation.key):
            return
        job_id = local_job(operation.job_id)
        if job_id is None:
            return
        try:
            verbs.make(
                operation=operation.operation,
                job_id=job_id,
                stored=operation.filter,
                shown=operation.elsewhere[name]["shown"],
                key=operation.key,
                made_by=operation.created_by,
            )
        except IntegrityError:
            # The part may have begun by an earlier request whose answer came too late.
            if not _has_begun(operation.key):
                raise

    if not operation.elsewhere:
        return []
    return [one.name for one in change_elsewhere(begin_there).silent if one.name in operation.elsewhere]


def _has_begun(key: uuid.UUID | None) -> bool:
    return BulkOperation.objects.filter(key=key).exists()


def follow(context: TaskContext, operation: BulkOperation, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """
    Note the progress of the parts until all have ended, or until the task is cancelled.

    Raises:
        PartitionAway: a partition has not answered for a while.
    """
    answered_at = time.monotonic()
    while not note_progress(operation):
        if context.is_cancelled():
            cancel(operation, made_by="crawlctl")
            note_progress(operation)
            return
        silent = [name for name, part in operation.elsewhere.items() if part["silent"]]
        if not silent:
            answered_at = time.monotonic()
        elif time.monotonic() - answered_at > _SILENT_SECONDS:
            raise PartitionAway(
                f"Partition {', '.join(silent)} does not answer. The operation goes on there by itself."
            )
        shown = verbs.progress_of(operation)
        context.report({"operation": operation.pk, "changed": shown.changed, "of": shown.shown})
        sleep(_CHECK_SECONDS)


def note_progress(operation: BulkOperation) -> bool:
    """Note the progress of the parts. Return True if all parts have ended."""

    def read_part(_name: str) -> Mapping[str, Any] | None:
        part = BulkOperation.objects.filter(key=operation.key).first()
        if part is None:
            return None
        return {"state": verbs.state_of(part), "changed": part.changed, "skipped": part.skipped}

    found = read_everywhere(lambda: None, read_part, among=operation.elsewhere)
    silent = {one.name for one in found.silent}
    operation.elsewhere = {
        name: {**part, **(found.others.get(name) or {}), "silent": name in silent}
        for name, part in operation.elsewhere.items()
    }
    ended = all(part["state"] in verbs.ENDED for part in operation.elsewhere.values())
    facts = {"elsewhere": operation.elsewhere} | ({"ended_at": Now()} if ended else {})
    BulkOperation.objects.filter(pk=operation.pk, attempt=operation.attempt).update(**facts)
    return ended


def cancel_all(operation_id: int, *, may: May, made_by: str) -> BulkOperation:
    """
    End an operation in all partitions when their present chunks are done.

    Raises:
        Unknown, Refused: as `verbs.cancel`.
        PartitionAway: a partition does not answer, so its part continues.
    """
    operation = verbs.cancel(operation_id, may=may, made_by=made_by)
    if operation.elsewhere and (missing := cancel(operation, made_by=made_by)):
        raise PartitionAway(
            f"Partition {', '.join(missing)} does not answer. The operation ends in the others. Cancel it there, or again later."
        )
    return operation


def cancel(operation: BulkOperation, *, made_by: str) -> list[str]:
    """
    Cancel the tasks of the operation in other partitions. Return the partitions of the operation that did not answer.
    """

    @transaction.atomic
    def cancel_there(name: str) -> None:
        part = BulkOperation.objects.filter(key=operation.key).first() if name in operation.elsewhere else None
        if part is not None and verbs.state_of(part) not in verbs.ENDED:
            try:
                task_verbs.cancel(part.task, made_by=made_by)
            except NotDone:
                # The task has ended meanwhile.
                return

    return [one.name for one in change_elsewhere(cancel_there).silent if one.name in operation.elsewhere]
