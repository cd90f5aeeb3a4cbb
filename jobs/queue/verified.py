"""
Queries for verifications: they read the record of an output by ranges of the hash, compare it under lock, and repair
it.

A flush inserts or locks the record of a document before it writes to the output. So under the lock of the record, the
output and the record agree, whatever a crawl writes meanwhile. A document without a record is locked by a placeholder
that never commits.

A repair schedules documents to be read without conditions, or removes them from the output. The record of a scheduled
document loses its version, so that its next reading is unconditional even if the schedule is lost.
"""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.output.base import Entry, Held, Output
from jobs.connectors.repository.base import part_address
from jobs.lifecycle.activity import ActivityName
from jobs.lifecycle.document import Stage
from jobs.queue.read_again import make_due
from jobs.queue.removing import tombstones
from jobs.settings.table import KEEP_REMOVED
from nodes.settings.running import current

_RECORDS: Final[LiteralString] = """
SELECT hash, version, indexed_at FROM jobs_indexeddocument
 WHERE output_id = %(output)s AND hash BETWEEN %(low)s::uuid AND %(high)s::uuid
"""
# Locks: IndexedDocument by (output, hash). A row without a version and with the oldest moment is a placeholder.
_LOCK: Final[LiteralString] = """
INSERT INTO jobs_indexeddocument AS record (output_id, hash, version, indexed_at)
SELECT %(output)s, hash, '', '-infinity' FROM unnest(%(hashes)s::uuid[]) AS wanted(hash) ORDER BY hash
ON CONFLICT (output_id, hash) DO UPDATE SET version = record.version
RETURNING hash, version, CASE WHEN isfinite(indexed_at) THEN indexed_at END AS indexed_at
"""
# Locks: none. The caller holds the rows.
_UNLOCK: Final[LiteralString] = """
DELETE FROM jobs_indexeddocument
 WHERE output_id = %(output)s AND hash = ANY(%(hashes)s::uuid[]) AND NOT isfinite(indexed_at)
"""
_FORGET: Final[LiteralString] = """
DELETE FROM jobs_indexeddocument WHERE output_id = %(output)s AND hash = ANY(%(hashes)s::uuid[])
"""
_CLEAR_VERSIONS: Final[LiteralString] = """
UPDATE jobs_indexeddocument SET version = '', read_version = ''
 WHERE output_id = %(output)s AND hash = ANY(%(hashes)s::uuid[]) AND isfinite(indexed_at)
"""
_VERSIONS: Final[LiteralString] = """
UPDATE jobs_indexeddocument AS record SET version = given.version
  FROM unnest(%(hashes)s::uuid[], %(versions)s::text[]) AS given(hash, version)
 WHERE record.output_id = %(output)s AND record.hash = given.hash
"""
# The documents of jobs that write to the output, mostly one for each hash. For a part, the jobs of its document count.
_ITEMS: Final[LiteralString] = """
SELECT wanted.hash, item.job_id, item.identifier, item.stage,
       item.indexed_before
       AND NOT EXISTS (SELECT FROM jobs_pipelinerefusal AS refusal
                        WHERE refusal.job_id = item.job_id AND refusal.hash = item.hash AND refusal.output_id = %(output)s),
       item.hash AS document, record.part
  FROM unnest(%(hashes)s::uuid[]) AS wanted(hash)
  LEFT JOIN jobs_indexeddocument AS record ON record.output_id = %(output)s AND record.hash = wanted.hash
  JOIN jobs_queueitem AS item ON item.hash = coalesce(record.parent, wanted.hash)
  JOIN jobs_job_outputs AS link ON link.job_id = item.job_id AND link.outputconnection_id = %(output)s
 ORDER BY item.hash, item.job_id
"""
# Locks: QueueItem by (hash, job).
_LOCK_ITEMS: Final[LiteralString] = f"{_ITEMS} FOR NO KEY UPDATE OF item"
# Locks: Job SHARE by id, so that their runs do not change.
_HOLD_JOBS: Final[LiteralString] = """
SELECT job.id, job.phase FROM jobs_job AS job
 WHERE job.phase IN ('active', 'inactive')
   AND job.id IN (SELECT job_id FROM jobs_job_outputs WHERE outputconnection_id = %(output)s)
 ORDER BY job.id
   FOR SHARE OF job
"""
# Documents that another output connection has at the same place. An output without a configuration is in the database.
_IN_OTHER_OUTPUTS: Final[LiteralString] = """
SELECT held.hash
  FROM jobs_outputconnection AS mine
  JOIN jobs_outputconnection AS twin
    ON twin.connector = mine.connector AND twin.configuration = mine.configuration AND twin.id <> mine.id
  JOIN jobs_indexeddocument AS held ON held.output_id = twin.id AND held.hash = ANY(%(hashes)s::uuid[])
 WHERE mine.id = %(output)s AND mine.configuration <> '{}'
"""
_HISTORY: Final[LiteralString] = f"""
INSERT INTO jobs_activity (started_at, job_id, repository_id, output_id, activity, entity, result_code)
SELECT clock_timestamp(), job.id, job.repository_id, %(output)s, '{ActivityName.DELETION.value}', given.identifier, 'OK'
  FROM unnest(%(jobs)s::bigint[], %(identifiers)s::text[]) AS given(job_id, identifier)
  JOIN jobs_job AS job ON job.id = given.job_id
"""

_UNCLAIMED_STAGES: Final = frozenset({Stage.PENDING, Stage.DONE})
_CLAIMED: Final = frozenset({Stage.ACTIVE, Stage.BEING_CLEANED, Stage.BEING_DELETED})


@dataclass(frozen=True, slots=True)
class Record:
    """The recorded version of a document in an output, and the moment when it was written."""

    version: str
    indexed_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Known:
    """
    A document as the jobs that write to the output know it, or the document of a part.

    `is_claimed` is True if a batch has claimed the document in one of these jobs. `is_kept` is True if one of these
    jobs keeps the document in the output.
    """

    hash: str
    identifier: str
    is_claimed: bool
    is_kept: bool
    jobs: Mapping[int, Stage]


def read_records(cursor: psycopg.Cursor[Any], output: int, ranges: Sequence[tuple[str, str]]) -> dict[str, Record]:
    """Return the records of an output whose hashes are in these ranges, by hash."""
    found = {}
    for low, high in ranges:
        for hash_, version, indexed_at in cursor.execute(_RECORDS, {"output": output, "low": low, "high": high}):
            found[hash_.hex] = Record(version, indexed_at)
    return found


def lock_records(cursor: psycopg.Cursor[Any], output: int, hashes: Sequence[str]) -> dict[str, Record]:
    """Lock these documents of an output, also those without a record, and return their records."""
    rows: list[Any] = cursor.execute(_LOCK, {"output": output, "hashes": list(hashes)}).fetchall()
    return {hash_.hex: Record(version, moment) for hash_, version, moment in rows if moment is not None}


def unlock_records(cursor: psycopg.Cursor[Any], output: int, hashes: Sequence[str]) -> None:
    """Delete the placeholders of documents without a record. The transaction ends soon."""
    cursor.execute(_UNLOCK, {"output": output, "hashes": list(hashes)})


def read_known(
    cursor: psycopg.Cursor[Any], output: int, hashes: Sequence[str], *, locks: bool = False
) -> dict[str, Known]:
    """Return these documents as the jobs of the output know them. With `locks`, lock their rows."""
    facts = {"output": output, "hashes": list(hashes)}
    by_hash: dict[str, list[Any]] = {}
    for row in cursor.execute(_LOCK_ITEMS if locks else _ITEMS, facts):
        by_hash.setdefault(row[0].hex, []).append(row)
    return {
        hash_: Known(
            hash=rows[0][5].hex,
            identifier=rows[0][2] if not rows[0][6] else part_address(rows[0][2], rows[0][6]),
            is_claimed=any(row[3] in _CLAIMED for row in rows),
            is_kept=any(row[4] for row in rows),
            jobs={row[1]: Stage(row[3]) for row in sorted(rows, key=lambda row: not row[4])},
        )
        for hash_, rows in by_hash.items()
    }


def read_in_other_outputs(cursor: psycopg.Cursor[Any], output: int, hashes: Sequence[str]) -> set[str]:
    """
    Return the documents among these that another output connection has recorded for the same place, such as the same
    file.
    """
    return {row[0].hex for row in cursor.execute(_IN_OTHER_OUTPUTS, {"output": output, "hashes": list(hashes)})}


def hold_jobs(cursor: psycopg.Cursor[Any], output: int) -> dict[int, str]:
    """Lock the jobs that write to the output and are in no transition, and return their phases by the id of the job."""
    return dict(cursor.execute(_HOLD_JOBS, {"output": output}).fetchall())


def job_to_read(known: Known | None, jobs: Mapping[int, str]) -> int | None:
    """
    Return the job that reads a document again, preferably a running job that keeps it; None if no job can do it now.
    """
    if known is None:
        return None
    able = [job for job, stage in known.jobs.items() if job in jobs and stage in _UNCLAIMED_STAGES]
    return min(able, key=lambda job: jobs[job] != "active", default=None)


def read_again(
    cursor: psycopg.Cursor[Any], output: int, documents: Mapping[str, int], known: Mapping[str, Known]
) -> None:
    """
    Make these documents due in their jobs, by hash, to be read without conditions. For a part, its document is read.

    Their rows in the queue and their records are locked.
    """
    if documents:
        due = {known[hash_].hash: job for hash_, job in documents.items()}
        make_due(cursor, due.items())
        cursor.execute(_CLEAR_VERSIONS, {"output": output, "hashes": [*documents, *due]})


def forget(cursor: psycopg.Cursor[Any], output: int, hashes: Collection[str]) -> None:
    """Delete records of documents that neither the output nor a job has."""
    if hashes:
        cursor.execute(_FORGET, {"output": output, "hashes": list(hashes)})


def remove_ghosts(
    cursor: psycopg.Cursor[Any],
    output: Output,
    ghosts: Sequence[Held],
    *,
    known: Mapping[str, Known],
    keeps_history: bool,
    now: dt.datetime,
) -> None:
    """
    Remove documents without a record from an output; their placeholders are locked.

    A document of a job leaves a tombstone, so that it can be restored.
    """
    if not ghosts:
        return
    owners = {ghost.hash: next(iter(known[ghost.hash].jobs)) for ghost in ghosts if ghost.hash in known}
    if current()[KEEP_REMOVED] and owners:
        versions = [ghost.version or "" for ghost in ghosts]
        facts = {"output": output.id, "hashes": [ghost.hash for ghost in ghosts], "versions": versions}
        cursor.execute(_VERSIONS, facts)
        removed = [
            tombstones.Removed(job, tombstones.NO_RUN, output.id, hash_, leaves_output=True, cause=tombstones.GHOST)
            for hash_, job in owners.items()
        ]
        tombstones.store(cursor, removed, now=now)
    if keeps_history and owners:
        identifiers = [known[hash_].identifier for hash_ in owners]
        cursor.execute(_HISTORY, {"output": output.id, "jobs": list(owners.values()), "identifiers": identifiers})
    output.remove(cursor, [Entry(ghost.hash, ghost.url, None, "", now) for ghost in ghosts])
