"""The lifetime of long-lived tokens, in whole days."""

import datetime as dt
from typing import Any, Final

from rest_framework import serializers

from nodes.database.clock import read_clock

_MOST_DAYS: Final = 3_650


class DaysField(serializers.IntegerField):
    """The days until a new token expires; None for a token that never expires."""

    def __init__(self, **options: Any) -> None:
        given = {"min_value": 1, "max_value": _MOST_DAYS, "allow_null": True, "default": None}
        super().__init__(**{**given, "help_text": "Days until it expires. If null, never.", **options})


def why_no_days(days: object) -> str:
    """Return the reason why this is not a lifetime; "" if it is one."""
    is_whole = isinstance(days, int) and not isinstance(days, bool) and 1 <= days <= _MOST_DAYS
    return "" if days is None or is_whole else f"Write a whole number of days from 1 to {_MOST_DAYS}, or nothing."


def expiry(days: object) -> dt.datetime | None:
    """Return the moment at which a token that is created now expires; None without a lifetime."""
    return None if days is None else read_clock() + dt.timedelta(days=int(str(days)))
