"""
Wake-ups: a notification that something may be ready, and the lanes that may hand something out.

A NOTIFY inside a commit takes a lock for the whole instance, so nothing here runs inside one of the
queue's transactions: it follows their commit, merged by the loop that sends it. Everybody also polls,
so a lost wake-up costs latency, never progress.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.order import FIRST_FRESH

# Lanes that got something new: those that are awake already are left alone. Locks: Lane by id.
_WAKE_LANES: Final[LiteralString] = """
UPDATE jobs_lane AS lane SET ready_at = woken.at
  FROM (SELECT locked.id, given.at
          FROM unnest(%(lanes)s::bigint[], %(at)s::timestamptz[]) AS given(id, at)
          JOIN LATERAL (SELECT id FROM jobs_lane
                         WHERE id = given.id AND (ready_at IS NULL OR ready_at > given.at)
                           FOR NO KEY UPDATE) AS locked ON true) AS woken
 WHERE lane.id = woken.id
"""

# Lanes that went dormant not long ago and hold something all the same: a wake-up was lost.
_SWEEP: Final[LiteralString] = """
WITH lost AS MATERIALIZED (
    SELECT lane.id
      FROM jobs_seed AS seed
      JOIN jobs_lane AS lane ON lane.seed_id = seed.id
      JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active'
      LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id AND budget.admitted >= budget.most
     WHERE seed.group_id = ANY(%(groups)s) AND lane.ready_at IS NULL
       AND coalesce(lane.served_at, %(now)s) > %(now)s - %(within)s
       AND (EXISTS (SELECT FROM jobs_queueitem AS item
                     WHERE item.lane_id = lane.id AND item.run_no = job.run_no AND item.stage = 0 AND item.seq IS NOT NULL
                       AND (budget.job_id IS NULL OR item.seq < %(first_fresh)s))
            OR EXISTS (SELECT FROM jobs_queueitem AS item
                        WHERE item.lane_id = lane.id AND item.run_no = job.run_no AND item.stage = 0 AND item.seq IS NULL))
     ORDER BY lane.id
       FOR NO KEY UPDATE OF lane SKIP LOCKED
)
UPDATE jobs_lane SET ready_at = %(now)s, head = 0 FROM lost WHERE jobs_lane.id = lost.id
"""


def wake_lanes(
    connection: psycopg.Connection[Any],
    *,
    ready: Iterable[int],
    waiting: Sequence[tuple[int, dt.datetime]] = (),
    now: dt.datetime,
) -> int:
    """Wake lanes that got documents (`ready`, or due at a moment: `waiting`); returns how many slept."""
    at = dict(waiting) | dict.fromkeys(ready, now)
    if not at:
        return 0
    lanes = sorted(at)
    return connection.execute(_WAKE_LANES, {"lanes": lanes, "at": [at[lane] for lane in lanes]}).rowcount


def sweep_lanes(
    connection: psycopg.Connection[Any], *, groups: Sequence[int], within: dt.timedelta, now: dt.datetime
) -> int:
    """Wake lanes of these groups that went dormant `within` this time though something is left in them."""
    return connection.execute(
        _SWEEP, {"groups": list(groups), "within": within, "now": now, "first_fresh": FIRST_FRESH}
    ).rowcount


def notify(connection: psycopg.Connection[Any], channel: str, payload: str) -> None:
    """Tell who listens on `channel`. On an autocommit connection, outside any transaction."""
    connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))
