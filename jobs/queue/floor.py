"""
Where to begin to look for what is in work: the lowest numbers that an available or sent batch, an open turn and a delta
that is not folded yet can have.

Each of them is soon over, and its entry in an index stays until somebody clears it away; as long as a snapshot is open
that is older (a backup), nobody can. Who looks for what is in work from the first number on would wade through all
that was, the more the longer the snapshot is open. So he begins at the floor, which follows behind. It is no guess:
what is below it is over for good. It is written as new rows, of which the last counts, so that it is found at once
beside any snapshot.
"""

from typing import Any, Final, LiteralString

import psycopg

LOWEST_BATCH: Final[LiteralString] = "coalesce((SELECT batch FROM jobs_floor ORDER BY id DESC LIMIT 1), 0)"
LOWEST_TURN: Final[LiteralString] = "coalesce((SELECT turn FROM jobs_floor ORDER BY id DESC LIMIT 1), 0)"
LOWEST_DELTA: Final[LiteralString] = "coalesce((SELECT delta FROM jobs_floor ORDER BY id DESC LIMIT 1), 0)"

# The last numbers that were drawn, by anybody. In a statement of its own, before the one that writes has a number
# itself: who drew these has a transaction with a lower number, since he had locked or written something before.
_DRAWN: Final[LiteralString] = """
SELECT (SELECT last_value - 1 + is_called::int FROM jobs_batch_id_seq),
       (SELECT last_value - 1 + is_called::int FROM jobs_turn_id_seq),
       (SELECT last_value - 1 + is_called::int FROM jobs_counterdelta_id_seq)
"""
# When all are over that had drawn a number up to those that the last row tells of, what is there of them now is all
# that there will be. A row whose transaction is yet to come is of another server, from which this database was copied.
# Locks: the rows that it deletes. Anybody may write this at any time, since it is true: no fence is needed.
_RAISE: Final[LiteralString] = """
WITH last AS MATERIALIZED (
    SELECT floor.*, next_since <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS is_settled
      FROM (SELECT * FROM jobs_floor
             UNION ALL SELECT 0, 0, 0, 0, 0, 0, 0, 0
             ORDER BY id DESC LIMIT 1) AS floor
), reached AS MATERIALIZED (
    SELECT last.id,
           CASE WHEN is_settled THEN coalesce(
                (SELECT id FROM jobs_batch
                  WHERE id >= last.batch AND id <= next_batch AND state IN ('available', 'sent')
                  ORDER BY id LIMIT 1), next_batch + 1) ELSE last.batch END AS batch,
           CASE WHEN is_settled THEN coalesce(
                (SELECT id FROM jobs_turn
                  WHERE id >= last.turn AND id <= next_turn AND closed_at IS NULL
                  ORDER BY id LIMIT 1), next_turn + 1) ELSE last.turn END AS turn,
           CASE WHEN is_settled THEN coalesce(
                (SELECT id FROM jobs_counterdelta
                  WHERE id >= last.delta AND id <= next_delta
                  ORDER BY id LIMIT 1), next_delta + 1) ELSE last.delta END AS delta
      FROM last
     WHERE is_settled OR next_since >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
), forgotten AS (
    DELETE FROM jobs_floor WHERE id < (SELECT id FROM reached)
)
INSERT INTO jobs_floor (batch, turn, delta, next_batch, next_turn, next_delta, next_since)
SELECT reached.batch, reached.turn, reached.delta, %(batch)s, %(turn)s, %(delta)s, pg_current_xact_id()::text::bigint
  FROM reached JOIN last ON (reached.batch, reached.turn, reached.delta, %(batch)s, %(turn)s, %(delta)s)
                         <> (last.batch, last.turn, last.delta, next_batch, next_turn, next_delta) OR NOT is_settled
"""


def raise_floor(connection: psycopg.Connection[Any]) -> None:
    """Say from which numbers on something may be in work, as far as that is certain. On an autocommit connection."""
    row = connection.execute(_DRAWN).fetchone()
    assert row is not None
    connection.execute(_RAISE, dict(zip(("batch", "turn", "delta"), row, strict=True)))
