"""
Tombstones: documents that a job's removals took out of outputs, kept for some days so that they can be restored.

A removal writes its tombstones in its own transaction (`store`). A tombstone has the row of the queue, its links, and
the text of the output if the output stores texts in this database. A restoration (`jobs.queue.removing.restore`)
restores all of this, without a request to a source.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage

# The run number of removals that an operator requested for an output.
NO_RUN: Final = 0
CLEARED: Final = "output cleared"
TAKEN_AWAY: Final = "output taken away"
# The cause for documents that an operator dropped by a filter. They belong to the run of their job.
DROPPED: Final = "dropped"
# The cause for documents that a stage of the pipeline refuses for an output. They belong to the run of their job.
REFUSED: Final = "refused"
# The cause for documents that a verification removed from an output, because they are in no record of this output.
GHOST: Final = "ghost"
# The cause for parts that left an output because their documents, which stay there, no longer have them.
PART_LEFT: Final = "part left"


@dataclass(frozen=True, slots=True)
class Removed:
    """
    A document of a job that is being removed from one output. `leaves_output` is True if no other job keeps the
    document there.

    `cause` is set if an operator requested the removal from the output. No run removed it, so `run_no` is `NO_RUN`. The
    parts of the document leave the output with it, and get tombstones, too. With the hash of a `part`, only this part
    leaves the output.
    """

    job_id: int
    run_no: int
    output_id: int
    hash: str
    leaves_output: bool
    cause: str = ""
    part: str | None = None


# Locks: none. The caller holds the rows of QueueItem and IndexedDocument. Executed before they change.
_STORE: Final[LiteralString] = f"""
INSERT INTO jobs_tombstone (removed_at, job_id, run_no, output_id, hash, cause, seed_id, lane_id, bin_name, identifier, item_run,
                            depth, redirects, outcome, result_code, version, validators, fetched_at, changed_at,
                            targets, is_redirect, left_output,
                            title, description, text, content_type, language, metadata, text_fetched_at, access, part)
SELECT %(now)s, gone.job_id, gone.run_no, gone.output_id, gone.hash,
       CASE WHEN gone.cause <> '' THEN gone.cause
            WHEN item.stage = {Stage.BEING_DELETED:d} THEN 'job deleted'
            WHEN item.stage = {Stage.BEING_CLEANED:d} AND item.action = {Action.LEAVE:d} THEN 'too many hops'
            WHEN item.stage = {Stage.BEING_CLEANED:d} THEN 'not reached'
            WHEN item.action = {Action.EXPIRE:d} THEN 'expired'
            ELSE 'source' END,
       lane.seed_id, lane.id, bin.name, item.identifier, item.run_no,
       item.depth, item.redirects, item.outcome, item.result_code, held.version, item.validators, item.fetched_at, item.changed_at,
       link.targets, link.is_redirect, gone.leaves_output,
       found.title, found.description, found.text, found.content_type, found.language, found.metadata, found.fetched_at, found.access,
       held.part
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[], %(jobs)s::bigint[], %(runs)s::int[], %(leave)s::bool[], %(causes)s::text[],
              %(parts)s::uuid[])
       AS gone(output_id, hash, job_id, run_no, leaves_output, cause, one_part)
  JOIN jobs_queueitem AS item ON item.hash = gone.hash AND item.job_id = gone.job_id
       AND (item.indexed_before OR gone.cause = '{GHOST}')
  JOIN LATERAL (
       SELECT hash, version, part FROM jobs_indexeddocument AS one
        WHERE one.output_id = gone.output_id AND one.hash = coalesce(gone.one_part, gone.hash)
        UNION ALL
       SELECT hash, version, part FROM jobs_indexeddocument AS part
        WHERE part.output_id = gone.output_id AND part.parent = gone.hash AND gone.one_part IS NULL AND gone.leaves_output
       ) AS held ON true
  JOIN jobs_lane AS lane ON lane.id = item.lane_id
  JOIN jobs_bin AS bin ON bin.id = lane.bin_id
  LEFT JOIN jobs_outlinks AS link ON link.hash = gone.hash AND link.job_id = gone.job_id
  LEFT JOIN jobs_searchdocument AS found ON found.output_id = gone.output_id AND found.hash = held.hash AND gone.leaves_output
"""


def store(cursor: psycopg.Cursor[Any], removed: Sequence[Removed], *, now: dt.datetime) -> None:
    """
    Store tombstones of documents that leave these outputs. Call it in the transaction of the removal, before any
    change.
    """
    cursor.execute(
        _STORE,
        {
            "now": now,
            "outputs": [one.output_id for one in removed],
            "hashes": [one.hash for one in removed],
            "jobs": [one.job_id for one in removed],
            "runs": [one.run_no for one in removed],
            "leave": [one.leaves_output for one in removed],
            "causes": [one.cause for one in removed],
            "parts": [one.part for one in removed],
        },
    )
