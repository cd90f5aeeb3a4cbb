"""
The times of the week in which a rule of a policy applies. No I/O.

The clock of the window's time zone decides. If clocks skip an hour, a window within that hour does not open that day.
If clocks repeat an hour, a window within that hour opens twice.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

EVERY_DAY: Final = (1, 2, 3, 4, 5, 6, 7)
_UTC: Final = ZoneInfo("UTC")
_DAY: Final = dt.timedelta(days=1)
_MIDNIGHT: Final = dt.time()
_WEEK: Final = 7 * _DAY
# Number of days that are searched for a change. When a country omits a day, its clock may skip the only opening of a
# week, but not in two weeks in a row.
_HORIZON: Final = 16


@dataclass(frozen=True, slots=True)
class Window:
    """
    Open on these days (1 is Monday) from `opens` until just before `closes`, or all day if both are None.

    A window whose `closes` is not after its `opens` is open past midnight. Its days are those on which it opens.
    """

    days: tuple[int, ...] = EVERY_DAY
    opens: dt.time | None = None
    closes: dt.time | None = None
    zone: ZoneInfo = _UTC

    def is_open(self, at: dt.datetime) -> bool:
        shown = at.astimezone(self.zone)
        today, time = shown.isoweekday(), shown.time()
        if self.opens is None or self.closes is None:
            return today in self.days
        if self.opens < self.closes:
            return today in self.days and self.opens <= time < self.closes
        yesterday = (today - 2) % 7 + 1
        return (today in self.days and time >= self.opens) or (yesterday in self.days and time < self.closes)

    def next_change(self, after: dt.datetime) -> dt.datetime | None:
        """Return the first moment (UTC) after this one at which the window opens or closes; None if there is none."""
        if self.opens is None and set(self.days) == set(EVERY_DAY):
            return None
        was_open = self.is_open(after)
        return next((moment for moment in self._edges(after) if self.is_open(moment) != was_open), None)

    def last_change(self, until: dt.datetime) -> dt.datetime | None:
        """Return the last moment (UTC) up to this one at which the window opened or closed; None if there was none."""
        if self.opens is None and set(self.days) == set(EVERY_DAY):
            return None
        last, was_open = None, None
        for moment in self._edges(until - _HORIZON * _DAY):
            if moment > until:
                break
            is_open = self.is_open(moment)
            if was_open is not None and is_open != was_open:
                last = moment
            was_open = is_open
        return last

    def _edges(self, after: dt.datetime) -> Iterator[dt.datetime]:
        """
        Yield every moment at which the window could open or close, in order. Between two of these moments, it neither
        opens nor closes.
        """
        begin = after.astimezone(dt.UTC)
        for _ in range(_HORIZON):
            end = begin + _DAY
            moments = {*self._shown_within(begin, end), *_changes_of_clock(self.zone, begin, end)}
            yield from sorted(moments)
            begin = end

    def _shown_within(self, begin: dt.datetime, end: dt.datetime) -> Iterator[dt.datetime]:
        """Yield the moments after `begin`, until `end`, at which the clock shows an opening or a closing time."""
        times = (_MIDNIGHT,) if self.opens is None or self.closes is None else (self.opens, self.closes)
        date = begin.astimezone(self.zone).date() - _DAY
        last = end.astimezone(self.zone).date() + _DAY
        while date <= last:
            for time in times:
                for fold in (0, 1):
                    moment = dt.datetime.combine(date, time, tzinfo=self.zone).replace(fold=fold).astimezone(dt.UTC)
                    if begin < moment <= end:
                        yield moment
            date += _DAY


ALWAYS: Final = Window()


def parts_of_the_week(windows: Sequence[Window]) -> list[int]:
    """
    Return each window as a bit set of the parts of a week in which it is open. No window changes within a part.

    All windows have the same time zone, so the time that its clock shows is enough.
    """
    stretches = [_stretches(window) for window in windows]
    edges = sorted({edge for some in stretches for stretch in some for edge in stretch})
    place = {edge: number for number, edge in enumerate(edges)}
    return [sum((1 << place[end]) - (1 << place[begin]) for begin, end in some) for some in stretches]


def covering(window: int, others: Sequence[int]) -> list[int] | None:
    """
    Return the indices of a few `others` that together are open whenever this window is; None if they leave a gap.

    All values are from one call of `parts_of_the_week`. The result has one index if a single window is enough.
    """
    alone = next((place for place, other in enumerate(others) if not window & ~other), None)
    if alone is not None:
        return [alone]
    needed: list[int] = []
    for place, other in enumerate(others):
        if window & other:
            needed.append(place)
            window &= ~other
    return None if window else needed


def _stretches(window: Window) -> list[tuple[dt.timedelta, dt.timedelta]]:
    """
    Return the intervals in which a window is open, from Monday's midnight on, without overlaps. One that crosses the
    end of the week continues at its beginning.
    """
    opens, closes = dt.timedelta(), _DAY
    if window.opens is not None and window.closes is not None:
        opens, closes = _since_midnight(window.opens), _since_midnight(window.closes)
        closes += _DAY if closes <= opens else dt.timedelta()
    found: list[tuple[dt.timedelta, dt.timedelta]] = []
    for day in sorted(set(window.days)):
        begin, end = (day - 1) * _DAY + opens, (day - 1) * _DAY + closes
        found.append((begin, min(end, _WEEK)))
        if end > _WEEK:
            found.append((dt.timedelta(), end - _WEEK))
    return found


def _since_midnight(time: dt.time) -> dt.timedelta:
    return dt.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second, microseconds=time.microsecond)


def _changes_of_clock(zone: ZoneInfo, begin: dt.datetime, end: dt.datetime) -> Iterator[dt.datetime]:
    """Yield the moment in `(begin, end]`, at most a day, at which the clock changes its offset, if there is one."""
    before = begin.astimezone(zone).utcoffset()
    if end.astimezone(zone).utcoffset() == before:
        return
    # Clocks change at a full second.
    low, high = int(begin.timestamp()), int(end.timestamp())
    while low + 1 < high:
        middle = (low + high) // 2
        if dt.datetime.fromtimestamp(middle, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    yield dt.datetime.fromtimestamp(high, dt.UTC)
