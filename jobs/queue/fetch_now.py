"""
An operator's request to fetch a document now. The document becomes due immediately, whatever its last result and the
time of its next check are.
"""

import datetime as dt
import enum
import uuid
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import CLAIMED, Stage
from jobs.queue.read_again import make_due
from jobs.queue.sql.order import AGAIN
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.wake import wake_lanes

# Locks: Job SHARE, so that its run does not change.
_HOLD: Final[LiteralString] = (
    "SELECT run_no FROM jobs_job WHERE id = %(job)s AND phase IN ('active', 'inactive') FOR SHARE"
)
# Locks: QueueItem.
_LOCK: Final[LiteralString] = """
SELECT hash, job_id, lane_id, stage, run_no, check_time FROM jobs_queueitem
 WHERE hash = %(hash)s AND job_id = %(job)s FOR NO KEY UPDATE
"""
# Locks: none. The caller holds the row.
_END_WAIT: Final[LiteralString] = f"""
UPDATE jobs_queueitem SET seq = {AGAIN}, check_time = NULL WHERE hash = %(hash)s AND job_id = %(job)s
"""


class Fetching(enum.StrEnum):
    """The result of a request to fetch a document now. Each result except `DUE` means that nothing was changed."""

    DUE = "due"
    # Nothing was changed.
    DUE_ALREADY = "due_already"
    UNKNOWN = "unknown"
    CLAIMED = "claimed"
    TOO_FAR = "too_far"
    OF_AN_EARLIER_RUN = "of_an_earlier_run"
    JOB_MOVES = "job_moves"


@retried
def fetch_now(connection: psycopg.Connection[Any], *, job_id: int, document: uuid.UUID, now: dt.datetime) -> Fetching:
    """
    Make a document of the present run due immediately, to be read without conditions.

    If the job is inactive, its next run reads the document first. This does not apply to a full run, which reads all
    documents that it reaches.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        held: Any = cursor.execute(_HOLD, {"job": job_id}).fetchone()
        if held is None:
            return Fetching.JOB_MOVES
        row: Any = cursor.execute(_LOCK, {"hash": document, "job": job_id}).fetchone()
        refused = Fetching.UNKNOWN if row is None else _why_not(row, run_no=held.run_no)
        if refused is not None:
            return refused
        if row.stage == Stage.PENDING:
            cursor.execute(_END_WAIT, {"hash": document, "job": job_id})
        else:
            make_due(cursor, [(document.hex, job_id)])
    wake_lanes(connection, [row.lane_id], now=now)
    return Fetching.DUE


def _why_not(row: Any, *, run_no: int) -> Fetching | None:
    if row.stage in CLAIMED:
        return Fetching.CLAIMED
    if row.stage == Stage.HOPCOUNT_REMOVED:
        return Fetching.TOO_FAR
    if row.run_no < run_no:
        return Fetching.OF_AN_EARLIER_RUN
    return Fetching.DUE_ALREADY if row.stage == Stage.PENDING and row.check_time is None else None
