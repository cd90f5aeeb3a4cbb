"""
Wake-ups: a notification that something may be ready, and a look at lanes whose wake-up was lost.

A NOTIFY inside a commit takes a lock for the whole instance, so nothing here runs inside one of the
queue's transactions: it follows their commit, merged by the loop that sends it. Everybody also polls,
so a lost wake-up costs latency, never progress.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.order import FIRST_FRESH

# Lanes that went dormant not long ago (or whenever) and hold something all the same: a wake-up was lost.
_SWEEP: Final[LiteralString] = """
WITH lost AS MATERIALIZED (
    SELECT lane.id
      FROM jobs_seed AS seed
      JOIN jobs_lane AS lane ON lane.seed_id = seed.id
      JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active'
      LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id AND budget.admitted >= budget.most
     WHERE seed.group_id = ANY(%(groups)s) AND lane.ready_at IS NULL
       AND (%(within)s::interval IS NULL OR coalesce(lane.served_at, %(now)s) > %(now)s - %(within)s)
       AND (EXISTS (SELECT FROM jobs_queueitem AS item
                     WHERE item.lane_id = lane.id AND item.run_no = job.run_no AND item.stage = 0 AND item.seq IS NOT NULL
                       AND (budget.job_id IS NULL OR item.seq < %(first_fresh)s))
            OR EXISTS (SELECT FROM jobs_queueitem AS item
                        WHERE item.lane_id = lane.id AND item.run_no = job.run_no AND item.stage IN (0, 2)
                          AND item.check_time IS NOT NULL))
     ORDER BY lane.id
       FOR NO KEY UPDATE OF lane SKIP LOCKED
)
UPDATE jobs_lane SET ready_at = %(now)s, head = 0 FROM lost WHERE jobs_lane.id = lost.id
"""
# Locks: Lane by id.
_WAKE_JOB: Final[LiteralString] = """
UPDATE jobs_lane SET ready_at = %(now)s, head = 0
  FROM (SELECT lane.id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
         WHERE seed.job_id = %(job)s
         ORDER BY lane.id
           FOR NO KEY UPDATE OF lane) AS held
 WHERE jobs_lane.id = held.id
"""


def sweep_lanes(
    connection: psycopg.Connection[Any], *, groups: Sequence[int], within: dt.timedelta | None, now: dt.datetime
) -> int:
    """Wake lanes of these groups that went dormant `within` this time (or ever) though something is left in them."""
    return connection.execute(
        _SWEEP, {"groups": list(groups), "within": within, "now": now, "first_fresh": FIRST_FRESH}
    ).rowcount


def wake_job(connection: psycopg.Connection[Any], *, job_id: int, now: dt.datetime) -> None:
    """Let every lane of a job be looked at again: what it may hand out is not what it was."""
    connection.execute(_WAKE_JOB, {"job": job_id, "now": now})


def notify(connection: psycopg.Connection[Any], channel: str, payload: str) -> None:
    """Tell who listens on `channel`. On an autocommit connection, outside any transaction."""
    connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))
