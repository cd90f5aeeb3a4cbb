"""
Documents of a job that an operator chose by a filter: they are counted, and then read again or removed in chunks.

A chunk continues after a key. Its transaction also writes the progress of the operation (`note`), so a chunk counts
once, whichever process is killed. Documents that a batch has claimed are skipped.
"""

import datetime as dt
import enum
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.models.document import Outcome
from jobs.queue import address_index
from jobs.queue.flushing.outcomes import JobFacts
from jobs.queue.removing.drop import OutputRemover, doubt, drop_unclaimed
from jobs.queue.sql.chosen_states import states_in
from jobs.queue.sql.order import AGAIN
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.stages import UNCLAIMED
from jobs.queue.wake import wake_job, wake_lanes

# Largest number of keys that one chunk examines, and largest number of documents that one chunk removes.
_READ_AT_ONCE: Final = 1_000
_REMOVED_AT_ONCE: Final = 200


class Operation(enum.StrEnum):
    """The operations on chosen documents. `FORGET` only deletes rows of documents that no output has."""

    RETRY = "retry"
    EXPIRE = "expire"
    READ_AGAIN = "re-read"
    DROP = "drop"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """
    A filter of documents of one job; an empty field means no condition.

    If `documents` are given, only documents with these hashes are chosen. `contains` is a part of the address, of at
    least `address_index.GRAM` bytes. `pattern` is a regular expression of PostgreSQL for identifiers. `fetched_before`
    chooses documents that were last fetched before this moment, or never. `state` is one of `NAMES`.
    """

    job_id: int
    documents: Sequence[str] = ()
    host: str = ""
    codes: Sequence[str] = ()
    contains: str = ""
    pattern: str = ""
    fetched_before: dt.datetime | None = None
    state: str = ""

    @property
    def values(self) -> dict[str, Any]:
        """Return the values of the conditions."""
        return {
            "job": self.job_id,
            "documents": list(self.documents),
            "host": self.host,
            "codes": list(self.codes),
            "pattern": self.pattern,
            "fetched_before": self.fetched_before,
        }


_ENDED: Final = f"item.run_no = %(run)s AND item.stage = {Stage.DONE:d}"
_IS_UNCLAIMED: Final = f"item.stage IN {UNCLAIMED}"
# The documents that each operation changes. Denied documents, and documents that were held back as parts of a trap,
# have not failed: they are retried only if their codes are given.
_OF: Final = {
    Operation.RETRY: f"""{_ENDED} AND (item.outcome = {Outcome.FAILED:d}
        OR item.outcome = {Outcome.EXCLUDED:d} AND item.result_code IN ('DENIED', 'TRAP') AND item.result_code = ANY(%(codes)s))""",
    # Documents that have ended, and documents that wait for their next check.
    Operation.EXPIRE: f"""item.run_no = %(run)s
        AND (item.stage = {Stage.DONE:d} OR item.stage = {Stage.PENDING:d} AND item.check_time IS NOT NULL)""",
    Operation.READ_AGAIN: _ENDED,
    Operation.DROP: _IS_UNCLAIMED,
    # The row of a document that may be in an output is not deleted.
    Operation.FORGET: f"{_IS_UNCLAIMED} AND NOT item.indexed_before",
}
_STATES: Final = states_in("%(run)s")
_CHOSEN: Final = """
item.job_id = %(job)s AND {of}
   AND (%(codes)s::text[] = '{{}}' OR item.result_code = ANY(%(codes)s))
   AND (%(pattern)s = '' OR item.identifier ~ %(pattern)s)
   AND (%(fetched_before)s::timestamptz IS NULL OR item.fetched_at IS NULL OR item.fetched_at < %(fetched_before)s)
   AND (%(host)s = '' OR item.lane_id IN (SELECT lane.id FROM jobs_lane AS lane JOIN jobs_bin AS bin ON bin.id = lane.bin_id
                                           WHERE bin.name = %(host)s))
"""
_RUN: Final[LiteralString] = "SELECT run_no FROM jobs_job WHERE id = %(job)s"
_COUNT: Final = "SELECT count(*) FROM jobs_queueitem AS item WHERE {chosen}"
_EXAMPLES: Final = """
SELECT item.hash, item.identifier, item.result_code, item.outcome, item.stage, item.fetched_at
  FROM jobs_queueitem AS item WHERE {chosen} ORDER BY item.hash LIMIT %(most)s
"""
# Locks: Job SHARE, so that its run does not change.
_HOLD: Final[LiteralString] = (
    "SELECT run_no FROM jobs_job WHERE id = %(job)s AND phase IN ('active', 'inactive') FOR SHARE"
)
_NEXT: Final = """
SELECT item.hash FROM jobs_queueitem AS item
 WHERE {chosen} AND (%(after)s::uuid IS NULL OR item.hash > %(after)s::uuid) ORDER BY item.hash LIMIT %(most)s
"""
# Locks: QueueItem by (hash, job), skipping locked rows.
_READ_AGAIN: Final = f"""
WITH chosen AS (
    SELECT item.hash, item.job_id, item.lane_id, item.run_no, item.stage, item.outcome, item.result_code
      FROM jobs_queueitem AS item
     WHERE item.hash = ANY(%(hashes)s::uuid[]) AND {{chosen}}
     ORDER BY item.hash, item.job_id
       FOR NO KEY UPDATE OF item SKIP LOCKED
), sent AS (
    UPDATE jobs_queueitem AS item
       SET stage = {Stage.PENDING:d}, seq = {AGAIN}, check_time = NULL, action = {Action.PROCESS:d}, outcome = {Outcome.NONE:d},
           result_code = '', failures = 0, failing_since = NULL, losses = 0,
           version = CASE WHEN %(forgets)s THEN '' ELSE item.version END,
           validators = CASE WHEN %(expires)s THEN '' ELSE item.validators END
      FROM chosen WHERE item.hash = chosen.hash AND item.job_id = chosen.job_id
    RETURNING chosen.*
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', {Stage.DONE:d}, outcome, result_code, -count(*) FROM sent
     WHERE stage = {Stage.DONE:d} GROUP BY job_id, lane_id, run_no, outcome, result_code
     UNION ALL
    SELECT job_id, lane_id, run_no, 'stage', {Stage.PENDING:d}, 0, '', count(*) FROM sent
     WHERE stage = {Stage.DONE:d} GROUP BY job_id, lane_id, run_no
)
SELECT count(*) FROM sent
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """
    The result of a chunk: the numbers of `changed` documents, and of `skipped` documents, which were claimed or locked.
    `after` is the key after which the next chunk continues, None at the end.
    """

    changed: int
    skipped: int
    after: uuid.UUID | None


class JobMoves(Exception):
    """The job starts, ends or is deleted: no document of it may be changed now."""


# Writes the progress of an operation in the transaction of a chunk.
Note = Callable[[psycopg.Cursor[Any], Chunk], None]


def count(connection: psycopg.Connection[Any], operation: Operation, choice: Choice) -> int:
    """Return the number of documents that an operation would change now."""
    with named_rows(connection) as cursor:
        chosen, facts = _chosen(connection, operation, choice)
        row = cursor.execute(_COUNT.format(chosen=chosen), {**facts, "run": _run_of(cursor, choice)}).fetchone()
        assert row is not None
        return int(row.count)


def read_examples(
    connection: psycopg.Connection[Any], operation: Operation, choice: Choice, *, most: int
) -> Sequence[Any]:
    """Return the first documents that an operation would change now, in the order of their keys."""
    with named_rows(connection) as cursor:
        chosen, facts = _chosen(connection, operation, choice)
        facts |= {"run": _run_of(cursor, choice), "most": most}
        return cursor.execute(_EXAMPLES.format(chosen=chosen), facts).fetchall()


@retried
def change_next_documents(
    connection: psycopg.Connection[Any],
    operation: Operation,
    choice: Choice,
    *,
    after: uuid.UUID | None,
    most: int,
    job: JobFacts,
    carries: bool,
    outputs: OutputRemover | None,
    keeps_history: bool,
    now: dt.datetime,
    note: Note,
) -> Chunk:
    """
    Change the next documents, at most `most`, and write the progress with `note` in the same transaction. `outputs` are
    needed only to drop documents.

    Raises:
        JobMoves: the job is in a transition.
        OutputError: an output refused, and nothing was changed. The next run writes these documents again.
    """
    reads = operation in {Operation.RETRY, Operation.EXPIRE, Operation.READ_AGAIN}
    at_once = min(most, _READ_AT_ONCE if reads else _REMOVED_AT_ONCE)
    lanes: frozenset[int] = frozenset()
    doubted: list[uuid.UUID] = []
    if operation is Operation.DROP:
        # If the process is killed after a log has its line and before the commit, the next run must write the document
        # again.
        with named_rows(connection) as cursor:
            doubted = _next(cursor, operation, choice, run=job.run_no, after=after, most=at_once)
        if doubted:
            doubt(connection, hashes=doubted, job_id=choice.job_id)
        choice = replace(choice, documents=[hash_.hex for hash_ in doubted])
    with connection.transaction(), named_rows(connection) as cursor:
        held: Any = cursor.execute(_HOLD, {"job": choice.job_id}).fetchone()
        if held is None or held.run_no != job.run_no:
            raise JobMoves(f"Job {choice.job_id} starts, ends or is deleted now.")
        is_empty = operation is Operation.DROP and not doubted
        hashes = [] if is_empty else _next(cursor, operation, choice, run=held.run_no, after=after, most=at_once)
        looked_at = doubted or hashes
        changed = 0
        if hashes and reads:
            forgets = operation is Operation.READ_AGAIN
            chosen, facts = _chosen(connection, operation, choice)
            facts |= {"run": held.run_no}
            facts |= {"hashes": hashes, "forgets": forgets, "expires": forgets or operation is Operation.EXPIRE}
            row: Any = cursor.execute(_READ_AGAIN.format(chosen=chosen), facts).fetchone()
            changed = row.count
        elif hashes:
            dropped = drop_unclaimed(
                cursor,
                hashes=hashes,
                job=job,
                carries=carries,
                outputs=outputs if operation is Operation.DROP else None,
                keeps_history=keeps_history,
                now=now,
            )
            changed, lanes = dropped.dropped, dropped.lanes
        chunk = Chunk(changed, len(looked_at) - changed, looked_at[-1] if len(looked_at) == at_once else None)
        note(cursor, chunk)
    if chunk.changed and reads:
        wake_job(connection, job_id=choice.job_id, now=now)
    elif lanes:
        wake_lanes(connection, lanes, now=now)
    return chunk


def _next(
    cursor: psycopg.Cursor[Any],
    operation: Operation,
    choice: Choice,
    *,
    run: int,
    after: uuid.UUID | None,
    most: int,
) -> list[uuid.UUID]:
    """Return the keys of the next documents that an operation changes, in ascending order."""
    chosen, facts = _chosen(cursor.connection, operation, choice)
    facts |= {"run": run, "after": after, "most": most}
    return [row.hash for row in cursor.execute(_NEXT.format(chosen=chosen), facts)]


def _chosen(
    connection: psycopg.Connection[Any], operation: Operation, choice: Choice
) -> tuple[LiteralString, dict[str, Any]]:
    """
    Return the condition on the documents that an operation changes, and the values of its parameters except `run`.
    """
    conditions, values = [_CHOSEN.format(of=_OF[operation])], choice.values
    if choice.state:
        conditions.append(_STATES[choice.state])
    # These conditions are added only if they are needed. With an OR, as in `_CHOSEN`, the planner could not use their
    # indexes.
    if choice.documents:
        conditions.append("item.hash = ANY(%(documents)s::uuid[])")
    if choice.contains:
        condition, facts = address_index.condition(connection, choice.contains, job_id=choice.job_id)
        conditions.append(condition)
        values |= facts
    return " AND ".join(conditions), values


def _run_of(cursor: psycopg.Cursor[Any], choice: Choice) -> int:
    row: Any = cursor.execute(_RUN, {"job": choice.job_id}).fetchone()
    return int(row.run_no) if row else 0
