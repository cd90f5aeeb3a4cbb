"""Schedules in a few words: every hour, every day, every week."""

import datetime as dt
import enum

from jobs.lifecycle.schedule import Window


class Every(enum.StrEnum):
    """The unit of a simple schedule. The job starts once in each hour, day or week."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


def window_every(every: Every, *, at: dt.time, weekday: int = 1, time_zone: str = "UTC") -> Window:
    """
    Return the window that opens every hour at the minute of `at`, or every day or week at `at`.

    `weekday` is 1 (Monday) to 7. The window does not close, so a run that began in it never waits.
    """
    match every:
        case Every.HOUR:
            return Window(minutes=(at.minute,), time_zone=time_zone)
        case Every.DAY:
            return Window(hours=(at.hour,), minutes=(at.minute,), time_zone=time_zone)
        case Every.WEEK:
            return Window(days_of_week=(weekday,), hours=(at.hour,), minutes=(at.minute,), time_zone=time_zone)
