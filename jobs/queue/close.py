"""
Closing turns: a bin's place becomes free when the last request of a turn has ended.

A short transaction of its own, apart from the flush: a place is about requests, not about outcomes.
A turn that is followed leaves its requests to its follower, so the bin's sum stays what it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.retrying import retried


@dataclass(frozen=True, slots=True)
class ClosedTurn:
    """`since_last_start` is seconds since its last request began; None when it made none."""

    id: int
    since_last_start: float | None


# Locks: Bin by id, then Lane by id, then Turn.
_CLOSE: Final[LiteralString] = """
WITH given AS (
    SELECT * FROM unnest(%(turns)s::bigint[], %(since)s::float[]) AS given(id, since)
), closing AS MATERIALIZED (
    SELECT turn.id, turn.bin_id, turn.requests, turn.gap, given.since
      FROM given JOIN jobs_turn AS turn ON turn.id = given.id AND turn.closed_at IS NULL
), bins AS MATERIALIZED (
    SELECT id FROM jobs_bin WHERE id IN (SELECT bin_id FROM closing) ORDER BY id FOR NO KEY UPDATE
), lanes AS MATERIALIZED (
    SELECT id FROM jobs_lane
     WHERE bin_id IN (SELECT id FROM bins) AND ready_at > clock_timestamp()
     ORDER BY id FOR NO KEY UPDATE
), closed AS (
    UPDATE jobs_turn SET closed_at = clock_timestamp() WHERE id IN (SELECT id FROM closing)
), heirs AS (
    UPDATE jobs_turn AS heir SET requests = heir.requests + closing.requests
      FROM closing
     WHERE heir.follows_id = closing.id AND heir.closed_at IS NULL AND heir.id NOT IN (SELECT id FROM closing)
    RETURNING heir.bin_id, closing.requests
), woken AS (
    UPDATE jobs_lane SET ready_at = clock_timestamp() WHERE id IN (SELECT id FROM lanes)
)
UPDATE jobs_bin AS bin
   SET open_turns = bin.open_turns - freed.turns,
       open_requests = bin.open_requests - freed.requests
                     + coalesce((SELECT sum(heirs.requests) FROM heirs WHERE heirs.bin_id = bin.id), 0),
       closed_at = clock_timestamp(),
       not_before = greatest(bin.not_before, freed.opens_at)
  FROM (SELECT bin_id, count(*) AS turns, sum(requests) AS requests,
               max(clock_timestamp() + make_interval(secs => gap - since)) AS opens_at
          FROM closing GROUP BY bin_id) AS freed
 WHERE bin.id = freed.bin_id AND bin.id IN (SELECT id FROM bins)
"""
_DONE: Final[LiteralString] = "UPDATE jobs_batch SET state = 'done' WHERE id = ANY(%(batches)s) AND state = 'sent'"

# What a host told of itself. Locks: Bin by id.
_BACK_OFF: Final[LiteralString] = """
UPDATE jobs_bin
   SET back_off_until = greatest(back_off_until, clock_timestamp() + make_interval(secs => %(seconds)s))
 WHERE id = (SELECT bin_id FROM jobs_lane WHERE id = %(lane)s)
"""
_KNOWN: Final[LiteralString] = """
UPDATE jobs_bin SET is_known = true, "interval" = greatest("interval", %(interval)s) WHERE id = %(bin)s
"""


@retried
def close_turns(
    connection: psycopg.Connection[Any], *, turns: Sequence[ClosedTurn], batches: Sequence[int] = ()
) -> None:
    """Give the places of these turns back to their bins; `batches` have no claimed document left."""
    if turns:
        connection.execute(
            _CLOSE, {"turns": [turn.id for turn in turns], "since": [turn.since_last_start for turn in turns]}
        )
    if batches:
        connection.execute(_DONE, {"batches": list(batches)})


def back_off(connection: psycopg.Connection[Any], *, lane_id: int, seconds: float) -> None:
    """Nothing of this lane's bin is handed out for so long: its host asked for it."""
    connection.execute(_BACK_OFF, {"lane": lane_id, "seconds": seconds})


def know(connection: psycopg.Connection[Any], *, bin_id: int, interval: float) -> None:
    """The host's robots.txt has been asked for: from now on several documents may be handed out at once."""
    connection.execute(_KNOWN, {"bin": bin_id, "interval": interval})
