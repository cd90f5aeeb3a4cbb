"""
Closing turns: a bin gets its place back when the last request of a turn has ended.

Closing is a short separate transaction and no part of the flush, because a place belongs to requests and not to
outcomes. A turn with a successor hands its requests to the successor, so the sum of the bin stays the same.
"""

import datetime as dt
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString, NamedTuple

import psycopg

from jobs.queue.pace.next_start import paid_until
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.states import lock_states, read_states, write_states
from jobs.throttling.bins import LOST_PLACE
from nodes.membership.incarnation import IS_AS_REMEMBERED, remembered


class Use(NamedTuple):
    """
    Counts of started requests, of read bytes and of documents that ended without a cancellation, and the sum of these
    documents' durations (seconds).
    """

    starts: int = 0
    bytes_read: int = 0
    ended: int = 0
    seconds: float = 0.0


NOTHING: Final = Use()


class Pace(NamedTuple):
    """
    The moment of the last request's start, and the moment until which the bytes that were read delay the next one
    (None: bytes are not limited).

    Both are moments of this process's monotonic clock. `rate` is in bytes a second.
    """

    last_start: float
    paid_until: float | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class ClosedTurn:
    """
    A turn to close, and the use that no earlier closed turn has reported.

    `pace` applies to the next start in its bin; None if the turn started no request. `parents` has the paces of the
    bins above, by id. `follows` is the turn that handed its requests over to this turn. `use` is the use of its bin,
    and `uses_above` the use of the bins above.
    """

    id: int
    pace: Pace | None
    follows: int | None = None
    parents: Mapping[int, Pace | None] = field(default_factory=dict)
    use: Use = NOTHING
    uses_above: Mapping[int, Use] = field(default_factory=dict)


# The new values of the state of a bin (`state`) after some of its turns closed. `held` has the sums of these turns.
_FREED: Final[LiteralString] = f"""
           open_turns = state.open_turns - held.turns, open_requests = state.open_requests - held.requests,
           closed_at = clock_timestamp(), starts = state.starts + held.starts, bytes_read = state.bytes_read + held.bytes,
           -- A moving average: one slow answer soon loses its weight, and a host that became slow is soon known.
           answer_seconds = coalesce((coalesce(state.answer_seconds, held.answer_seconds) + held.answer_seconds) / 2,
                                     state.answer_seconds),
           last_start_at = greatest(state.last_start_at, clock_timestamp() + make_interval(secs => held.started)),
           not_before = greatest({paid_until("state", rate="held.rate")}, clock_timestamp() + make_interval(secs => held.paid)),
           -- A moment without a rate is fixed.
           paid_rate = CASE WHEN held.paid IS NULL
                              OR (state.paid_rate IS NULL AND state.not_before > clock_timestamp() + make_interval(secs => held.paid))
                            THEN state.paid_rate ELSE held.rate END"""

# Closes turns, wakes lanes, and ends batches without claimed documents. It wakes lanes that wait for a place in these
# bins and lanes that got documents. Lanes whose documents are due later stay asleep, because they cannot use the place.
# Locks: Node KEY SHARE (the node fence), Bin by id, then Lane by id (the states of both), then Batch and Turn.
#
# Nothing is closed for a worker that was marked failed: the main manager does that. Nothing is closed for a worker from
# before a restore of the database either, because its ids may now belong to other turns.
#
# One statement has one snapshot, taken before it waits for a bin. A successor that was planned during the wait is not
# in that snapshot. Its planning made a new version of the bin's state. So turns of a bin whose locked version differs
# from the snapshot are left for another statement, which sees both.
#
# Turns are searched by id, with conditions that do not match the partial indexes of open turns. While a backup has a
# snapshot open, these indexes lead to many closed turns.
_CLOSE: Final[LiteralString] = f"""
WITH named AS MATERIALIZED (
    SELECT id, batch_id, bin_id, parents, closed_at FROM jobs_turn WHERE id = ANY(%(turns)s)
), workers AS MATERIALIZED (
    SELECT status FROM nodes_node
     WHERE id IN (SELECT worker_id FROM jobs_batch
                   WHERE id = ANY(ARRAY(SELECT batch_id FROM named UNION SELECT unnest(%(batches)s::bigint[]))))
       FOR KEY SHARE
), may AS MATERIALIZED (
    SELECT WHERE NOT EXISTS (SELECT FROM workers WHERE status NOT IN ('running', 'draining'))
             AND NOT EXISTS (SELECT FROM nodes_node WHERE id = %(worker)s AND NOT ({IS_AS_REMEMBERED}))
), given AS (
    SELECT * FROM unnest(%(turns)s::bigint[], %(started)s::float[], %(paid)s::float[], %(rates)s::float[], %(starts)s::int[],
                         %(bytes)s::bigint[], %(ended)s::int[], %(seconds)s::float[])
                    AS given(id, started, paid, rate, starts, bytes, ended, seconds)
     WHERE EXISTS (SELECT FROM may)
), open AS MATERIALIZED (
    SELECT * FROM named WHERE closed_at IS NULL AND EXISTS (SELECT FROM may)
), bins AS MATERIALIZED (
    SELECT bin_id AS id FROM open
     UNION
    -- The limit is for the planner: if it expected many rows, it would read the states of all bins.
    SELECT key::bigint FROM open CROSS JOIN LATERAL (SELECT key FROM jsonb_object_keys(parents) AS key LIMIT 8) AS above
), seen AS MATERIALIZED (
    SELECT newest.* FROM bins
     CROSS JOIN LATERAL {read_states("bin_id AS id, version", of="bin", number="bins.id")} AS newest
), held_bins AS MATERIALIZED (
    {lock_states(of="bin", seen="TABLE seen", columns="seen.id, held.version = seen.version AS is_unchanged")}
), filled AS (
    SELECT * FROM unnest(%(lanes)s::bigint[], %(at)s::timestamptz[]) AS filled(id, at)
), named_lanes AS MATERIALIZED (
    SELECT id, min(at) AS at, bool_or(is_in_bin) AS is_in_bin, bool_or(is_below) AS is_below
      FROM (SELECT id, at, false AS is_in_bin, false AS is_below FROM filled
             UNION ALL
            SELECT id, NULL, true, false FROM jobs_lane WHERE bin_id = ANY(ARRAY(SELECT id FROM held_bins))
             UNION ALL
            -- Lanes below an address: the ones with the longest wait.
            (SELECT lane.id, NULL, false, true
               FROM held_bins JOIN jobs_bin AS child ON child.parent_id = held_bins.id JOIN jobs_lane AS lane ON lane.bin_id = child.id
              CROSS JOIN LATERAL {read_states("ready_at, served_at", of="lane", number="lane.id")} AS state
              WHERE state.ready_at > clock_timestamp()
              ORDER BY state.served_at NULLS FIRST LIMIT 8)) AS named
     GROUP BY id
), sleeping AS MATERIALIZED (
    SELECT lane.id, lane.version, coalesce(named.at, clock_timestamp()) AS at
      FROM named_lanes AS named
     CROSS JOIN LATERAL {read_states("lane_id AS id, version, ready_at", of="lane", number="named.id")} AS lane
     WHERE (named.at IS NOT NULL AND (lane.ready_at IS NULL OR lane.ready_at > named.at))
        OR (lane.ready_at > clock_timestamp()
            AND (is_below OR is_in_bin AND lane.ready_at <= clock_timestamp() + %(lost_place)s))
), held_lanes AS MATERIALIZED (
    {lock_states(of="lane", seen="TABLE sleeping")}
), woken AS (
    {write_states("ready_at = least(state.ready_at, held.at)", of="lane", held="held_lanes")}
    RETURNING state.lane_id
), closing AS (
    -- Checked again under the bin's lock: of two processes that close a turn, one counts it out.
    UPDATE jobs_turn AS turn SET closed_at = clock_timestamp(), starts = given.starts, bytes_read = given.bytes
      FROM given
     WHERE turn.id = given.id AND turn.id = ANY(%(turns)s) AND num_nulls(turn.closed_at) = 1
       AND turn.bin_id IN (SELECT id FROM held_bins WHERE is_unchanged)
    RETURNING turn.id, turn.bin_id, turn.requests, turn.parents, given.started, given.paid, given.rate, given.starts,
              given.bytes, given.ended, given.seconds
), heirs AS (
    UPDATE jobs_turn AS heir SET requests = heir.requests + closing.requests
      FROM closing
     WHERE heir.follows_id = closing.id AND num_nulls(heir.closed_at) = 1 AND heir.id NOT IN (SELECT id FROM closing)
    RETURNING heir.bin_id, closing.requests
), ended AS (
    UPDATE jobs_batch SET state = 'done'
     WHERE id = ANY(%(batches)s) AND state = 'sent' AND EXISTS (SELECT FROM may)
), used AS (
    SELECT seen.id, seen.version, sum(turns) AS turns, sum(requests) AS requests, max(started) AS started,
           max(paid) AS paid, max(rate) AS rate, sum(starts) AS starts, sum(bytes) AS bytes,
           sum(seconds) / nullif(sum(ended), 0) AS answer_seconds
      FROM (SELECT bin_id, 1, requests, started, paid, rate, starts, bytes, ended, seconds FROM closing
             UNION ALL
            SELECT above.id::bigint, 1, closing.requests, given.started, given.paid, given.rate,
                   coalesce(given.starts, 0), coalesce(given.bytes, 0), 0, 0
              FROM closing CROSS JOIN LATERAL jsonb_object_keys(closing.parents) AS above(id)
              LEFT JOIN unnest(%(below)s::bigint[], %(above)s::bigint[], %(above_started)s::float[],
                               %(above_paid)s::float[], %(above_rates)s::float[], %(above_starts)s::int[],
                               %(above_bytes)s::bigint[])
                     AS given(turn, bin_id, started, paid, rate, starts, bytes) ON given.turn = closing.id AND given.bin_id = above.id::bigint
             UNION ALL
            -- A turn with a successor has no parents.
            SELECT bin_id, 0, -requests, NULL, NULL, NULL, 0, 0, 0, 0 FROM heirs)
           AS moved(bin_id, turns, requests, started, paid, rate, starts, bytes, ended, seconds)
      JOIN seen ON seen.id = moved.bin_id
     GROUP BY seen.id, seen.version
), freed AS (
    {write_states(_FREED, of="bin", held="used")}
)
SELECT (SELECT count(*) FROM woken), (SELECT count(*) FROM held_bins WHERE NOT is_unchanged)
"""


@retried
def close_turns(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID | None = None,
    turns: Sequence[ClosedTurn] = (),
    batches: Sequence[int] = (),
    filled: Iterable[int] = (),
    due_later: Sequence[tuple[int, dt.datetime]] = (),
    now: dt.datetime,
) -> int:
    """
    Return the places of `turns` to their bins and wake the lanes that can use them; return the number of woken lanes.

    `worker` is the node that had the turns. `batches` are batches without claimed documents. `filled` are lanes that
    got documents in a committed flush; `due_later` are lanes with documents that are due at a later moment.
    """
    # A lane must not become ready at a past moment: scans of ready lanes start at a cursor (`offering/cursors.py`).
    at = {lane: max(moment, now) for lane, moment in due_later} | dict.fromkeys(filled, now)
    lanes = sorted(at)
    woken = 0
    for wave in _waves(turns) or ([[]] if batches or at else []):
        above = [pace for turn in wave for pace in turn.parents.values()]
        changed = 1
        while changed:
            row = connection.execute(
                _CLOSE,
                {
                    "turns": [turn.id for turn in wave],
                    "started": [_seconds_until(turn.pace.last_start if turn.pace else None) for turn in wave],
                    "paid": [_seconds_until(turn.pace.paid_until if turn.pace else None) for turn in wave],
                    "rates": [turn.pace.rate if turn.pace else None for turn in wave],
                    "starts": [turn.use.starts for turn in wave],
                    "bytes": [turn.use.bytes_read for turn in wave],
                    "ended": [turn.use.ended for turn in wave],
                    "seconds": [turn.use.seconds for turn in wave],
                    "below": [turn.id for turn in wave for _ in turn.parents],
                    "above": [parent for turn in wave for parent in turn.parents],
                    "above_started": [_seconds_until(pace.last_start if pace else None) for pace in above],
                    "above_paid": [_seconds_until(pace.paid_until if pace else None) for pace in above],
                    "above_rates": [pace.rate if pace else None for pace in above],
                    "above_starts": [
                        turn.uses_above.get(parent, NOTHING).starts for turn in wave for parent in turn.parents
                    ],
                    "above_bytes": [
                        turn.uses_above.get(parent, NOTHING).bytes_read for turn in wave for parent in turn.parents
                    ],
                    "batches": list(batches),
                    "lanes": lanes,
                    "at": [at[lane] for lane in lanes],
                    "lost_place": LOST_PLACE,
                    "worker": worker,
                    **remembered(worker),
                },
            ).fetchone()
            assert row is not None
            woken_now, changed = row
            woken += woken_now
    return woken


def _seconds_until(moment: float | None) -> float | None:
    """Return the seconds until a moment of the monotonic clock; negative if it has passed."""
    return None if moment is None else moment - time.monotonic()


def _waves(turns: Sequence[ClosedTurn]) -> list[list[ClosedTurn]]:
    """
    Return the turns in waves that can be closed together: no turn follows another turn of the same wave.

    The requests that a turn inherits must be written before this turn closes and hands them to its own successor.
    """
    waves: list[list[ClosedTurn]] = []
    left = list(turns)
    while left:
        ids = {turn.id for turn in left}
        waves.append([turn for turn in left if turn.follows not in ids])
        left = [turn for turn in left if turn.follows in ids]
    return waves
