"""
The times in which a job's schedule lets it run.

A *window* opens at each minute that matches its fields on the clock of its own time zone. It stays open for its
duration, `[opening, opening + duration)`, or permanently. The time that the clock shows decides. A clock that is set
forward skips openings, and a clock that is set back repeats some. Openings are computed from the calendar, not by
trying every minute.
"""

import calendar
import datetime as dt
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from zoneinfo import ZoneInfo

from jobs.lifecycle.job import StartMethod

# Longest time that is searched for an opening. After at most 40 years, a 29th of February has the same day of the week
# again.
_HORIZON: Final = dt.timedelta(days=41 * 366)
_DAY: Final = dt.timedelta(days=1)
# Limits of the search for overlaps: its time span, and the number of openings of each window.
_COMPARED: Final = dt.timedelta(days=5 * 366)
_OPENINGS_COMPARED: Final = 5_000


@dataclass(frozen=True)
class Window:
    """
    The times of one window, each a sorted tuple of numbers. An empty tuple means that the field is not given.

    Days of the week are 1 (Monday) to 7. Days of the month and months count from 1. Fields coarser than the finest one
    given match any value. Finer fields default to their minimum. So a month alone means its first day at midnight, and
    minutes alone mean these minutes of every hour.
    """

    days_of_week: tuple[int, ...] = ()
    days_of_month: tuple[int, ...] = ()
    months: tuple[int, ...] = ()
    years: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    time_zone: str = "UTC"
    duration: dt.timedelta | None = None
    minimal: bool = False

    @property
    def names_a_time(self) -> bool:
        return bool(self.days_of_week or self.days_of_month or self.months or self.years or self.hours or self.minutes)

    def openings(self, *, after: dt.datetime, until: dt.datetime) -> Iterator[dt.datetime]:
        """Yield the moments (UTC) in `(after, until]` at which the window opens, in order."""
        held: list[dt.datetime] = []
        for date in self._dates(after, until):
            found = self._openings_on(date, after, until)
            if not found:
                continue
            # Sorted, because a clock that is set back across midnight shows the end of a day again after the next day
            # has begun.
            held = sorted([*held, *found])
            while held and held[0] < found[0]:
                yield held.pop(0)
        yield from held

    def last_opening(self, *, after: dt.datetime, until: dt.datetime) -> dt.datetime | None:
        """Return the latest moment in `(after, until]` at which the window opened, or None."""
        latest: list[dt.datetime] = []
        for date in self._dates(after, until, backwards=True):
            found = self._openings_on(date, after, until)
            if not found:
                continue
            latest.append(found[-1])
            if len(latest) == 2:
                break
        return max(latest, default=None)

    def next_opening(self, *, after: dt.datetime) -> dt.datetime | None:
        """Return the first moment after this one at which the window opens; None if it never opens again."""
        return next(self.openings(after=after, until=after + _HORIZON), None)

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    @cached_property
    def _minutes_of_day(self) -> tuple[dt.time, ...]:
        hours = self.hours or (range(24) if self.minutes else (0,))
        return tuple(dt.time(hour, minute) for hour in hours for minute in self.minutes or (0,))

    @property
    def _names_a_time_of_day(self) -> bool:
        return bool(self.hours or self.minutes)

    def _dates(self, after: dt.datetime, until: dt.datetime, *, backwards: bool = False) -> Iterator[dt.date]:
        """Yield the days, on the clock of the window, on which it may open between these moments."""
        first = after.astimezone(self._zone).date() - _DAY
        last = until.astimezone(self._zone).date() + _DAY
        step = -1 if backwards else 1
        names_a_day = bool(self.days_of_month or self.days_of_week)
        days = self.days_of_month or (range(1, 32) if self._names_a_time_of_day or self.days_of_week else (1,))
        months = self.months or (range(1, 13) if self._names_a_time_of_day or names_a_day else (1,))
        for year in range(first.year, last.year + 1)[::step]:
            if self.years and year not in self.years:
                continue
            for month in months[::step]:
                length = calendar.monthrange(year, month)[1]
                if dt.date(year, month, length) < first or dt.date(year, month, 1) > last:
                    continue
                for day in days[::step]:
                    if day > length:
                        continue
                    date = dt.date(year, month, day)
                    if first <= date <= last and (not self.days_of_week or date.isoweekday() in self.days_of_week):
                        yield date

    def _openings_on(self, date: dt.date, after: dt.datetime, until: dt.datetime) -> list[dt.datetime]:
        """Return the moments of one day at which the window opens, within the limits, in order."""
        found = set()
        for time in self._minutes_of_day:
            for fold in (0, 1):
                shown = dt.datetime.combine(date, time, tzinfo=self._zone).replace(fold=fold)
                moment = shown.astimezone(dt.UTC)
                if after < moment <= until and moment.astimezone(self._zone).replace(tzinfo=None) == shown.replace(
                    tzinfo=None
                ):
                    found.add(moment)
        return sorted(found)


@dataclass(frozen=True, slots=True)
class Opening:
    """An opening of a window: its beginning, its end (None: it does not close), and True if its run is minimal."""

    began_at: dt.datetime
    ends_at: dt.datetime | None
    minimal: bool


def opening_at(
    windows: Sequence[Window], *, method: StartMethod, checked_at: dt.datetime, now: dt.datetime
) -> Opening | None:
    """
    Return the open window that lets a job run now, or None.

    With `WINDOW_BEGIN`, the window has opened since `checked_at` and is still open. With `WINDOW_INSIDE`, it may have
    opened earlier. If several are open, return the one that closes last.
    """
    if method == StartMethod.MANUAL:
        return None
    found = []
    for window in windows:
        since = checked_at
        if window.duration is not None:
            since = checked_at - window.duration if method == StartMethod.WINDOW_INSIDE else checked_at
            # A window that opened before this moment has already closed.
            since = max(since, now - window.duration)
        began_at = window.last_opening(after=since, until=now)
        if began_at is not None:
            ends_at = None if window.duration is None else began_at + window.duration
            found.append(Opening(began_at, ends_at, window.minimal))
    return max(found, key=_closing_key, default=None)


def _closing_key(opening: Opening) -> tuple[bool, dt.datetime]:
    return (opening.ends_at is None, opening.ends_at or opening.began_at)


def closed_opening_of(
    windows: Sequence[Window], *, after: dt.datetime, now: dt.datetime
) -> tuple[dt.datetime, Window] | None:
    """
    Return the latest opening after a moment of a window that has closed by now, with that window; None without one.
    """
    found = []
    for window in windows:
        if window.duration is None:
            continue
        opening = window.last_opening(after=after, until=now - window.duration)
        if opening is not None:
            found.append((opening, window))
    return max(found, key=lambda one: one[0], default=None)


def next_opening_of(windows: Sequence[Window], *, after: dt.datetime) -> tuple[dt.datetime, Window] | None:
    """Return the first opening of any of the windows after a moment, with its window; None without one."""
    coming = [(opening, window) for window in windows if (opening := window.next_opening(after=after)) is not None]
    return min(coming, key=lambda found: found[0], default=None)


def last_opening_of(windows: Sequence[Window], *, after: dt.datetime, until: dt.datetime) -> dt.datetime | None:
    """Return the latest moment in `(after, until]` at which one of the windows opened, or None."""
    found = [window.last_opening(after=after, until=until) for window in windows]
    return max((opening for opening in found if opening is not None), default=None)


def openings_between(windows: Sequence[Window], *, after: dt.datetime, until: dt.datetime) -> Iterator[dt.datetime]:
    """Yield the moments in `(after, until]` at which any of the windows opens, in order."""
    return heapq.merge(*(window.openings(after=after, until=until) for window in windows))


def next_openings(windows: Sequence[Window], *, after: dt.datetime) -> Iterator[tuple[dt.datetime, Window]]:
    """Yield the openings of all windows after a moment, in order, each with its window."""
    while (found := next_opening_of(windows, after=after)) is not None:
        yield found
        after = found[0]


def opening_in_words(opening: dt.datetime, window: Window) -> str:
    """Return a moment as the clock of the window shows it: `Mon 2 Dec 2030 22:00 Europe/Berlin`."""
    shown = opening.astimezone(ZoneInfo(window.time_zone))
    return f"{shown:%a} {shown.day} {shown:%b %Y %H:%M} {window.time_zone}"


def why_not_windows(windows: Sequence[Window], *, now: dt.datetime) -> dict[int, str]:
    """Return the problems of a job's windows, by their index; empty if the windows are valid."""
    problems = {}
    for place, window in enumerate(windows):
        if not window.names_a_time:
            problems[place] = "The window has no time. Write at least a day, an hour or minutes."
        elif window.next_opening(after=now) is None:
            problems[place] = "The window never opens, because no future day has this date and time."
    return problems or _overlaps(windows, now=now)


def _overlaps(windows: Sequence[Window], *, now: dt.datetime) -> dict[int, str]:
    """
    Return the problem of windows that overlap each other or their own earlier opening, or that open at the same moment.
    """
    coming = sorted(
        (opening, place) for place, window in enumerate(windows) for opening in _first_openings(window, after=now)
    )
    open_until: dict[int, dt.datetime] = {}
    opened: dict[dt.datetime, int] = {}
    for opening, place in coming:
        window = windows[place]
        if opening < open_until.get(place, opening):
            when = opening_in_words(opening, window)
            return {
                place: f"The window opens again while it is open, on {when}. Write fewer times or a shorter duration."
            }
        for other, ends_at in open_until.items():
            if other != place and opening < ends_at and window.duration is not None:
                return _overlap(place, other, opening, windows)
        if opened.setdefault(opening, place) != place:
            return _overlap(place, opened[opening], opening, windows)
        if window.duration is not None:
            open_until[place] = opening + window.duration
    return {}


def _first_openings(window: Window, *, after: dt.datetime) -> Iterator[dt.datetime]:
    openings = window.openings(after=after, until=after + _COMPARED)
    return (opening for opening, _ in zip(openings, range(_OPENINGS_COMPARED), strict=False))


def _overlap(place: int, other: int, opening: dt.datetime, windows: Sequence[Window]) -> dict[int, str]:
    latter, former = max(place, other), min(place, other)
    when = opening_in_words(opening, windows[place])
    return {latter: f"The window overlaps with window {former + 1}, on {when}."}
