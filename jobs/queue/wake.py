"""
Wake-ups: lanes become ready, listeners are notified, and lanes with a lost wake-up are found.

The commit of a NOTIFY takes a lock for the whole instance, so none is inside the queue's transactions. It follows
their commit, merged by the loop that sends it. Every process also polls, so a lost wake-up costs latency, never
progress.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.job import Scan
from jobs.queue.pace.limits import open_lanes
from jobs.queue.sql.newest import SKIPPING, held_newest, newest
from jobs.queue.sql.order import FIRST_FRESH
from jobs.queue.sql.rows import named_rows
from jobs.throttling.bins import LONGEST_PLAN

# A place before the first row of a table.
_START: Final = "(0,0)"
# Lanes that went to sleep lately and are examined in a pass, at most.
_LATELY_A_PASS: Final = 650
# Pages of the table of lane states that a pass reads in turn, and sleeping lanes after which it stops.
_PAGES_A_PASS: Final = 32
_IN_TURN_A_PASS: Final = 350
# The same limits in a fast round: a hundred thousand lanes take some seconds, and no statement takes long. The last
# number limits the statements in a row if none finds a lane.
_PAGES_WHEN_FAST: Final = 128
_LANES_WHEN_FAST: Final = 5_000
_STATEMENTS_WHEN_FAST: Final = 8
# The pages of a statement in a scan of all lanes.
_PAGES_A_STATEMENT: Final = 1024
# A lane that was served this recently may have gone to sleep while a flush that filled it saw it awake. Within the
# first second, that flush may not have committed yet.
_LATELY: Final = dt.timedelta(seconds=10)
_SETTLED: Final = dt.timedelta(seconds=1)
# Lanes that sleep no longer than an edit of limits may take to apply are left alone.
_SOON: Final = f"{LONGEST_PLAN.total_seconds():.0f} seconds"
# Shortest interval between two scans: an earlier one finds nothing new.
_SHORTEST_INTERVAL: Final = dt.timedelta(seconds=1)

# Documents are searched only in lanes that sleep.
# Locks: Lane by id, skipping what is locked.
_SWEEP: Final[LiteralString] = f"""
WITH seeds AS MATERIALIZED (
    SELECT seed.id, job.run_no, job.scan, budget.job_id IS NOT NULL AS is_full
      FROM jobs_seed AS seed
      JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active'
      LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id AND budget.admitted >= budget.most
     WHERE seed.group_id = ANY(%(groups)s)
), lately AS MATERIALIZED (
    SELECT lane.id, lane.version, seeds.run_no, seeds.is_full, lane.served_at
      FROM seeds CROSS JOIN LATERAL (
           SELECT lane_id AS id, version, served_at FROM jobs_lanestate
            WHERE seed_id = seeds.id AND ready_at IS NULL AND served_at > %(since)s AND served_at <= %(until)s
            ORDER BY served_at NULLS FIRST FETCH FIRST {_LATELY_A_PASS} ROWS WITH TIES) AS lane
     ORDER BY lane.served_at FETCH FIRST {_LATELY_A_PASS} ROWS WITH TIES
), pages AS MATERIALIZED (
    -- No other condition: otherwise the planner may prefer an index, in which an open snapshot keeps dead entries.
    SELECT ctid AS place, lane_id, version, seed_id, ready_at FROM jobs_lanestate
     WHERE ctid > %(after)s::tid AND ctid < %(before)s::tid
), in_turn AS MATERIALIZED (
    SELECT pages.place, pages.lane_id AS id, pages.version, pages.ready_at, seeds.run_no, seeds.scan, seeds.is_full
      FROM pages JOIN seeds ON seeds.id = pages.seed_id
     WHERE pages.ready_at IS NULL OR pages.ready_at > %(now)s::timestamptz + interval '{_SOON}'
     ORDER BY pages.place LIMIT %(in_turn)s
), filled AS (
    -- With EXISTS the planner may read the waiting documents of all lanes at once.
    SELECT id, version
      FROM (SELECT id, version, run_no, is_full FROM lately
             UNION
            SELECT id, version, run_no, is_full FROM in_turn WHERE ready_at IS NULL) AS asleep
     WHERE coalesce((SELECT true FROM jobs_queueitem AS item
                      WHERE item.lane_id = asleep.id AND item.run_no = asleep.run_no AND item.stage = 0
                        AND item.seq IS NOT NULL AND (NOT asleep.is_full OR item.seq < {FIRST_FRESH}) LIMIT 1),
                    (SELECT true FROM jobs_queueitem AS item
                      WHERE item.lane_id = asleep.id AND item.run_no = asleep.run_no AND item.stage IN (0, 2)
                        AND item.check_time IS NOT NULL LIMIT 1))
), lost AS MATERIALIZED (
    SELECT seen.id, seen.version
      FROM (SELECT id, version FROM filled ORDER BY id) AS seen
     CROSS JOIN LATERAL {newest("ready_at", of="lane", number="seen.id", since="seen.version", lock=SKIPPING)} AS held
     WHERE held.ready_at IS NULL
), woken AS (
    UPDATE jobs_lanestate AS lane SET ready_at = %(now)s, head = 0, version = lane.version + 1 FROM lost
     WHERE lane.lane_id = lost.id AND lane.version >= lost.version
    RETURNING 1
)
SELECT (SELECT count(*) FROM woken) AS woken,
       -- Lanes that sleep for long although they have due documents, or some of an older run: they wait for their bins.
       (SELECT coalesce(array_agg(id), '{{}}') FROM in_turn
         WHERE ready_at IS NOT NULL
           AND coalesce((SELECT true FROM jobs_queueitem AS item
                          WHERE item.lane_id = in_turn.id AND item.run_no = in_turn.run_no AND item.stage = 0
                            AND item.seq IS NOT NULL AND (NOT in_turn.is_full OR item.seq < {FIRST_FRESH}) LIMIT 1),
                        (SELECT true FROM jobs_queueitem AS item
                          WHERE item.lane_id = in_turn.id AND item.run_no = in_turn.run_no AND item.stage IN (0, 2)
                            AND item.check_time <= %(now)s LIMIT 1),
                        (SELECT true FROM jobs_queueitem AS item
                          WHERE item.lane_id = in_turn.id AND item.run_no < in_turn.run_no AND in_turn.scan <> '{Scan.FULL}'
                          LIMIT 1))) AS held,
       (SELECT count(*) >= {_LATELY_A_PASS} FROM lately) AS were_many,
       (SELECT max(served_at) FROM lately) AS last_served,
       CASE WHEN (SELECT count(*) >= %(in_turn)s FROM in_turn) THEN (SELECT max(place) FROM in_turn)
            WHEN %(page)s * current_setting('block_size')::bigint < pg_relation_size('jobs_lanestate') THEN %(before)s::tid
       END::text AS goes_on
"""


def _waking(numbers: LiteralString) -> LiteralString:
    return f"""
WITH held AS MATERIALIZED ({held_newest(of="lane", numbers=numbers)})
UPDATE jobs_lanestate AS lane
   SET ready_at = coalesce(%(now)s, clock_timestamp()), head = 0, version = lane.version + 1
  FROM held WHERE lane.lane_id = held.id AND lane.version >= held.version
"""


_NAMED: Final[LiteralString] = "SELECT unnest(%(lanes)s::bigint[])"
# Locks: Lane by id.
_WAKE: Final[LiteralString] = _waking(_NAMED)
# Locks: Lane by id.
_WAKE_JOB: Final[LiteralString] = _waking(
    "SELECT lane.id FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id WHERE seed.job_id = %(job)s"
)
# Locks: Lane by id.
_WAKE_BIN: Final[LiteralString] = _waking(
    "SELECT lane.id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id"
    " JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active' WHERE lane.bin_id = %(bin)s"
)
# Locks: Lane by id. A lane whose documents are also processed is not delayed.
_PUT_OFF: Final[LiteralString] = f"""
WITH held AS MATERIALIZED ({held_newest(of="lane", numbers=_NAMED)}
), refused AS MATERIALIZED (
    SELECT held.*, job.phase = 'active' AS is_processed
      FROM held JOIN jobs_lane AS lane ON lane.id = held.id JOIN jobs_seed AS seed ON seed.id = lane.seed_id
      JOIN jobs_job AS job ON job.id = seed.job_id
)
UPDATE jobs_lanestate AS lane
   SET ready_at = CASE WHEN refused.is_processed THEN least(lane.ready_at, %(until)s) ELSE %(until)s END,
       version = lane.version + 1
  FROM refused WHERE lane.lane_id = refused.id AND lane.version >= refused.version
"""


class Sweep:
    """
    Finds lanes that sleep although they have due documents, a part of them in each pass.

    It also finds lanes that sleep until their bin opens, if the limits of the bin were loosened since.

    It scans in two ways. Lanes that were served lately are examined once, soon after. All lanes are examined in turn,
    round after round, in the order of their states in the table. The state of a sleeping lane is not written, so it
    keeps its place until the round reaches it. A page is read once for all its rows. Only this process knows how far
    the round has come: another one starts from the beginning.
    """

    def __init__(self) -> None:
        # The last place of the round; and the moment up to which recently served lanes were examined.
        self._place = _START
        self._reached: dt.datetime | None = None
        self._speeds_up = False

    def speed_up(self) -> None:
        """Start a fast round: the limits were changed, and any lane may wait for a limit that no longer applies."""
        self._place = _START
        self._speeds_up = True

    def look(self, connection: psycopg.Connection[Any], *, groups: Sequence[int], now: dt.datetime) -> int:
        """Examine the next lanes of these groups; return how many were woken."""
        if self._speeds_up:
            return self._scan_fast(connection, groups, now=now)
        until = now - _SETTLED
        since = max(now - _LATELY, self._reached) if self._reached else now - _LATELY
        if until - since < _SHORTEST_INTERVAL:
            return 0
        facts = {"since": since, "until": until, "in_turn": _IN_TURN_A_PASS}
        row = self._sweep(connection, groups, facts, pages=_PAGES_A_PASS, now=now)
        self._reached = row.last_served if row.were_many else until
        return int(row.woken) + _wake_opened(connection, row.held, now=now)

    def _scan_fast(self, connection: psycopg.Connection[Any], groups: Sequence[int], *, now: dt.datetime) -> int:
        # The round also meets lanes that were served lately.
        facts = {"since": now, "until": now, "in_turn": _LANES_WHEN_FAST}
        for _ in range(_STATEMENTS_WHEN_FAST):
            row = self._sweep(connection, groups, facts, pages=_PAGES_WHEN_FAST, now=now)
            self._speeds_up = row.goes_on is not None
            if woken := int(row.woken) + _wake_opened(connection, row.held, now=now):
                return woken
            if not self._speeds_up:
                break
        return 0

    def look_at_all(self, connection: psycopg.Connection[Any], *, groups: Sequence[int], now: dt.datetime) -> int:
        """Examine every lane of these groups, in as many statements as needed; return how many were woken."""
        self._place = _START
        facts = {"since": now, "until": now, "in_turn": _LATELY_A_PASS + _IN_TURN_A_PASS}
        woken, goes_on = 0, True
        while goes_on:
            row = self._sweep(connection, groups, facts, pages=_PAGES_A_STATEMENT, now=now)
            woken, goes_on = woken + row.woken, row.goes_on is not None
        return woken

    def _sweep(
        self,
        connection: psycopg.Connection[Any],
        groups: Sequence[int],
        facts: dict[str, Any],
        *,
        pages: int,
        now: dt.datetime,
    ) -> Any:
        page = int(self._place.strip("(").partition(",")[0]) + pages
        facts = {**facts, "after": self._place, "before": f"({page},0)", "page": page}
        with named_rows(connection) as cursor:
            row = cursor.execute(_SWEEP, {**facts, "groups": list(groups), "now": now}).fetchone()
        assert row is not None
        self._place = row.goes_on or _START
        return row


def _wake_opened(connection: psycopg.Connection[Any], lanes: Sequence[int], *, now: dt.datetime) -> int:
    """Wake lanes whose bins opened earlier than stored, after an edit or a change at the source; return how many."""
    opened = open_lanes(connection, lanes=lanes, now=now) if lanes else []
    wake_lanes(connection, opened, now=now)
    return len(opened)


def wake_lanes(
    connection: psycopg.Connection[Any] | psycopg.Cursor[Any], lanes: Iterable[int], *, now: dt.datetime | None = None
) -> None:
    """Make lanes ready from their first document on: at once, or from `now` of a pass."""
    if named := sorted(set(lanes)):
        connection.execute(_WAKE, {"lanes": named, "now": now})


def postpone_lanes(connection: psycopg.Connection[Any], lanes: Iterable[int], *, until: dt.datetime) -> None:
    """Delay lanes whose documents were refused; a lane with documents to process keeps its earlier time."""
    if named := sorted(set(lanes)):
        connection.execute(_PUT_OFF, {"lanes": named, "until": until})


def wake_job(connection: psycopg.Connection[Any], *, job_id: int, now: dt.datetime) -> None:
    """Wake every lane of a job: the documents that it may hand out have changed."""
    connection.execute(_WAKE_JOB, {"job": job_id, "now": now})


def wake_bin(connection: psycopg.Connection[Any], *, bin_id: int, now: dt.datetime) -> None:
    """Wake every lane of a bin: its limits may allow more now."""
    connection.execute(_WAKE_BIN, {"bin": bin_id, "now": now})


def notify(connection: psycopg.Connection[Any], channel: str, payload: str) -> None:
    """Notify listeners on `channel`. Needs an autocommit connection outside any transaction."""
    connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))
