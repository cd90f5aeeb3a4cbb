"""
An operator ends a back-off: documents that wait for its end continue immediately. A lane sleeps until its bin opens,
and a refused document has its own time for the next attempt. Both become due. The search has a limit. That limit is
enough: a host that backs off gets one request at a time, and refuses few documents.
"""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.queue.wake import wake_bin

# Number of documents with a future check time that are examined in each lane, nearest first, and largest number of
# documents that become due. In continuous jobs, most of the examined documents wait for a regular reading.
_EXAMINED: Final = 1000
_MOST: Final = 10_000

# Locks: QueueItem by (hash, job), skipping locked rows.
_TRY_AGAIN: Final[LiteralString] = f"""
WITH waiting AS MATERIALIZED (
    SELECT item.hash, item.job_id
      FROM jobs_lane AS lane
      JOIN jobs_seed AS seed ON seed.id = lane.seed_id
      JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active'
     CROSS JOIN LATERAL (
           SELECT hash, job_id, run_no, stage, action, failures FROM jobs_queueitem
            WHERE lane_id = lane.id AND check_time > %(now)s ORDER BY check_time LIMIT {_EXAMINED}) AS item
     WHERE lane.bin_id = %(bin)s AND item.run_no = job.run_no AND item.stage = {Stage.PENDING:d}
       AND item.action = {Action.PROCESS:d} AND item.failures > 0
     LIMIT {_MOST}
), held AS MATERIALIZED (
    SELECT item.hash, item.job_id
      FROM waiting JOIN jobs_queueitem AS item ON item.hash = waiting.hash AND item.job_id = waiting.job_id
     WHERE item.stage = {Stage.PENDING:d} AND item.check_time > %(now)s
     ORDER BY item.hash, item.job_id
       FOR NO KEY UPDATE OF item SKIP LOCKED
)
UPDATE jobs_queueitem AS item SET check_time = %(now)s
  FROM held WHERE item.hash = held.hash AND item.job_id = held.job_id
"""


def retry_without_back_off(connection: psycopg.Connection[Any], *, bin_id: int, now: dt.datetime) -> int:
    """
    Wake the lanes of a bin, and make its failed documents due; return the number of these documents.

    It runs in the caller's transaction, which holds the bin.
    """
    wake_bin(connection, bin_id=bin_id, now=now)
    return connection.execute(_TRY_AGAIN, {"bin": bin_id, "now": now}).rowcount
