"""Limits of retries: stored for operators, who see them while the attempts continue."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending
from jobs.queue.flushing.outcomes import Result

# A statement of its own, since few flushes have retries. Its columns are valid while `failures` is above 0.
# Locks: none more, the flush holds the rows.
_KEEP: Final[LiteralString] = """
UPDATE jobs_queueitem AS item
   SET most_failures = given.attempts, failing_until = item.failing_since + make_interval(secs => given.seconds)
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(attempts)s::int[], %(seconds)s::float[])
       AS given(hash, job_id, attempts, seconds)
 WHERE item.hash = given.hash AND item.job_id = given.job_id
"""


def keep_retry_limits(cursor: psycopg.Cursor[Any], results: Sequence[Result]) -> None:
    """Store the retry limits of results that get another attempt; their rows have been written."""
    again = [result for result in results if result.outcome.ending == Ending.RETRY]
    if not again:
        return
    limits = [result.outcome.retry_limit for result in again]
    cursor.execute(
        _KEEP,
        {
            "hashes": [result.claimed.document.hash for result in again],
            "jobs": [result.job.id for result in again],
            "attempts": [limit.attempts if limit else None for limit in limits],
            "seconds": [limit.seconds if limit else None for limit in limits],
        },
    )
