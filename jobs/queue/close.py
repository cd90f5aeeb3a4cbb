"""
Closing turns: a bin's place becomes free when the last request of a turn has ended.

A short transaction of its own, apart from the flush: a place is about requests, not about outcomes.
A turn that is followed leaves its requests to its follower, so the bin's sum stays what it is.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.retrying import retried
from jobs.throttling.bins import LOST_PLACE


@dataclass(frozen=True, slots=True)
class ClosedTurn:
    """
    `since_last_start` is seconds since its last request began; None when it made none. `follows` is the turn
    that it had its requests from.
    """

    id: int
    since_last_start: float | None
    follows: int | None = None


# Closes turns, wakes lanes (those that wait for a place in these bins, and those that got documents; not those
# whose documents ripen later: they would take a place that they cannot use), and ends batches of which no document is claimed. Locks: Bin by id, then Lane by id, then Batch and Turn.
# One statement has one snapshot, taken before it waits for a bin: a follower that was planned meanwhile is
# not in it, and would be passed over. Its planning changed the bin's row, so turns of a bin whose locked row
# is not the one in the snapshot are left for another statement, which sees both.
_CLOSE: Final[LiteralString] = """
WITH given AS (
    SELECT * FROM unnest(%(turns)s::bigint[], %(since)s::float[]) AS given(id, since)
), bins AS MATERIALIZED (
    SELECT id, xmin AS version FROM jobs_bin
     WHERE id IN (SELECT turn.bin_id FROM given JOIN jobs_turn AS turn ON turn.id = given.id AND turn.closed_at IS NULL)
     ORDER BY id
       FOR NO KEY UPDATE
), unchanged AS MATERIALIZED (
    SELECT bins.id FROM bins JOIN jobs_bin AS seen ON seen.id = bins.id AND seen.xmin = bins.version
), sleeping AS MATERIALIZED (
    SELECT lane.id, coalesce(filled.at, clock_timestamp()) AS at
      FROM jobs_lane AS lane
      LEFT JOIN unnest(%(lanes)s::bigint[], %(at)s::timestamptz[]) AS filled(id, at) ON filled.id = lane.id
     WHERE (lane.id = ANY(%(lanes)s) AND (lane.ready_at IS NULL OR lane.ready_at > filled.at))
        OR (lane.bin_id IN (SELECT id FROM bins) AND lane.ready_at > clock_timestamp()
            AND lane.ready_at <= clock_timestamp() + %(lost_place)s)
     ORDER BY lane.id
       FOR NO KEY UPDATE OF lane
), woken AS (
    UPDATE jobs_lane SET ready_at = least(jobs_lane.ready_at, sleeping.at) FROM sleeping WHERE jobs_lane.id = sleeping.id
    RETURNING jobs_lane.id
), closing AS (
    -- Looked at again under the bin's lock: of two who close a turn, one counts it out.
    UPDATE jobs_turn AS turn SET closed_at = clock_timestamp()
      FROM given
     WHERE turn.id = given.id AND turn.closed_at IS NULL AND turn.bin_id IN (SELECT id FROM unchanged)
    RETURNING turn.id, turn.bin_id, turn.requests, turn.gap, given.since
), heirs AS (
    UPDATE jobs_turn AS heir SET requests = heir.requests + closing.requests
      FROM closing
     WHERE heir.follows_id = closing.id AND heir.closed_at IS NULL AND heir.id NOT IN (SELECT id FROM closing)
    RETURNING heir.bin_id, closing.requests
), ended AS (
    UPDATE jobs_batch SET state = 'done' WHERE id = ANY(%(batches)s) AND state = 'sent'
), freed AS (
    UPDATE jobs_bin AS bin
       SET open_turns = bin.open_turns - freed.turns,
           open_requests = bin.open_requests - freed.requests
                         + coalesce((SELECT sum(heirs.requests) FROM heirs WHERE heirs.bin_id = bin.id), 0),
           closed_at = clock_timestamp(),
           not_before = greatest(bin.not_before, freed.opens_at)
      FROM (SELECT bin_id, count(*) AS turns, sum(requests) AS requests,
                   max(clock_timestamp() + make_interval(secs => gap - since)) AS opens_at
              FROM closing GROUP BY bin_id) AS freed
     WHERE bin.id = freed.bin_id
)
SELECT (SELECT count(*) FROM woken), (SELECT count(*) FROM bins) - (SELECT count(*) FROM unchanged)
"""

# What a host told of itself. Locks: Bin by id.
_BACK_OFF: Final[LiteralString] = """
UPDATE jobs_bin
   SET back_off_until = greatest(back_off_until, clock_timestamp() + make_interval(secs => %(seconds)s))
 WHERE id = (SELECT bin_id FROM jobs_lane WHERE id = %(lane)s)
"""
# The request that told of the interval is the first that it counts from, and its own turn did not know it.
_KNOWN: Final[LiteralString] = """
UPDATE jobs_bin
   SET is_known = true, "interval" = coalesce(%(interval)s, "interval"),
       not_before = greatest(not_before, clock_timestamp() + make_interval(secs => coalesce(%(interval)s, 0)))
 WHERE id = (SELECT bin_id FROM jobs_lane WHERE id = %(lane)s)
"""


@retried
def close_turns(
    connection: psycopg.Connection[Any],
    *,
    turns: Sequence[ClosedTurn] = (),
    batches: Sequence[int] = (),
    filled: Iterable[int] = (),
    ripening: Sequence[tuple[int, dt.datetime]] = (),
    now: dt.datetime,
) -> int:
    """
    Give the places of `turns` back to their bins and wake who can use them; returns how many lanes slept.

    `batches` have no claimed document left. `filled` lanes got documents in a flush that has committed;
    `ripening` ones have documents that are due at a moment.
    """
    at = dict(ripening) | dict.fromkeys(filled, now)
    lanes = sorted(at)
    woken = 0
    for wave in _waves(turns) or ([[]] if batches or at else []):
        changed = 1
        while changed:
            row = connection.execute(
                _CLOSE,
                {
                    "turns": [turn.id for turn in wave],
                    "since": [turn.since_last_start for turn in wave],
                    "batches": list(batches),
                    "lanes": lanes,
                    "at": [at[lane] for lane in lanes],
                    "lost_place": LOST_PLACE,
                },
            ).fetchone()
            assert row is not None
            woken_now, changed = row
            woken += woken_now
    return woken


def _waves(turns: Sequence[ClosedTurn]) -> list[list[ClosedTurn]]:
    """
    Turns in the order in which they may be closed together: none in a wave follows another of it.

    What a turn inherits must be written before it closes itself and leaves that to its own follower.
    """
    waves: list[list[ClosedTurn]] = []
    left = list(turns)
    while left:
        ids = {turn.id for turn in left}
        waves.append([turn for turn in left if turn.follows not in ids])
        left = [turn for turn in left if turn.follows in ids]
    return waves


def back_off(connection: psycopg.Connection[Any], *, lane_id: int, seconds: float) -> None:
    """Nothing of this lane's bin is handed out for so long: its host asked for it."""
    connection.execute(_BACK_OFF, {"lane": lane_id, "seconds": seconds})


def know(connection: psycopg.Connection[Any], *, lane_id: int, interval: float | None) -> None:
    """
    The host of this lane's bin has been asked for its robots.txt: it may be given several documents at once.

    `interval` is the crawl-delay that it asks for, in seconds; None leaves what it said before.
    """
    connection.execute(_KNOWN, {"lane": lane_id, "interval": interval})
