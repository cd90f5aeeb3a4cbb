"""The task that carries out an operation on many documents."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

import psycopg
from django.db import transaction
from django.db.models.functions import Now

from jobs.bulk import other_partitions, verbs
from jobs.bulk.models import BulkOperation
from jobs.loops.worker.jobs import read_job
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import Job
from jobs.partitions.merged import PartitionAway
from jobs.queue.chosen_documents import Chunk, JobMoves, Operation, change_next_documents
from jobs.queue.flushing.hops import rules_of
from jobs.queue.flushing.outcomes import JobFacts
from jobs.queue.removing.tombstones import DROPPED
from jobs.settings.table import KEEP_HISTORY
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.settings.running import current
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind

# Locks: BulkOperation.
_NOTE: Final = """
UPDATE bulk_bulkoperation SET cursor = %(after)s, changed = changed + %(changed)s, skipped = skipped + %(skipped)s,
       ended_at = CASE WHEN %(after)s::uuid IS NULL THEN clock_timestamp() END
 WHERE id = %(id)s AND attempt = %(attempt)s AND ended_at IS NULL
"""


class AnotherAttempt(Exception):
    """Another attempt carries out this operation."""


def carry_out(context: TaskContext, _arguments: Mapping[str, Any]) -> dict[str, int] | str:
    """
    Change the documents of the operation that belongs to this task. Another attempt continues after the last chunk.
    Return the number of changed documents, or the reason why none changed.

    Raises:
        JobMoves: the job is in a transition. The retry policy tries again.
        OutputError: an output refused a removal.
        AnotherAttempt: another attempt carries out the operation.
        PartitionAway: a partition with a part of the operation does not answer. The retry policy tries again.
    """
    operation = _begin(context)
    if operation is None:
        # An operator ran an archived task again, and its operation belongs to the first task.
        return "Nothing was changed: this task has no operation. Make a new preview."
    missing = [] if context.is_cancelled() else other_partitions.begin(operation)
    # A separate connection, because Django's connection returns JSON as text.
    with psycopg.connect(database_dsn(), autocommit=True) as connection:
        _change_all(context, operation, connection)
    if missing:
        raise PartitionAway(f"Partition {', '.join(missing)} does not answer, so the operation has not begun there.")
    if operation.elsewhere:
        other_partitions.follow(context, operation)
    progress = verbs.progress_of(operation)
    return {"operation": operation.pk, "changed": progress.changed, "skipped": progress.skipped}


def _change_all(context: TaskContext, operation: BulkOperation, connection: psycopg.Connection[Any]) -> None:
    wanted, choice = Operation(operation.operation), verbs.choice_of(operation.job_id, operation.filter)
    outputs = JobOutputs(cause=DROPPED)
    while operation.ended_at is None and not context.is_cancelled():
        context.report({"operation": operation.pk, "changed": operation.changed, "of": operation.shown})
        left = operation.shown - operation.changed - operation.skipped
        if left <= 0:
            _end(operation)
            break
        job, carries = _facts_of(connection, operation.job_id)
        change_next_documents(
            connection,
            wanted,
            choice,
            after=operation.cursor,
            most=left,
            job=job,
            carries=carries,
            outputs=outputs,
            keeps_history=bool(current()[KEEP_HISTORY]),
            now=read_clock(),
            note=lambda cursor, chunk: _note(cursor, operation, chunk),
        )
        # The number of the attempt is not refreshed, because this attempt compares its own number with the stored one.
        operation.refresh_from_db(fields=["cursor", "changed", "skipped", "ended_at"])


@transaction.atomic
def _begin(context: TaskContext) -> BulkOperation | None:
    """Begin an attempt. Return None if the task has no operation, because only a preview makes one."""
    operation = BulkOperation.objects.select_for_update().filter(task=context.task).first()
    if operation is not None and (operation.ended_at is None or operation.elsewhere):
        operation.attempt += 1
        operation.save(update_fields=["attempt"])
    return operation


def _end(operation: BulkOperation) -> None:
    mine = BulkOperation.objects.filter(pk=operation.pk, attempt=operation.attempt, ended_at=None)
    if not mine.update(ended_at=Now()):
        raise AnotherAttempt(f"Another attempt carries out operation {operation.pk}.")


def _note(cursor: psycopg.Cursor[Any], operation: BulkOperation, chunk: Chunk) -> None:
    facts: dict[str, int | uuid.UUID | None] = {
        "id": operation.pk,
        "attempt": operation.attempt,
        "after": chunk.after,
        "changed": chunk.changed,
        "skipped": chunk.skipped,
    }
    if not cursor.execute(_NOTE, facts).rowcount:
        raise AnotherAttempt(f"Another attempt carries out operation {operation.pk}.")


def _facts_of(connection: psycopg.Connection[Any], job_id: int) -> tuple[JobFacts, bool]:
    """Return the facts of a job that removals need, and True if its documents have carry-down data."""
    row = read_job(connection, job_id=job_id)
    if row is None:
        raise JobMoves(f"Job {job_id} no longer exists.")
    facts = JobFacts(
        id=row.id,
        run_no=row.run_no,
        repository=row.repository_id,
        tracks_depth=False,
        max_depth=None,
        has_budget=row.has_budget,
        outputs=tuple(row.outputs),
        hops=rules_of(hop_limits=row.hop_limits, hop_mode=row.hop_mode),
        is_full_scan=row.scan == "full",
        specification_version=row.specification_version,
        has_refusals=row.has_refusals,
    )
    return facts, bool(Job.objects.filter(pk=job_id).values_list("carries", flat=True).first())


BULK: Final = Kind(
    name="bulk",
    title="Retry, expire, re-read, drop or forget the documents of a preview",
    run=carry_out,
    properties={
        "operation": {"enum": list(Operation)},
        "job": {"type": "integer"},
        "filter": {"type": "object"},
    },
    required=("operation", "job"),
    retry_policy={"policy": "times", "times": 10, "seconds": 5},
    # Only a preview makes an operation.
    is_internal=True,
)
KINDS: Final = (BULK,)
