"""
When a document of a continuous job is looked at again, and when it expires. Arithmetic; no I/O.

ManifoldCF waits the interval and the average time between changes that it saw; what it never saw change
is read at the shortest interval for ever. Here a document is looked at again after the interval, or
after half of the time for which it has not changed, if that is longer: the heuristic of HTTP caches
(RFC 9111, 4.2.2) with a half in place of a tenth. What changes often is read often, and what never
changes is read at times that grow by half each.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Final

from jobs.connectors.repository.base import ScheduleBounds
from jobs.lifecycle.document import Action

_SHARE_OF_AGE: Final = 0.5
# What is asked for a moment that no calendar has: it is as good as never.
_FOREVER: Final = dt.timedelta(days=365 * 1000)
ANY_TIME: Final = ScheduleBounds()


@dataclass(frozen=True, slots=True)
class Intervals:
    """Those of a continuous job; None is never. `at_most` is the longest wait before a document is read again."""

    recrawl_after: dt.timedelta | None = None
    recrawl_at_most: dt.timedelta | None = None
    expire_after: dt.timedelta | None = None

    def next_look(
        self,
        *,
        now: dt.datetime,
        changed_at: dt.datetime,
        originated_at: dt.datetime,
        bounds: ScheduleBounds = ANY_TIME,
    ) -> tuple[dt.datetime | None, Action]:
        """
        When to do what with a document that was just read; (None, PROCESS) for never.

        It last changed at `changed_at` and came to be at `originated_at`. The earlier of reading again
        and expiring counts; at one and the same moment it is read again.
        """
        recrawl = self._recrawl_in(now - changed_at, bounds)
        expire = self._expire_in(originated_at - now, bounds)
        if expire is not None and (recrawl is None or expire < recrawl):
            return now + max(dt.timedelta(), expire), Action.EXPIRE
        return (None if recrawl is None else now + recrawl), Action.PROCESS

    def _recrawl_in(self, age: dt.timedelta, bounds: ScheduleBounds) -> dt.timedelta | None:
        if self.recrawl_after is None:
            return None
        wait = max(self.recrawl_after, age * _SHARE_OF_AGE)
        if self.recrawl_at_most is not None:
            wait = min(wait, self.recrawl_at_most)
        return _within(wait, least=bounds.recrawl_least, most=bounds.recrawl_most)

    def _expire_in(self, since_origin: dt.timedelta, bounds: ScheduleBounds) -> dt.timedelta | None:
        if self.expire_after is None:
            return None
        return _within(since_origin + self.expire_after, least=bounds.expire_least, most=bounds.expire_most)


def _within(wait: dt.timedelta, *, least: float | None, most: float | None) -> dt.timedelta:
    if most is not None:
        wait = min(wait, dt.timedelta(seconds=most))
    if least is not None:
        wait = max(wait, dt.timedelta(seconds=least))
    return min(wait, _FOREVER)
