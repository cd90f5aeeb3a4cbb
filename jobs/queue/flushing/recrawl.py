"""
The next visit of a document in a continuous job, and its expiry. Arithmetic; no I/O.

ManifoldCF waits the interval and the average time between the changes that it saw. With that rule, a document that
never changed is read at the shortest interval forever. Here a document is read again after the interval, or after half
of the time since its last change, if that is longer. That is the heuristic of HTTP caches (RFC 9111, 4.2.2) with a half
in place of a tenth. Documents that change often are read often. The interval of a document that does not change grows
by half each time.

A document expires, as in ManifoldCF, an interval after its origination date, or after its processing if its source
gives no date. So a page that is read again does not expire, and no wait extends beyond the expiry of its page.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Final

from jobs.connectors.repository.base import ScheduleBounds
from jobs.lifecycle.document import Action

_SHARE_OF_AGE: Final = 0.5
# Longest wait. A longer one would exceed the calendar.
_FOREVER: Final = dt.timedelta(days=365 * 1000)
ANY_TIME: Final = ScheduleBounds()


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of a continuous job; None is never. `recrawl_at_most` is the longest wait before the next reading."""

    recrawl_after: dt.timedelta | None = None
    recrawl_at_most: dt.timedelta | None = None
    expire_after: dt.timedelta | None = None

    def next_look(
        self,
        *,
        now: dt.datetime,
        changed_at: dt.datetime,
        originated_at: dt.datetime | None = None,
        bounds: ScheduleBounds = ANY_TIME,
        planned: dt.timedelta | None = None,
    ) -> tuple[dt.datetime | None, Action]:
        """
        Return the time and kind of the next action for a document that was just processed; (None, PROCESS) for never.

        It last changed at `changed_at`. `originated_at` is the date that its source gives now; None if it is unknown.
        If a reading and an expiry are both possible, the earlier one applies; at the same moment, the document is read
        again. `planned` is the wait by the freshness goals of the job, which replaces the wait by the age of the
        document.
        """
        expire = self._expire_in(now, originated_at, bounds)
        # Without a date of its source, a document's time until expiry begins again with each reading.
        recrawl = self._recrawl_in(
            now - changed_at, bounds, life=expire if originated_at is None else None, planned=planned
        )
        if expire is not None and (recrawl is None or expire < recrawl):
            return now + max(dt.timedelta(), expire), Action.EXPIRE
        return (None if recrawl is None else now + recrawl), Action.PROCESS

    def _recrawl_in(
        self, age: dt.timedelta, bounds: ScheduleBounds, *, life: dt.timedelta | None, planned: dt.timedelta | None
    ) -> dt.timedelta | None:
        least = self.recrawl_after if planned is None else planned
        if least is None:
            return None
        shortest = _within(least, least=bounds.recrawl_least, most=bounds.recrawl_most)
        wait = least if planned is not None else max(least, age * _SHARE_OF_AGE)
        if self.recrawl_at_most is not None:
            wait = min(wait, self.recrawl_at_most)
        wait = _within(wait, least=bounds.recrawl_least, most=bounds.recrawl_most)
        # A document that seldom changes must not expire because it is read seldom.
        return wait if life is None or life < shortest else min(wait, life)

    def _expire_in(
        self, now: dt.datetime, originated_at: dt.datetime | None, bounds: ScheduleBounds
    ) -> dt.timedelta | None:
        if self.expire_after is None:
            return None
        # A date in the future is a mistake of the source.
        since = now if originated_at is None else min(originated_at, now)
        return _within(since - now + self.expire_after, least=bounds.expire_least, most=bounds.expire_most)


def _within(wait: dt.timedelta, *, least: float | None, most: float | None) -> dt.timedelta:
    if most is not None:
        wait = min(wait, dt.timedelta(seconds=most))
    if least is not None:
        wait = max(wait, dt.timedelta(seconds=least))
    return min(wait, _FOREVER)
