"""The requests of a host by hour in the last seven days, and the limits that its turns had."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jobs.models import BinHour
from jobs.queue.pace.hours import KEPT_DAYS

HOUR: Final = dt.timedelta(hours=1)
HOURS: Final = KEPT_DAYS * 24
# Age from which requests are counted. At this age, their turns are deleted (`jobs/duties/housekeep.py`).
COUNTED_AFTER: Final = dt.timedelta(minutes=10)
# Shortest part of an hour that has a rate, so that one turn more or less does not show.
_SHORTEST: Final = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Hour:
    """
    An hour of a host: its start, and the number of seconds in it whose requests are counted.

    The limits are the loosest of the hour, None for no limit. They are known only if the host `was_requested`.
    """

    at: dt.datetime
    seconds: float
    starts: int = 0
    bytes_read: int = 0
    was_requested: bool = False
    allowed_starts_per_second: float | None = None
    allowed_bytes_per_second: float | None = None

    @property
    def starts_per_second(self) -> float:
        return self.starts / self.seconds

    @property
    def bytes_per_second(self) -> float:
        return self.bytes_read / self.seconds


def read_week(bin_id: int, *, now: dt.datetime) -> Sequence[Hour]:
    """Return the last 168 hours of a host, the oldest first; an empty list if the host had no request in this time."""
    counted_until = now - COUNTED_AFTER
    last = (counted_until - _SHORTEST).astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)
    begin = last - (HOURS - 1) * HOUR
    rows = {row.hour: row for row in BinHour.objects.filter(bin_id=bin_id, hour__gte=begin, hour__lte=last)}
    if not rows:
        return []
    hours = []
    for at in (begin + number * HOUR for number in range(HOURS)):
        hour = Hour(at, min(HOUR, counted_until - at).total_seconds())
        hours.append(_filled(hour, rows[at]) if at in rows else hour)
    return hours


def _filled(hour: Hour, row: BinHour) -> Hour:
    return replace(
        hour,
        starts=row.starts,
        bytes_read=row.bytes_read,
        was_requested=True,
        allowed_starts_per_second=1 / row.gap if row.gap else None,
        allowed_bytes_per_second=row.bytes_per_second,
    )
