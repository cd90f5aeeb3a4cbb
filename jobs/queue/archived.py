"""
Lost parts of archives: files and records without a copy are marked, and their documents are read again.

A document is read again if its newest archived body is lost. Its row in the queue loses its version and validators, so
that the next reading is unconditional, even if the process that scheduled it dies.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import CLAIMED, Stage
from jobs.queue.read_again import make_due
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.stages import PENDING_OR_DONE
from jobs.queue.wake import wake_job

# Number of documents that one transaction schedules.
_AT_ONCE: Final = 500

# Locks: ArchiveFile.
_LOSE_FILE: Final[LiteralString] = """
UPDATE jobs_archivefile
   SET state = 'lost', problem = %(why)s, completed_at = coalesce(completed_at, %(now)s)
 WHERE id = %(file)s AND state <> 'lost'
"""
# Locks: ArchiveRecord, of one file.
_LOSE_RECORDS: Final[LiteralString] = """
UPDATE jobs_archiverecord SET is_lost = true WHERE id = ANY(%(records)s) AND NOT is_lost
"""
# Documents whose newest archived body is lost. Two kinds are left out: documents that will be read unconditionally
# anyway, and documents of jobs without an archive.
_WITHOUT_BODY: Final[LiteralString] = f"""
SELECT DISTINCT item.hash, item.job_id, item.stage, item.identifier
  FROM jobs_archivefile AS file
  JOIN jobs_archiverecord AS record ON record.file_id = file.id AND (record.is_lost OR file.state = 'lost')
  JOIN jobs_job AS job ON job.id = record.job_id AND job.archive <> ''
  JOIN jobs_queueitem AS item ON item.hash = record.hash AND item.job_id = record.job_id
 WHERE file.id = ANY(%(files)s) AND record.kind = 'response' AND item.stage <> {Stage.HOPCOUNT_REMOVED:d}
   AND (item.stage <> {Stage.PENDING:d} OR item.version <> '' OR item.validators <> '')
   AND NOT EXISTS (
       SELECT FROM jobs_archiverecord AS newer JOIN jobs_archivefile AS holder ON holder.id = newer.file_id
        WHERE newer.job_id = record.job_id AND newer.hash = record.hash AND newer.id > record.id
          AND newer.kind = 'response' AND NOT newer.is_lost AND holder.state <> 'lost')
 ORDER BY item.hash, item.job_id
 LIMIT %(most)s
"""
# Locks: Job SHARE by id, so that the runs of these jobs do not change.
_HOLD_JOBS: Final[LiteralString] = """
SELECT id, phase FROM jobs_job WHERE id = ANY(%(jobs)s) AND phase IN ('active', 'inactive') ORDER BY id FOR SHARE
"""
# Locks: QueueItem by (hash, job).
_LOCK: Final[LiteralString] = f"""
SELECT item.hash, item.job_id
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS wanted(hash, job_id)
  JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.job_id = wanted.job_id
 WHERE item.stage IN {PENDING_OR_DONE}
 ORDER BY item.hash, item.job_id
   FOR NO KEY UPDATE OF item
"""


@dataclass(frozen=True, slots=True)
class WithoutBody:
    """
    A document whose newest archived body is lost. The document cannot be scheduled to be read again while a batch has
    claimed it.
    """

    hash: str
    job_id: int
    identifier: str
    is_claimed: bool


def lose_file(connection: psycopg.Connection[Any], file_id: int, *, why: str, now: dt.datetime) -> None:
    """Mark a file as lost: no copy of it is left."""
    connection.execute(_LOSE_FILE, {"file": file_id, "why": why, "now": now})


def lose_records(connection: psycopg.Connection[Any], record_ids: Sequence[int]) -> int:
    """Mark records as lost, and return the number of newly marked ones."""
    return connection.execute(_LOSE_RECORDS, {"records": list(record_ids)}).rowcount


def read_without_body(
    connection: psycopg.Connection[Any], file_ids: Sequence[int], *, most: int | None = None
) -> list[WithoutBody]:
    """Return the documents whose newest archived body was in these files, and is lost now."""
    with named_rows(connection) as cursor:
        rows = cursor.execute(_WITHOUT_BODY, {"files": list(file_ids), "most": most})
        return [WithoutBody(row.hash.hex, row.job_id, row.identifier, row.stage in CLAIMED) for row in rows]


def read_again(
    connection: psycopg.Connection[Any], documents: Sequence[WithoutBody], *, now: dt.datetime
) -> set[tuple[str, int]]:
    """
    Schedule documents, to be read without conditions. Return the scheduled documents as (hash, job).

    A document is not scheduled if it is claimed, or if its job is in a transition.
    """
    scheduled: set[tuple[str, int]] = set()
    for start in range(0, len(documents), _AT_ONCE):
        scheduled |= _read_some_again(connection, documents[start : start + _AT_ONCE], now=now)
    return scheduled


@retried
def _read_some_again(
    connection: psycopg.Connection[Any], documents: Sequence[WithoutBody], *, now: dt.datetime
) -> set[tuple[str, int]]:
    with connection.transaction(), named_rows(connection) as cursor:
        phases = {
            row.id: row.phase
            for row in cursor.execute(_HOLD_JOBS, {"jobs": sorted({document.job_id for document in documents})})
        }
        able = [document for document in documents if document.job_id in phases]
        facts = {"hashes": [document.hash for document in able], "jobs": [document.job_id for document in able]}
        held = [(row.hash.hex, row.job_id) for row in cursor.execute(_LOCK, facts)]
        make_due(cursor, held)
    for job in {job for _, job in held if phases[job] == "active"}:
        wake_job(connection, job_id=job, now=now)
    return set(held)
