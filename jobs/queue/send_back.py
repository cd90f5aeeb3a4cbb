"""
Sending back: failed documents of a job's run are read again, all of them or those with some codes.

A document that was denied, or held back as a part of a trap, has not failed, so it is sent back only if its code is
given.

In an active job, the documents are due immediately. Otherwise the next run reads them, if it rechecks known documents
or looks for changes. Each chunk is a separate transaction.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg

from jobs.lifecycle.document import Stage
from jobs.models.document import Outcome
from jobs.queue.sql.order import AGAIN
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.wake import wake_job

_AT_ONCE: Final = 1000
# Largest number of documents that one call sends back.
MOST: Final = 100_000

# Locks: Job SHARE, so that its run does not change.
_HOLD: Final[LiteralString] = (
    "SELECT run_no FROM jobs_job WHERE id = %(job)s AND phase IN ('active', 'inactive') FOR SHARE"
)
# Locks: QueueItem by (hash, job), skipping locked rows.
_OF_THE_JOB: Final[LiteralString] = """
lane_id IN (SELECT lane.id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
             WHERE seed.job_id = %(job)s)
"""
_CHOSEN: Final[LiteralString] = "job_id = %(job)s AND hash = ANY(%(documents)s::uuid[])"
_FAILED: Final[LiteralString] = "SELECT hash, job_id, lane_id, run_no, outcome, result_code FROM jobs_queueitem WHERE"
_SEND: Final[LiteralString] = f"""
       AND run_no = %(run)s AND stage = {Stage.DONE:d}
       AND (outcome = {Outcome.FAILED:d} AND (%(every)s OR result_code = ANY(%(codes)s))
            OR outcome = {Outcome.EXCLUDED:d} AND result_code IN ('DENIED', 'TRAP') AND result_code = ANY(%(codes)s))
     ORDER BY hash, job_id LIMIT %(most)s
       FOR NO KEY UPDATE SKIP LOCKED
), sent AS (
    UPDATE jobs_queueitem AS item
       SET stage = {Stage.PENDING:d}, seq = {AGAIN}, check_time = NULL, outcome = {Outcome.NONE:d}, result_code = '', failures = 0,
           failing_since = NULL, losses = 0
      FROM failed WHERE item.hash = failed.hash AND item.job_id = failed.job_id
    RETURNING failed.*
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', {Stage.DONE:d}, outcome, result_code, -count(*) FROM sent
     GROUP BY job_id, lane_id, run_no, outcome, result_code
     UNION ALL
    SELECT job_id, lane_id, run_no, 'stage', {Stage.PENDING:d}, 0, '', count(*) FROM sent
     GROUP BY job_id, lane_id, run_no
)
SELECT count(*) FROM sent
"""
_SEND_BACK: Final[LiteralString] = f"WITH failed AS ({_FAILED} {_OF_THE_JOB} {_SEND}"
_SEND_CHOSEN_BACK: Final[LiteralString] = f"WITH failed AS ({_FAILED} {_CHOSEN} {_SEND}"


@dataclass(frozen=True, slots=True)
class SentBack:
    """The number of documents to read again; `has_more` if one call cannot send back all."""

    documents: int
    has_more: bool


def send_back(
    connection: psycopg.Connection[Any],
    *,
    job_id: int,
    codes: Sequence[str],
    documents: Sequence[UUID] | None = None,
    now: dt.datetime,
) -> SentBack | None:
    """
    Make documents due again that failed with one of `codes`, or with any code. Return None if the job is in a
    transition.

    With `documents`, only the documents with these keys may be sent back. Otherwise, all documents of the job may.
    """
    sent, found = 0, _AT_ONCE
    while found == _AT_ONCE and sent < MOST:
        chunk = _send_some_back(connection, job_id=job_id, codes=codes, documents=documents)
        if chunk is None:
            return None
        found = chunk
        sent += found
    if sent:
        wake_job(connection, job_id=job_id, now=now)
    return SentBack(sent, has_more=found == _AT_ONCE)


@retried
def _send_some_back(
    connection: psycopg.Connection[Any], *, job_id: int, codes: Sequence[str], documents: Sequence[UUID] | None
) -> int | None:
    with connection.transaction(), named_rows(connection) as cursor:
        held = cursor.execute(_HOLD, {"job": job_id}).fetchone()
        if held is None:
            return None
        facts = {"job": job_id, "run": held.run_no, "every": not codes, "codes": list(codes), "most": _AT_ONCE}
        if documents is not None:
            facts["documents"] = list(documents)
        row = cursor.execute(_SEND_BACK if documents is None else _SEND_CHOSEN_BACK, facts).fetchone()
        assert row is not None
        return int(row.count)
