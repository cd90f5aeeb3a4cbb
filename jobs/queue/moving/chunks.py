"""
Chunks: documents of one partition for another one, each a fact that the exchange carries.

A partition numbers the chunks of its database for each target. The `series` belongs to the database, so the chunks of a
restored database begin again. A chunk is applied once: its target counts the applied chunks of each source and series.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Stage

KIND: Final = "chunk"
_NEXT: Final[LiteralString] = """
SELECT source, number, key, body FROM jobs_partitionfact
 WHERE key LIKE 'chunk:%%'
   AND (target = %(here)s AND source <> %(here)s OR source = %(here)s AND target = ANY(%(lost)s))
 ORDER BY source, number LIMIT 1
"""
_TO_TAKE_BACK: Final[LiteralString] = """
SELECT FROM jobs_partitionfact WHERE source = %(here)s AND target = ANY(%(lost)s) AND key LIKE 'chunk:%%' LIMIT 1
"""
_FORGET: Final[LiteralString] = "DELETE FROM jobs_partitionfact WHERE source = %(source)s AND number = %(number)s"
_FORGET_OWN: Final[LiteralString] = "DELETE FROM jobs_partitionfact WHERE source = %(here)s AND key LIKE 'chunk:%%'"
# Counts of moved documents are written without deltas, because a fold would count these as progress.
# Locks: Counter, then JobCounter, each in the order of their keys. Only main managers write these.
_COUNT: Final[tuple[LiteralString, LiteralString]] = (
    """
INSERT INTO jobs_counter (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, lane_id, run_no, 'stage', stage, outcome, code, sum(amount)
  FROM unnest(%(jobs)s::bigint[], %(lanes)s::bigint[], %(runs)s::int[], %(stages)s::smallint[], %(outcomes)s::smallint[],
              %(codes)s::text[], %(amounts)s::bigint[])
       AS moved(job_id, lane_id, run_no, stage, outcome, code, amount)
 GROUP BY job_id, lane_id, run_no, stage, outcome, code
 ORDER BY job_id, run_no, lane_id, stage, outcome, code
ON CONFLICT (job_id, run_no, lane_id, measure, stage, outcome, code)
DO UPDATE SET amount = jobs_counter.amount + excluded.amount
""",
    """
INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, run_no, 'stage', stage, outcome, code, sum(amount)
  FROM unnest(%(jobs)s::bigint[], %(runs)s::int[], %(stages)s::smallint[], %(outcomes)s::smallint[], %(codes)s::text[],
              %(amounts)s::bigint[])
       AS moved(job_id, run_no, stage, outcome, code, amount)
 GROUP BY job_id, run_no, stage, outcome, code
 ORDER BY job_id, run_no, stage, outcome, code
ON CONFLICT (job_id, run_no, measure, stage, outcome, code)
DO UPDATE SET amount = jobs_jobcounter.amount + excluded.amount
""",
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that arrived, or that this partition takes back. `place` is its number in the series of its source."""

    source: str
    series: str
    place: int
    body: Mapping[str, Any]
    number: int

    def forget(self, cursor: psycopg.Cursor[Any]) -> None:
        """Delete the row that arrived, in the transaction that applies it."""
        cursor.execute(_FORGET, {"source": self.source, "number": self.number})


def key_of(series: str, place: int) -> str:
    return f"{KIND}:{series}:{place}"


def next_chunk(connection: psycopg.Connection[Any], here: str, *, lost: Sequence[str] = ()) -> Chunk | None:
    """
    Return the next chunk that arrived, in the order of its source; None without one.

    Chunks for `lost` partitions return to their sender, because no other partition has their documents.
    """
    row = connection.execute(_NEXT, {"here": here, "lost": list(lost)}).fetchone()
    if row is None:
        return None
    source, number, key, body = row
    _, series, place = key.split(":")
    return Chunk(source, series, int(place), body, number)


def has_chunks_to_take_back(connection: psycopg.Connection[Any], here: str, *, lost: Sequence[str]) -> bool:
    """True if this partition has sent chunks to `lost` partitions, and has not taken all of them back."""
    return bool(lost) and connection.execute(_TO_TAKE_BACK, {"here": here, "lost": list(lost)}).fetchone() is not None


def forget_own_chunks(connection: psycopg.Connection[Any], here: str) -> int:
    """Delete the chunks that this partition has sent, after all were applied; return their number."""
    return connection.execute(_FORGET_OWN, {"here": here}).rowcount


def count_moved(cursor: psycopg.Cursor[Any], documents: list[Any], *, amount: int) -> None:
    """
    Add moved documents to the counts (`amount` 1) or subtract them (-1). The rows have job, lane, run, stage, outcome
    and result code.
    """
    if not documents:
        return
    is_done = [row.stage == Stage.DONE for row in documents]
    facts = {
        "jobs": [row.job_id for row in documents],
        "lanes": [row.lane_id for row in documents],
        "runs": [row.run_no for row in documents],
        "stages": [row.stage for row in documents],
        "outcomes": [row.outcome if done else 0 for row, done in zip(documents, is_done, strict=True)],
        "codes": [row.result_code if done else "" for row, done in zip(documents, is_done, strict=True)],
        "amounts": [amount] * len(documents),
    }
    for statement in _COUNT:
        cursor.execute(statement, facts)
