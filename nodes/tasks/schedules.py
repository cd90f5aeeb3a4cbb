"""
Schedules of templates: cron expressions in a time zone, or every n minutes.

A schedule is stored as JSON: `{"cron": "14 2 * * *", "time_zone": "Europe/Berlin"}` or `{"every_minutes": 15}`. cronsim
evaluates cron expressions. When a clock is set forward, a task of the skipped hour runs right after it. When a clock is
set back, a task with a fixed hour runs once.
"""

import datetime as dt
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from nodes.errors import Invalid

_MOST_MINUTES: Final = 366 * 24 * 60
_LONGEST_EXPRESSION: Final = 200
# Moment from which the intervals of `every_minutes` count, so that no restart and no other main manager shifts them.
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MINUTE: Final = dt.timedelta(minutes=1)
# Time around a change of a clock in which moments differ from those of other days: two hours and a margin.
_LONGEST_CHANGE: Final = dt.timedelta(hours=3)


class Schedule(Protocol):
    """The moments of a template."""

    def after(self, moment: dt.datetime) -> Iterator[dt.datetime]:
        """Yield the moments after this one, in order. Their number may be finite."""
        ...

    def latest(self, now: dt.datetime) -> dt.datetime:
        """Return the last moment that is not after this one."""
        ...


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression with five fields, in a time zone."""

    expression: str
    time_zone: str = "UTC"

    def after(self, moment: dt.datetime) -> Iterator[dt.datetime]:
        for found in CronSim(self.expression, moment.astimezone(ZoneInfo(self.time_zone))):
            # When the clock repeats an hour, cronsim also returns moments of the first of these two hours.
            if found > moment:
                yield found.astimezone(dt.UTC)

    def latest(self, now: dt.datetime) -> dt.datetime:
        # Around a change of the clock, cronsim finds other moments when it searches backward than when it searches
        # forward. So this search goes forward, from a moment before any change that still has an effect.
        start = (now - _LONGEST_CHANGE).astimezone(ZoneInfo(self.time_zone))
        for before in CronSim(self.expression, start, reverse=True):
            found = deque(takewhile(lambda moment: moment <= now, self.after(before - _MINUTE)), maxlen=1)
            if found:
                return found[0]
        raise AssertionError("a cron expression has moments in the past")


@dataclass(frozen=True, slots=True)
class EveryMinutes:
    """Every `minutes` minutes, counted from 1970."""

    minutes: int

    def after(self, moment: dt.datetime) -> Iterator[dt.datetime]:
        step = dt.timedelta(minutes=self.minutes)
        number = (moment - _EPOCH) // step
        while True:
            number += 1
            yield _EPOCH + number * step

    def latest(self, now: dt.datetime) -> dt.datetime:
        step = dt.timedelta(minutes=self.minutes)
        return _EPOCH + (now - _EPOCH) // step * step


def next_moment(schedule: Schedule, *, after: dt.datetime) -> dt.datetime | None:
    """Return the first moment after this one; None if there is none."""
    return next(schedule.after(after), None)


def next_moments(schedule: Schedule, *, after: dt.datetime, number: int = 5) -> list[dt.datetime]:
    """Return the next moments after this one, in order."""
    return list(islice(schedule.after(after), number))


def due_moment(schedule: Schedule, *, planned: dt.datetime, now: dt.datetime) -> dt.datetime:
    """
    Return the moment for which a due template makes its task: the latest one that is not in the future.

    If several moments passed without a main manager, only one task is made for them.
    """
    return max(planned, schedule.latest(now))


def read_schedule(stored: object) -> Schedule:
    """
    Return the schedule of its JSON form.

    Raises:
        Invalid: a part is unknown, missing or invalid. `problems` names it.
    """
    if not isinstance(stored, Mapping):
        raise Invalid({"": ['A schedule is an object like {"cron": "14 2 * * *"} or {"every_minutes": 15}.']})
    unknown = sorted(set(map(str, stored)) - {"cron", "time_zone", "every_minutes"})
    if unknown:
        raise Invalid({unknown[0]: ["Unknown part; known parts: cron, time_zone, every_minutes."]})
    if ("cron" in stored) == ("every_minutes" in stored):
        raise Invalid({"": ["Write either cron or every_minutes."]})
    if "cron" in stored:
        return _read_cron(stored)
    if "time_zone" in stored:
        raise Invalid({"time_zone": ["A time zone needs cron."]})
    minutes = stored["every_minutes"]
    if not isinstance(minutes, int) or isinstance(minutes, bool) or not 1 <= minutes <= _MOST_MINUTES:
        raise Invalid({"every_minutes": [f"This must be a whole number from 1 to {_MOST_MINUTES}."]})
    return EveryMinutes(minutes)


def _read_cron(stored: Mapping[str, object]) -> Cron:
    zone = stored.get("time_zone", "UTC")
    if not isinstance(zone, str) or not _is_zone(zone):
        raise Invalid({"time_zone": ["Unknown time zone. Write a name such as Europe/Berlin."]})
    expression = stored["cron"]
    if not isinstance(expression, str) or len(expression) > _LONGEST_EXPRESSION or len(expression.split()) != 5:
        raise Invalid({"cron": ["A cron expression has five fields, such as 14 2 * * *."]})
    try:
        CronSim(expression, _EPOCH)
    except CronSimError as error:
        raise Invalid({"cron": [f"Invalid cron expression: {error}."]}) from None
    return Cron(expression, zone)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return False
    return True
