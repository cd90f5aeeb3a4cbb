"""
Rounds over sleeping lanes: they find lanes whose wake-up was lost.

A lane sleeps without a document (`ready_at` is null), until its first document is due, or until its bin opens. A
wake-up is lost if a process dies between its commit and the wake-up. After an edit of limits, the end of another job,
or another answer of its host, a bin may open earlier than its lanes know. So the owner of a group walks over its lanes,
round after round, and wakes lanes that sleep for too long. This includes documents that must be removed: a clean-up or
a deletion would never end while one of its lanes sleeps.

A round follows the states of lanes in the order of their table. The state of a sleeping lane is not written, so it
keeps its place until the round reaches it. A step reads some pages, each once for all its rows and without an index:
while a backup has a snapshot open, an index would lead to dead entries. Only this process knows the progress of the
round. Another process starts from the beginning.
"""

import datetime as dt
import time
from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Kind, Phase, Scan
from jobs.queue.pace.limits import open_lanes
from jobs.queue.sql.order import FIRST_FRESH
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.stages import PENDING_OR_DONE, UNCLAIMED
from jobs.queue.wake import wake_lanes
from jobs.throttling.bins import LONGEST_PLAN

# Number of pages with states of lanes that a step reads, and number of sleeping lanes after which it stops: some ms of
# work.
_PAGES: Final = 32
_LANES: Final = 350
# Time between two steps. A negative time since the last one shows that the clock was set back.
_INTERVAL: Final = dt.timedelta(seconds=1)
_NOTHING: Final = dt.timedelta()
# Time of the steps in one pass of the manager, if a round is fast (seconds).
_FAST_STEPS: Final = 0.25
# Lanes that wake within this time are left alone, because an edit of limits may take this time to apply anyway.
_SOON: Final = f"{LONGEST_PLAN.total_seconds():.0f} seconds"
# A position (ctid) before the first row of a table.
_START: Final = "(0,0)"

# A number above every run: a job that is deleted removes all its documents.
_EVERY_RUN: Final = 2**31 - 1

# The next sleeping lanes of these groups that have a document which is due before they wake, or which must be removed
# now. Each other lane costs two or three look-ups in an index. With EXISTS, the planner may read the waiting documents
# of all lanes.
_LATE: Final[LiteralString] = f"""
WITH seeds AS MATERIALIZED (
    SELECT seed.id, job.run_no, job.scan, budget.job_id IS NOT NULL AS is_full, job.phase = '{Phase.ACTIVE}' AS is_active,
           CASE WHEN job.phase = '{Phase.DELETING}' THEN {_EVERY_RUN}
                WHEN job.phase = '{Phase.SHUTTING_DOWN}' AND job.scan = '{Scan.FULL}' THEN job.run_no ELSE 0 END AS removed_before,
           job.hop_limits <> '{{}}' AND (job.phase = '{Phase.ACTIVE}' AND job.kind = '{Kind.CONTINUOUS}'
                                       OR job.phase = '{Phase.SHUTTING_DOWN}' AND NOT job.minimal) AS takes_out
      FROM jobs_seed AS seed
      JOIN jobs_job AS job ON job.id = seed.job_id
           AND job.phase IN ('{Phase.ACTIVE}', '{Phase.SHUTTING_DOWN}', '{Phase.DELETING}')
      LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id AND budget.admitted >= budget.most
     WHERE seed.group_id = ANY(%(groups)s)
), pages AS MATERIALIZED (
    -- No other condition: otherwise the planner may prefer an index.
    SELECT ctid AS place, lane_id, seed_id, ready_at FROM jobs_lanestate
     WHERE ctid > %(after)s::tid AND ctid < %(before)s::tid
), asleep AS MATERIALIZED (
    SELECT pages.place, pages.lane_id, coalesce(pages.ready_at, 'infinity') AS wakes_at,
           seeds.run_no, seeds.scan, seeds.is_full, seeds.is_active, seeds.removed_before, seeds.takes_out
      FROM pages JOIN seeds ON seeds.id = pages.seed_id
     WHERE pages.ready_at IS NULL OR pages.ready_at > %(now)s::timestamptz + interval '{_SOON}'
     ORDER BY pages.place LIMIT %(lanes)s
), looked AS (
    SELECT asleep.*,
           coalesce(CASE WHEN removed_before > 0 THEN
                         (SELECT true FROM jobs_queueitem AS item
                           WHERE item.lane_id = asleep.lane_id AND item.run_no < asleep.removed_before
                             AND item.stage IN {UNCLAIMED} LIMIT 1) END,
                    CASE WHEN takes_out THEN
                         (SELECT true FROM jobs_queueitem AS item
                           WHERE item.lane_id = asleep.lane_id AND item.run_no = asleep.run_no
                             AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before LIMIT 1) END,
                    false) AS removes
      FROM asleep
), late AS (
    SELECT lane_id, removes OR wakes_at = 'infinity' AS at_once FROM looked
     WHERE removes OR is_active AND
           coalesce((SELECT true FROM jobs_queueitem AS item
                      WHERE item.lane_id = looked.lane_id AND item.run_no = looked.run_no AND item.stage = {Stage.PENDING:d}
                        AND item.seq IS NOT NULL AND (NOT looked.is_full OR item.seq < {FIRST_FRESH}) LIMIT 1),
                    (SELECT true FROM jobs_queueitem AS item
                      WHERE item.lane_id = looked.lane_id AND item.run_no = looked.run_no AND item.stage IN {PENDING_OR_DONE}
                        AND item.check_time < looked.wakes_at LIMIT 1),
                    (SELECT true FROM jobs_queueitem AS item
                      WHERE item.lane_id = looked.lane_id AND item.run_no < looked.run_no
                        AND looked.scan <> '{Scan.FULL}' AND looked.wakes_at < 'infinity' LIMIT 1))
)
SELECT coalesce(array_agg(lane_id) FILTER (WHERE at_once), '{{}}') AS at_once,
       coalesce(array_agg(lane_id) FILTER (WHERE NOT at_once), '{{}}') AS waiting,
       CASE WHEN (SELECT count(*) >= %(lanes)s FROM asleep) THEN (SELECT max(place) FROM asleep)
            WHEN %(page)s * current_setting('block_size')::bigint < pg_relation_size('jobs_lanestate')
            THEN %(before)s::tid END::text AS continues_at
  FROM late
"""


class Rounds:
    """
    The rounds of one process over the lanes of its groups: a step a second, or many steps in a pass during a fast
    round.
    """

    def __init__(self) -> None:
        self._place = _START
        self._stepped_at: dt.datetime | None = None
        self.is_fast = False

    def start_fast_round(self) -> None:
        """
        Start a round without pauses between its steps, because any lane may wait for a limit that no longer applies.
        """
        self._place = _START
        self.is_fast = True

    def go_on(self, connection: psycopg.Connection[Any], *, groups: Sequence[int], now: dt.datetime) -> int:
        """Execute the steps that are due in a pass at `now`. Return the number of woken lanes."""
        if not self.is_fast and self._stepped_at is not None and _NOTHING <= now - self._stepped_at < _INTERVAL:
            return 0
        self._stepped_at = now
        ends_at = time.monotonic() + _FAST_STEPS
        woken = self._step(connection, groups, now=now)
        while self.is_fast and time.monotonic() < ends_at:
            woken += self._step(connection, groups, now=now)
        return woken

    def _step(self, connection: psycopg.Connection[Any], groups: Sequence[int], *, now: dt.datetime) -> int:
        page = int(self._place.strip("(").partition(",")[0]) + _PAGES
        facts = {"after": self._place, "before": f"({page},0)", "page": page, "lanes": _LANES}
        with named_rows(connection) as cursor:
            row = cursor.execute(_LATE, {**facts, "groups": list(groups), "now": now}).fetchone()
        assert row is not None
        self._place = row.continues_at or _START
        self.is_fast = self.is_fast and row.continues_at is not None
        # Wake a dormant lane in any case: it is unknown when its bin opens, and stuffing checks that. A removal waits
        # for no bin.
        late = [*row.at_once, *(open_lanes(connection, lanes=row.waiting, now=now) if row.waiting else ())]
        wake_lanes(connection, late, now=now)
        return len(late)


def make_round(connection: psycopg.Connection[Any], *, groups: Sequence[int], now: dt.datetime) -> int:
    """Make a whole round over the lanes of these groups in one call; return the number of woken lanes."""
    rounds = Rounds()
    rounds.start_fast_round()
    woken = 0
    while rounds.is_fast:
        woken += rounds.go_on(connection, groups=groups, now=now)
    return woken
