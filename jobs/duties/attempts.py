"""Retries of work that the main manager or an owner cannot do yet: seeding a run, notifying an output."""

import datetime as dt
from typing import Final

from jobs.connectors.repository.base import RetryLimit

_FIRST_WAIT: Final = dt.timedelta(seconds=5)
_LONGEST_WAIT: Final = dt.timedelta(minutes=5)
# Largest number of attempts. With the waits above, the last attempt is about ten minutes after the first one.
_USUAL_LIMIT: Final = RetryLimit(attempts=8)

NO_FAILURES: Final[dict[str, object]] = {"failures": 0, "failing_since": None, "retry_at": None}


def failed_attempt(
    *,
    failures: int,
    failing_since: dt.datetime | None,
    retry_after: float | None = None,
    limit: RetryLimit | None = None,
    now: dt.datetime,
) -> dict[str, object] | None:
    """
    Return the columns of a job after one more failed attempt; None if that was the last one.

    The next attempt is `retry_after` seconds from now. If that is None, the wait doubles with each attempt, up to
    five minutes.
    """
    limit = limit or _USUAL_LIMIT
    since = failing_since or now
    wait = min(_FIRST_WAIT * 2**failures, _LONGEST_WAIT) if retry_after is None else dt.timedelta(seconds=retry_after)
    if limit.attempts is not None and failures + 1 >= limit.attempts:
        return None
    if limit.seconds is not None and now + wait > since + dt.timedelta(seconds=limit.seconds):
        return None
    return {"failures": failures + 1, "failing_since": since, "retry_at": now + wait}
