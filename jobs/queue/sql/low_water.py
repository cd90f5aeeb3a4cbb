"""
Low-water marks: the lowest ids that an available or sent batch, an open turn and an unfolded delta can have.

Each of these rows is short-lived, but its index entry stays until vacuum. Vacuum cannot remove it while an older
snapshot is open, such as that of a backup. A scan of active rows from the first id would read all dead entries, and
their number grows while the snapshot is open. So scans start at the low-water mark, which follows the finished rows.
The mark is certain: no row below it can become active again. Each change of the mark is a new row, and the last row
applies, so an open snapshot does not slow down its look-up.
"""

from typing import Any, Final, LiteralString

import psycopg

LOWEST_BATCH: Final[LiteralString] = "coalesce((SELECT batch FROM jobs_lowwatermark ORDER BY id DESC LIMIT 1), 0)"
LOWEST_TURN: Final[LiteralString] = "coalesce((SELECT turn FROM jobs_lowwatermark ORDER BY id DESC LIMIT 1), 0)"
LOWEST_DELTA: Final[LiteralString] = "coalesce((SELECT delta FROM jobs_lowwatermark ORDER BY id DESC LIMIT 1), 0)"

# The last ids that any process drew. This is a separate statement, which runs before the writing statement gets its
# transaction id. A process that drew one of these ids had locked or written a row before, so its transaction id is
# lower.
_LAST_IDS: Final[LiteralString] = """
SELECT (SELECT last_value - 1 + is_called::int FROM jobs_batch_id_seq),
       (SELECT last_value - 1 + is_called::int FROM jobs_turn_id_seq),
       (SELECT last_value - 1 + is_called::int FROM jobs_counterdelta_id_seq)
"""
# When all transactions that drew ids up to those of the last row have ended, no more rows with such ids can appear. If
# the transaction id of the last row is in the future, this database was copied from another server. Locks: the rows
# that it deletes. No fence is needed, because the mark is true, whichever process writes it and at any time.
_RAISE: Final[LiteralString] = """
WITH last AS MATERIALIZED (
    SELECT floor.*, next_since <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS is_settled
      FROM (SELECT * FROM jobs_lowwatermark
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
    DELETE FROM jobs_lowwatermark WHERE id < (SELECT id FROM reached)
)
INSERT INTO jobs_lowwatermark (batch, turn, delta, next_batch, next_turn, next_delta, next_since)
SELECT reached.batch, reached.turn, reached.delta, %(batch)s, %(turn)s, %(delta)s, pg_current_xact_id()::text::bigint
  FROM reached JOIN last ON (reached.batch, reached.turn, reached.delta, %(batch)s, %(turn)s, %(delta)s)
                         <> (last.batch, last.turn, last.delta, next_batch, next_turn, next_delta) OR NOT is_settled
"""


def raise_marks(connection: psycopg.Connection[Any]) -> None:
    """
    Raise each low-water mark to the highest id below which certainly no row is active. Needs an autocommit connection.
    """
    row = connection.execute(_LAST_IDS).fetchone()
    assert row is not None
    connection.execute(_RAISE, dict(zip(("batch", "turn", "delta"), row, strict=True)))
