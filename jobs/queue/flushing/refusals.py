"""
Refusals: the documents that the pipeline of a job passes on to some of its outputs only, with the reasons.

A document has a row for each output that does not get it. The row counts as the record of the document in that output:
while its version is the present one, the document need not be read again. Jobs without a pipeline have no rows, and
cost no statement.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Delivery
from jobs.queue.flushing.outcomes import Result
from jobs.queue.sql.columns import columns_of

# Locks: PipelineRefusal by (job, hash, output), after the rows of the queue.
_STORE: Final[LiteralString] = """
INSERT INTO jobs_pipelinerefusal (job_id, hash, output_id, version, stage, code, reason, refused_at)
SELECT job_id, hash, output_id, version, stage, code, reason, %(now)s
  FROM unnest(%(jobs)s::bigint[], %(hashes)s::uuid[], %(outputs)s::bigint[], %(versions)s::text[], %(stages)s::text[],
              %(codes)s::text[], %(reasons)s::text[])
       AS refused(job_id, hash, output_id, version, stage, code, reason)
 -- A connection that was deleted meanwhile needs no row.
 WHERE EXISTS (SELECT FROM jobs_outputconnection AS output WHERE output.id = refused.output_id)
 ORDER BY job_id, hash, output_id
ON CONFLICT (job_id, hash, output_id) DO UPDATE
   SET version = excluded.version, stage = excluded.stage, code = excluded.code, reason = excluded.reason,
       refused_at = excluded.refused_at
"""
# Locks: PipelineRefusal; the rows of the queue are held.
_FORGET: Final[LiteralString] = """
DELETE FROM jobs_pipelinerefusal AS refusal
 USING unnest(%(jobs)s::bigint[], %(hashes)s::uuid[]) AS gone(job_id, hash)
 WHERE refusal.job_id = gone.job_id AND refusal.hash = gone.hash
"""
_FORGET_SOME: Final[LiteralString] = """
DELETE FROM jobs_pipelinerefusal AS refusal
 USING unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS given(output_id, hash)
 WHERE refusal.job_id = %(job)s AND refusal.hash = given.hash AND refusal.output_id = given.output_id
"""
_COLUMNS: Final = ("jobs", "hashes", "outputs", "versions", "stages", "codes", "reasons")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document of a job that an output does not get, with the reason."""

    job_id: int
    hash: str
    output_id: int
    version: str
    delivery: Delivery


def refusals_of(result: Result) -> list[Refusal]:
    """Return the outputs that do not get the document of a result."""
    outcome, hash_ = result.outcome, result.claimed.document.hash
    return [
        # If the stage failed, store no version, so that the next run reads the document again. A failure does not mean
        # that the stage refuses it.
        Refusal(result.job.id, hash_, output, "" if delivery.failed else outcome.version, delivery)
        for output, delivery in (outcome.deliveries or {}).items()
        if delivery.content is None
    ]


def replace_refusals(
    cursor: psycopg.Cursor[Any], documents: Iterable[tuple[int, str]], refused: Sequence[Refusal], *, now: dt.datetime
) -> None:
    """Store the refusals of these documents, given by job and hash, in place of their earlier ones."""
    rows = sorted(set(documents))
    if rows:
        cursor.execute(_FORGET, columns_of(rows, ("jobs", "hashes")))
    if refused:
        cursor.execute(
            _STORE,
            {
                "now": now,
                **columns_of(
                    [
                        (
                            one.job_id,
                            one.hash,
                            one.output_id,
                            one.version,
                            one.delivery.stage,
                            one.delivery.code,
                            _storable(one.delivery.reason),
                        )
                        for one in refused
                    ],
                    _COLUMNS,
                ),
            },
        )


def forget_refusals(cursor: psycopg.Cursor[Any], job_id: int, given: Mapping[str, Iterable[Any]]) -> None:
    """Delete the refusals of documents that these outputs get in another way, such as a restoration."""
    cursor.execute(_FORGET_SOME, {"job": job_id, **given})


def _storable(text: str) -> str:
    return text.replace("\0", "").encode(errors="replace").decode()
