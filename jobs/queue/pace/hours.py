"""
The requests of bins by hour, counted when their turns are deleted.

A turn has its counts from the moment at which it closes. It is deleted once, some minutes later, and the statement that
deletes it adds these counts to the row of its bin and hour. So each request counts once, whichever process dies, and no
turn costs an additional statement.
"""

from typing import Final, LiteralString

# Days for which the hours are kept.
KEPT_DAYS: Final = 7

# Common table expressions that delete the turns of the batches that `old` names by id. A turn without a start costs no
# row.
# Locks: the turns that it deletes, then BinHour rows in the order of their keys.
DELETE_TURNS: Final[LiteralString] = """
turns AS (
    DELETE FROM jobs_turn WHERE batch_id IN (SELECT id FROM old)
    RETURNING bin_id, closed_at, starts, bytes_read, gap, bytes_per_second
), hours AS (
    INSERT INTO jobs_binhour (bin_id, hour, starts, bytes_read, gap, bytes_per_second)
    SELECT bin_id, date_trunc('hour', closed_at, 'UTC'), sum(starts), sum(bytes_read), min(gap),
           CASE WHEN count(*) = count(bytes_per_second) THEN max(bytes_per_second) END
      FROM turns WHERE starts > 0
     GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (bin_id, hour)
    DO UPDATE SET starts = jobs_binhour.starts + excluded.starts, bytes_read = jobs_binhour.bytes_read + excluded.bytes_read,
                  gap = least(jobs_binhour.gap, excluded.gap),
                  bytes_per_second = CASE WHEN num_nulls(jobs_binhour.bytes_per_second, excluded.bytes_per_second) = 0
                                          THEN greatest(jobs_binhour.bytes_per_second, excluded.bytes_per_second) END
)
"""
