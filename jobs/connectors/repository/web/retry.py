"""The header Retry-After: the wait that a server demands."""

import datetime as dt
import email.utils
from collections.abc import Mapping


def retry_after_of(headers: Mapping[str, str], *, most: float) -> float | None:
    """
    Return the seconds that Retry-After demands, between 0 and `most`; None if there is no valid value.

    A date is compared with the server's own Date: it was set by the server's clock, not ours.
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
