"""When a server wants to be asked again: the header Retry-After."""

import datetime as dt
import email.utils
from collections.abc import Mapping


def retry_after_of(headers: Mapping[str, str], *, most: float) -> float | None:
    """
    Return the seconds that Retry-After asks to wait, between 0 and `most`; None if it says nothing.

    A date is read against the server's own Date: its clock, not ours, has set it.
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
