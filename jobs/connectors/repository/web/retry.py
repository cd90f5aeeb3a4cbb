"""Retries: after failures that may pass by themselves, and after the wait that a server demands (Retry-After)."""

import datetime as dt
import email.utils
from collections.abc import Mapping
from typing import Final

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, RetryLimit
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.limits import Limits

# Causes of retries. The attempts of each cause are counted separately.
_NETWORK: Final = "network"
_BACK_OFF: Final = "back-off"


def retry_or_fail(code: str, document: Document, activity: Activity, *, limits: Limits) -> None:
    """
    Schedule a retry of the document after the next of `limits.retry_delays`. After the last of these delays, let the
    document fail.
    """
    delays = limits.retry_delays
    failures = document.failures_of(_NETWORK)
    if failures < len(delays):
        limit = RetryLimit(attempts=len(delays) + 1, cause=_NETWORK)
        activity.retry_later(code=code, after=delays[failures], limit=limit)
    else:
        activity.failed(code=code)


def back_off(response: Response, document: Document, activity: Activity, *, limits: Limits) -> None:
    """Back off from the host for as long as its answer demands, and retry the document or let it fail."""
    code = str(response.status)
    demanded = retry_after_of(response.headers, most=limits.longest_retry_after)
    activity.back_off(demanded)
    failures = document.failures_of(_BACK_OFF)
    if failures + 1 >= limits.back_off_attempts:
        activity.failed(code=code)
        return
    after = float(2**failures) if demanded is None else demanded
    activity.retry_later(code=code, after=after, limit=RetryLimit(attempts=limits.back_off_attempts, cause=_BACK_OFF))


def retry_after_of(headers: Mapping[str, str], *, most: float) -> float | None:
    """
    Return the seconds that Retry-After demands, between 0 and `most`; None if there is no valid value.

    A date is compared with the Date of the same answer, because both come from the server's clock.
    """
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:12]), most)
    then = _moment(value)
    if then is None:
        return None
    now = _moment(headers.get("Date", "")) or dt.datetime.now(dt.UTC)
    return min(max((then - now).total_seconds(), 0.0), most)


def _moment(value: str) -> dt.datetime | None:
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
