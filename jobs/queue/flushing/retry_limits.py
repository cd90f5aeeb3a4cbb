"""
Limits of retries, which are stored so that operators see them while the attempts continue. The number of attempts is
stored by cause, because each cause has its own limit.
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from jobs.connectors.repository.base import Ending
from jobs.queue.flushing.outcomes import Result

# A separate statement, since few flushes have retries. Its columns are valid while `failures` is above 0. Locks:
# none. The flush holds the rows.
_KEEP: Final[LiteralString] = """
UPDATE jobs_queueitem AS item
   SET most_failures = given.attempts, failing_until = item.failing_since + make_interval(secs => given.seconds),
       failures_by_cause = given.by_cause
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(attempts)s::int[], %(seconds)s::float[],
              %(by_cause)s::jsonb[])
       AS given(hash, job_id, attempts, seconds, by_cause)
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
            "attempts": [_most_failures(result) for result in again],
            "seconds": [limit.seconds if limit else None for limit in limits],
            "by_cause": [Jsonb(_failures_after(result)) for result in again],
        },
    )


def _most_failures(result: Result) -> int | None:
    """
    Return the number of failures in a row, of all causes, at which a document fails if only this cause occurs from now
    on.
    """
    limit, document = result.outcome.retry_limit, result.claimed.document
    if limit is None or limit.attempts is None:
        return None
    return limit.attempts + document.failures - document.failures_of(limit.cause)


def _failures_after(result: Result) -> dict[str, int]:
    """Return the failures of a document by cause, including this failure."""
    limit, document = result.outcome.retry_limit, result.claimed.document
    cause = limit.cause if limit else ""
    return {**(document.failures_by_cause or {}), cause: document.failures_of(cause) + 1}
