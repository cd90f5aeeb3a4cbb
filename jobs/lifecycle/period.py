"""Periods of rate limits."""

import enum
from typing import Final


class Period(enum.StrEnum):
    """The time for which a limit allows a number of requests."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return _SECONDS[self]


_SECONDS: Final = {Period.SECOND: 1, Period.MINUTE: 60, Period.HOUR: 3_600, Period.DAY: 86_400}
