"""The operations of operators on one document: fetch it again now, and forget it."""

import datetime as dt
import uuid
from typing import Any, Final

import psycopg
from django.db import connection

from jobs.models import Job, QueueItem
from jobs.queue.chosen import Choice, Chunk, JobMoves, Operation, change_some
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


def fetch_again(job_id: int, *, document: uuid.UUID, made_by: str, now: dt.datetime) -> QueueItem:
    """
    Make a document due at once: it is read without conditions, and written again.

    Raises:
        Unknown: the job does not exist, or does not know the document.
        Refused: the document is claimed, due already, or not of the present run; or the job is in a transition.
    """
    job, item = _find(job_id, document)
    connection.ensure_connection()
    done = fetch_now(connection.connection, job_id=job_id, document=document, now=now)
    if done == Fetching.UNKNOWN:
        raise Unknown("document", document)
    if done != Fetching.DUE:
        raise Refused(_REFUSALS[done])
    journal.record(
        job, kind="fetch again", message=f"{item.identifier} is to be fetched again", made_by=made_by, now=now
    )
    return item


def forget(job_id: int, *, document: uuid.UUID, made_by: str, now: dt.datetime) -> QueueItem:
    """
    Remove a document that no output holds from the queue. A page that links to it makes it known again.

    Raises:
        Unknown: the job does not exist, or does not know the document.
        Refused: an output may hold it, it is claimed, or the job is in a transition.
    """
    job, item = _find(job_id, document)
    if job.carries:
        raise Refused("Documents of this job pass data to others. Forget it by an operation on documents of the job.")
    connection.ensure_connection()
    try:
        chunk = change_some(
            connection.connection,
            Operation.FORGET,
            Choice(job_id=job_id, documents=[document.hex]),
            after=None,
            most=1,
            job=_facts_of(job),
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
    journal.record(job, kind="forget", message=f"{item.identifier} was forgotten", made_by=made_by, now=now)
    return item


def _find(job_id: int, document: uuid.UUID) -> tuple[Job, QueueItem]:
    item = QueueItem.objects.select_related("job").filter(job=job_id, hash=document).first()
    if item is None:
        raise Unknown("document", f"{job_id}-{document.hex}")
    return item.job, item


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
    """Write no progress: one chunk is the whole operation."""
