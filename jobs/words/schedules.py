"""Times of schedules in words, for pages in each language."""

import datetime as dt
from collections.abc import Sequence
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from django.utils.dateformat import format as formatted
from django.utils.translation import gettext as _

from jobs.lifecycle.job import StartMethod
from jobs.lifecycle.schedule import Window, next_openings

_STARTS_SHOWN: Final = 5


def show_opening(opening: dt.datetime, window: Window) -> str:
    """Return a moment as the clock of the window shows it: `Mon 2 Dec 2030 22:00 Europe/Berlin`."""
    shown = opening.astimezone(ZoneInfo(window.time_zone))
    # A format of Django for dates, in the order of each language.
    return f"{formatted(shown, _('D j M Y H:i'))} {window.time_zone}"


def show_next_starts(method: StartMethod, windows: Sequence[Window], *, now: dt.datetime) -> list[str]:
    """Return the next openings of a schedule as texts; an empty list if the job starts by hand."""
    if method == StartMethod.MANUAL or not windows:
        return []
    return [show_opening(*one) for one in islice(next_openings(windows, after=now), _STARTS_SHOWN)]
