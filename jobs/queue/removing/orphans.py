"""
Orphans: documents of an output that no job keeps there, after the output was removed from a job.

The first free worker removes them, a chunk at a time in the order of hashes; `OutputConnection.orphans_after` is its
cursor. Documents that another job put there, or has not processed yet, stay.
"""

from collections.abc import Callable
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.output.base import Output
from jobs.connectors.output.registry import StoredOutput
from jobs.queue.removing.clear_output import Cleared, clear_chunk, remove_from_output
from jobs.queue.removing.tombstones import TAKEN_AWAY

_AT_ONCE: Final = 500

# Locks: IndexedDocument by (output, hash).
_HELD: Final[LiteralString] = """
SELECT held.hash FROM jobs_indexeddocument AS held
 WHERE held.output_id = %(output)s AND held.hash > %(after)s AND held.parent IS NULL
 ORDER BY held.hash LIMIT %(most)s
   FOR NO KEY UPDATE
"""
# Read under the locks of the records. A transaction that adds one of these documents waits for the locks, or its change
# is visible here.
_ORPHANS: Final[LiteralString] = """
SELECT held.hash, (SELECT identifier FROM jobs_queueitem AS item WHERE item.hash = held.hash LIMIT 1) AS url
  FROM unnest(%(hashes)s::uuid[]) AS held(hash)
 WHERE NOT EXISTS (SELECT FROM jobs_queueitem AS item
                     JOIN jobs_job_outputs AS link ON link.job_id = item.job_id AND link.outputconnection_id = %(output)s
                    WHERE item.hash = held.hash AND item.indexed_before
                      AND NOT EXISTS (SELECT FROM jobs_pipelinerefusal AS refusal
                                       WHERE refusal.job_id = item.job_id AND refusal.hash = item.hash
                                         AND refusal.output_id = %(output)s))
"""
_GO_ON: Final[LiteralString] = """
UPDATE jobs_outputconnection SET orphans_after = %(after)s, clearing_refused = '' WHERE id = %(output)s
"""


def drop_orphans(
    connection: psycopg.Connection[Any],
    *,
    opens: Callable[[StoredOutput], Output],
    apart_from: frozenset[int],
    keeps_history: bool = True,
) -> Cleared:
    """Remove the next chunk of orphans from an output that a job has left, except for the outputs in `apart_from`."""
    return clear_chunk(
        connection,
        mark="orphans_after",
        apart_from=apart_from,
        clear=lambda cursor, wanted: _drop(cursor, wanted, opens, keeps_history=keeps_history),
    )


def _drop(
    cursor: psycopg.Cursor[Any], wanted: Any, opens: Callable[[StoredOutput], Output], *, keeps_history: bool
) -> int:
    facts = {"output": wanted.id, "after": wanted.orphans_after, "most": _AT_ONCE}
    hashes = [row.hash for row in cursor.execute(_HELD, facts)]
    orphans = cursor.execute(_ORPHANS, {"output": wanted.id, "hashes": hashes}).fetchall() if hashes else []
    if orphans:
        remove_from_output(cursor, orphans, wanted, opens(wanted), cause=TAKEN_AWAY, keeps_history=keeps_history)
    cursor.execute(_GO_ON, {"output": wanted.id, "after": hashes[-1] if hashes else None})
    return len(orphans)
