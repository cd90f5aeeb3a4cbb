"""Proves that waits between retries double up to five minutes, and that the given limits end them."""

import datetime as dt

from jobs.connectors.repository.base import RetryLimit
from jobs.duties.attempts import failed_attempt

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)


def attempts(**facts):
    """Return the seconds between attempts, up to the last attempt."""
    now, failures, since = NOON, 0, None
    waits = []
    while later := failed_attempt(failures=failures, failing_since=since, now=now, **facts):
        waits.append((later["retry_at"] - now).total_seconds())
        now, failures, since = later["retry_at"], later["failures"], later["failing_since"]
        assert since == NOON
        if len(waits) == 50:
            break
    return waits


def test_waits_double_up_to_five_minutes_until_the_last_attempt():
    assert attempts() == [5, 10, 20, 40, 80, 160, 300]


def test_a_failure_that_names_its_retry_time_is_retried_at_this_time():
    assert attempts(retry_after=3.0) == [3.0] * 7


def test_a_limit_in_attempts_or_in_time_holds_whichever_comes_first():
    assert attempts(limit=RetryLimit(attempts=3)) == [5, 10]
    assert attempts(retry_after=10.0, limit=RetryLimit(seconds=35.0)) == [10.0] * 3
    assert attempts(retry_after=10.0, limit=RetryLimit(attempts=2, seconds=35.0)) == [10.0]


def test_an_empty_limit_of_retries_is_no_limit():
    assert len(attempts(retry_after=1.0, limit=RetryLimit())) == 50
