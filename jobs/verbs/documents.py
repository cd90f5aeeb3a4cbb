"""
The operations of operators on one document: fetch it again now, or forget it.

In the control partition, they can change a document of any partition. The change is made in the database of that
partition.
"""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from django.db import connection

from jobs.models import Job, QueueItem
from jobs.partitions.merged import PartitionAway, change_elsewhere, local_job
from jobs.queue.chosen_documents import Choice, Chunk, JobMoves, Operation, change_next_documents
from jobs.queue.fetch_now import Fetching, fetch_now
from jobs.queue.flushing.hops import rules_of
from jobs.queue.flushing.outcomes import JobFacts
from jobs.state import journal
from jobs.verbs.control import MAY_CONTROL
from nodes.errors import Refused, Unknown

MAY_FETCH: Final = MAY_CONTROL
# Only administrators remove documents, as in operations on many documents (`jobs.bulk`).
MAY_FORGET: Final = "jobs.delete_job"

_REFUSALS: Final = {
    Fetching.DUE_ALREADY: "The document is due already.",
    Fetching.CLAIMED: "A batch has claimed the document. It is about to be read.",
    Fetching.TOO_FAR: "The document is beyond the hop limits of the job. Raise the limits.",
    Fetching.OF_AN_EARLIER_RUN: "The present run has not reached the document. Add it to the seeds, or start a run.",
    Fetching.JOB_MOVES: "The job starts, ends or is deleted now. Try again later.",
}


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed document of a job. `partition` is the other partition that has it, "" for this one."""

    job_id: int
    identifier: str
    partition: str = ""


def fetch_again(job_id: int, *, document: uuid.UUID, made_by: str, now: dt.datetime) -> Changed:
    """
    Make a document due immediately. It is read unconditionally, and written to the outputs again.

    Raises:
        Unknown: the job does not exist, or does not know the document.
        Refused: the document is claimed, already due, or not of the present run, or the job is in a transition.
        PartitionAway: a partition that may have it does not answer.
    """
    return _change_in_its_partition(_FETCH_AGAIN, job_id, document=document, made_by=made_by, now=now)


def forget(job_id: int, *, document: uuid.UUID, made_by: str, now: dt.datetime) -> Changed:
    """
    Remove a document from the queue if no output holds it. If a page links to it later, the job knows it again.

    Raises:
        Unknown: the job does not exist, or does not know the document.
        Refused: an output may hold the document, the document is claimed, or the job is in a transition.
        PartitionAway: a partition that may have it does not answer.
    """
    return _change_in_its_partition(_FORGET, job_id, document=document, made_by=made_by, now=now)


@dataclass(frozen=True, slots=True)
class _Change:
    """A function that changes a document in the database of this thread, and the words for the event in the journal."""

    kind: str
    says: str
    make: Callable[[QueueItem, dt.datetime], None]


def _change_in_its_partition(
    change: _Change, job_id: int, *, document: uuid.UUID, made_by: str, now: dt.datetime
) -> Changed:
    """Change a document in the partition that has it. The journals of that partition and of this one get the event."""
    item = _find(job_id, document)
    if item is not None:
        _make(change, item, made_by=made_by, now=now)
        return Changed(job_id, item.identifier)
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise Unknown("job", job_id)

    def elsewhere(name: str) -> Changed | None:
        local = local_job(job_id)
        found = None if local is None else _find(local, document)
        if found is None:
            return None
        _make(change, found, made_by=made_by, now=now)
        return Changed(job_id, found.identifier, name)

    asked = change_elsewhere(elsewhere)
    for done in asked.others.values():
        if done is not None:
            message = f"{done.identifier} {change.says} (partition {done.partition})"
            journal.record(job, kind=change.kind, message=message, made_by=made_by, now=now)
            return done
    if asked.silent:
        names = ", ".join(one.name for one in asked.silent)
        raise PartitionAway(
            f"No answer from partition {names}, which may have the document. Check the partition, then try again."
        )
    raise Unknown("document", f"{job_id}-{document.hex}")


def _make(change: _Change, item: QueueItem, *, made_by: str, now: dt.datetime) -> None:
    connection.ensure_connection()
    change.make(item, now)
    message = f"{item.identifier} {change.says}"
    journal.record(item.job, kind=change.kind, message=message, made_by=made_by, now=now)


def _fetch_again(item: QueueItem, now: dt.datetime) -> None:
    done = fetch_now(connection.connection, job_id=item.job_id, document=item.hash, now=now)
    if done == Fetching.UNKNOWN:
        raise Unknown("document", item.hash)
    if done != Fetching.DUE:
        raise Refused(_REFUSALS[done])


def _forget(item: QueueItem, now: dt.datetime) -> None:
    if item.job.carries:
        raise Refused("Documents of this job pass data to others. Forget it by an operation on documents of the job.")
    try:
        chunk = change_next_documents(
            connection.connection,
            Operation.FORGET,
            Choice(job_id=item.job_id, documents=[item.hash.hex]),
            after=None,
            most=1,
            job=_facts_of(item.job),
            carries=False,
            outputs=None,
            keeps_history=False,
            now=now,
            note=_note_nothing,
        )
    except JobMoves:
        raise Refused(_REFUSALS[Fetching.JOB_MOVES]) from None
    if not chunk.changed:
        raise Refused("The document is kept: an output may hold it, or a batch has claimed it.")


_FETCH_AGAIN: Final = _Change("fetch again", "is to be fetched again", _fetch_again)
_FORGET: Final = _Change("forget", "was forgotten", _forget)


def _find(job_id: int, document: uuid.UUID) -> QueueItem | None:
    return QueueItem.objects.select_related("job").filter(job=job_id, hash=document).first()


def _facts_of(job: Job) -> JobFacts:
    return JobFacts(
        id=job.pk,
        run_no=job.run_no,
        repository=job.repository_id,
        tracks_depth=False,
        max_depth=None,
        has_budget=False,
        outputs=(),
        hops=rules_of(hop_limits=job.hop_limits, hop_mode=job.hop_mode),
        specification_version=job.specification_version,
    )


def _note_nothing(_cursor: psycopg.Cursor[Any], _chunk: Chunk) -> None:
    """Do nothing in place of storing the progress: one chunk is the whole operation."""
