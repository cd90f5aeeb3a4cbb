"""
Clearing an output: all its documents are removed, a chunk at a time.

An operator requests it, and the first free worker does it. Documents that a run writes meanwhile stay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.output.base import Entry, Output, OutputError
from jobs.connectors.output.registry import StoredOutput
from jobs.connectors.schema import BadSpecification
from jobs.lifecycle.activity import ActivityName
from jobs.queue.flushing.parts import forget_documents
from jobs.queue.removing import tombstones
from jobs.queue.sql.rows import named_rows
from jobs.settings.table import KEEP_REMOVED
from nodes.settings.running import current

_AT_ONCE: Final = 500

# Locks: IndexedDocument by (output, hash).
_HELD: Final[LiteralString] = """
SELECT held.hash, (SELECT identifier FROM jobs_queueitem AS item WHERE item.hash = held.hash LIMIT 1) AS url
  FROM jobs_indexeddocument AS held
 WHERE held.output_id = %(output)s AND held.indexed_at < %(before)s AND held.parent IS NULL
 ORDER BY held.hash LIMIT %(most)s
   FOR NO KEY UPDATE OF held
"""
# The job that the entry in the history names: one of the jobs that know the document, preferably one with this output.
_HISTORY: Final[LiteralString] = f"""
INSERT INTO jobs_activity (started_at, job_id, repository_id, output_id, activity, entity, result_code)
SELECT DISTINCT ON (item.hash) clock_timestamp(), job.id, job.repository_id, %(output)s, '{ActivityName.DELETION.value}',
       item.identifier, 'OK'
  FROM unnest(%(hashes)s::uuid[]) AS forgotten(hash)
  JOIN jobs_queueitem AS item ON item.hash = forgotten.hash
  JOIN jobs_job AS job ON job.id = item.job_id
  LEFT JOIN jobs_job_outputs AS link ON link.job_id = job.id AND link.outputconnection_id = %(output)s
 ORDER BY item.hash, link.job_id, job.id
"""
# For each document, a job that keeps it in the output, or kept it there before the job lost the output.
_OWNERS: Final[LiteralString] = """
SELECT DISTINCT ON (item.hash) item.hash, item.job_id
  FROM jobs_queueitem AS item
  LEFT JOIN jobs_job_outputs AS link ON link.job_id = item.job_id AND link.outputconnection_id = %(output)s
 WHERE item.hash = ANY(%(hashes)s) AND item.indexed_before
 ORDER BY item.hash, link.job_id NULLS LAST, item.job_id
"""
_CLEARED: Final[LiteralString] = """
UPDATE jobs_outputconnection SET clear_before = NULL, clearing_refused = '' WHERE id = %(output)s
"""
_REFUSED: Final[LiteralString] = """
UPDATE jobs_outputconnection SET clearing_refused = %(why)s
 WHERE id = %(output)s AND (clear_before IS NOT NULL OR orphans_after IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Cleared:
    """The result of one chunk. `output` is None if no output is to be cleared. `refused` is the message of an error."""

    output: int | None = None
    documents: int = 0
    refused: str = ""


def clear_some(
    connection: psycopg.Connection[Any],
    *,
    opens: Callable[[StoredOutput], Output],
    apart_from: frozenset[int],
    keeps_history: bool = True,
) -> Cleared:
    """Remove the next chunk from an output that is to be cleared, except for the outputs in `apart_from`."""
    return clear_chunk(
        connection,
        mark="clear_before",
        apart_from=apart_from,
        clear=lambda cursor, wanted: _clear(cursor, wanted, opens(wanted), keeps_history=keeps_history),
    )


def clear_chunk(
    connection: psycopg.Connection[Any],
    *,
    mark: LiteralString,
    apart_from: frozenset[int],
    clear: Callable[[psycopg.Cursor[Any], Any], int],
) -> Cleared:
    """
    Claim an output that is not in `apart_from`, and remove a chunk from it with `clear`.

    `mark` is the column that is set while an output has documents to remove. An error of the output is stored with the
    output, and changes nothing else.
    """
    # A cheap test before the claim, because an output rarely has documents to remove.
    row = connection.execute(f"SELECT EXISTS (SELECT FROM jobs_outputconnection WHERE {mark} IS NOT NULL)").fetchone()
    if row is None or not row[0]:
        return Cleared()
    wanted: Any = None
    try:
        with connection.transaction(), named_rows(connection, binary=True) as cursor:
            wanted = cursor.execute(_claim(mark), {"apart_from": list(apart_from)}).fetchone()
            if wanted is None:
                return Cleared()
            return Cleared(wanted.id, clear(cursor, wanted))
    except (OutputError, BadSpecification) as refused:
        connection.execute(_REFUSED, {"output": wanted.id, "why": str(refused)})
        return Cleared(wanted.id, refused=str(refused))


def _claim(mark: LiteralString) -> LiteralString:
    # Locks: OutputConnection, skipping one that another worker processes.
    return f"""
    SELECT id, connector, configuration, is_confined, {mark}, clock_timestamp() AS now FROM jobs_outputconnection
     WHERE {mark} IS NOT NULL AND id <> ALL(%(apart_from)s)
     ORDER BY id LIMIT 1
       FOR NO KEY UPDATE SKIP LOCKED
    """


def _clear(cursor: psycopg.Cursor[Any], wanted: Any, output: Output, *, keeps_history: bool) -> int:
    facts = {"output": wanted.id, "before": wanted.clear_before, "most": _AT_ONCE}
    held: list[Any] = cursor.execute(_HELD, facts).fetchall()
    if not held:
        cursor.execute(_CLEARED, {"output": wanted.id})
        return 0
    remove_from_output(cursor, held, wanted, output, cause=tombstones.CLEARED, keeps_history=keeps_history)
    return len(held)


def remove_from_output(
    cursor: psycopg.Cursor[Any], held: Sequence[Any], wanted: Any, output: Output, *, cause: str, keeps_history: bool
) -> None:
    """
    Remove documents and their parts from an output and from IndexedDocument, whose rows the caller has locked.
    Keep their texts as tombstones for some days.
    """
    hashes = [row.hash for row in held]
    if current()[KEEP_REMOVED]:
        owners = cursor.execute(_OWNERS, {"output": wanted.id, "hashes": hashes}).fetchall()
        removed = [
            tombstones.Removed(row.job_id, tombstones.NO_RUN, wanted.id, row.hash.hex, leaves_output=True, cause=cause)
            for row in owners
        ]
        tombstones.store(cursor, removed, now=wanted.now)
    if keeps_history:
        cursor.execute(_HISTORY, {"output": wanted.id, "hashes": hashes})
    urls = {row.hash.hex: row.url or "" for row in held}
    parts = forget_documents(cursor, [(wanted.id, hash_) for hash_ in urls], urls, now=wanted.now)
    gone = [Entry(hash_, url, None, "", wanted.now) for hash_, url in urls.items()] + list(parts.values())
    # Without a job, the identifier of a document is unknown. Only an output that works by hash can still remove it.
    entries = [entry for entry in gone if entry.url.partition("#")[0] or output.is_transactional]
    if entries:
        output.remove(cursor, entries)
