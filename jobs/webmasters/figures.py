"""
The figures of one host for its webmaster: requests of the last day, answers, and the limit in force with its reason.

The figures name no document, job, policy or other host. A process reads the figures of a host at most once in some
seconds, and of one host at a time, so that visitors cannot overload the database.
"""

import datetime as dt
import enum
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

from django.db import connection

from jobs.connectors.repository.web.kind import HOSTS
from jobs.evidence.chain import Head
from jobs.models import ThrottlePolicy
from jobs.models.webmaster import WEBMASTERS
from jobs.queries.hosts.answers import Answers, read_answers
from jobs.queries.hosts.evidence import read_head
from jobs.queries.hosts.week import COUNTED_AFTER, Hour, read_week
from jobs.queue.pace.limits import BOUND, FACTS, AppliedPolicies
from jobs.queue.sql.rows import named_rows
from jobs.settings.webmasters import SHOWN
from jobs.throttling.limits import Limits
from jobs.throttling.patterns import matches
from jobs.throttling.sources import Origin, Source, decisive
from nodes.database.clock import read_clock
from nodes.errors import TooSlow
from nodes.settings.running import current

DAY: Final = dt.timedelta(days=1)
_HOURS: Final = 24
# Time for which the figures of a host are reused (seconds), and the largest number of hosts whose figures a process
# keeps.
KEPT_FOR: Final = 10.0
_MOST_KEPT: Final = 1_000
# Longest wait of a visitor while figures are read for other visitors (seconds).
_LONGEST_WAIT: Final = 2.0

_HOST: Final[LiteralString] = f"""
SELECT {FACTS}, bin.back_off_until, bin.back_off_level FROM jobs_bin AS bin {BOUND}
 WHERE bin.namespace = %(namespace)s AND bin.name = %(name)s
"""


class Reason(enum.StrEnum):
    """The reasons for the limits of a host, as words for programs."""

    STOPPED = "stopped"
    DENIED = "denied"
    WEBMASTER = "webmaster"
    ROBOTS = "robots"
    OPERATOR = "operator"
    USUAL = "usual"


_REASONS: Final = {
    Origin.STOP: Reason.STOPPED,
    Origin.ROBOTS: Reason.ROBOTS,
    Origin.POLICY: Reason.OPERATOR,
    Origin.USUAL: Reason.USUAL,
}


@dataclass(frozen=True, slots=True)
class InForce:
    """The limits of a host, and the reason for them. `back_off_until` is None if the host does not back off."""

    limits: Limits
    reason: Reason
    back_off_until: dt.datetime | None = None

    @property
    def is_closed(self) -> bool:
        return self.limits.denied or self.limits.closed_until is not None


@dataclass(frozen=True, slots=True)
class Figures:
    """
    The figures of a host at a moment.

    `hours` are the last 24 hours with their requests until `counted_until`, the oldest first. They are empty without a
    request. `answers` are the newest answers of the last day. `in_force` is None for a host that no crawl has reached.
    """

    read_at: dt.datetime
    hours: Sequence[Hour] = ()
    answers: Answers = field(default_factory=Answers)
    in_force: InForce | None = None
    # The last block of the host's evidence.
    evidence: Head | None = None

    @property
    def counted_until(self) -> dt.datetime:
        return self.read_at - COUNTED_AFTER

    @property
    def requests(self) -> int:
        return sum(hour.starts for hour in self.hours)

    @property
    def bytes_read(self) -> int:
        return sum(hour.bytes_read for hour in self.hours)


class _Kept:
    """Reads the figures of hosts, one host at a time, and reuses them for some seconds."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._by_host: dict[str, tuple[float, Figures]] = {}

    def read(self, name: str) -> Figures:
        if not self._one_at_a_time.acquire(timeout=_LONGEST_WAIT):
            raise TooSlow("Too many visitors ask at the same time. Try again in a few seconds.")
        try:
            until, figures = self._by_host.get(name, (0.0, None))
            if figures is None or time.monotonic() > until:
                if len(self._by_host) >= _MOST_KEPT:
                    self._by_host.clear()
                figures = _read(name, now=read_clock())
                self._by_host[name] = time.monotonic() + KEPT_FOR, figures
            return figures
        finally:
            self._one_at_a_time.release()

    def forget(self) -> None:
        with self._one_at_a_time:
            self._by_host.clear()


_KEPT: Final = _Kept()
forget_figures: Final = _KEPT.forget


def are_public(name: str) -> bool:
    """True if the settings show the figures of this host to every visitor."""
    return any(matches(pattern, name) for pattern in current()[SHOWN])


def read_figures(name: str) -> Figures:
    """
    Return the figures of a web host, as of a few seconds ago at most.

    Raises:
        TooSlow: other visitors ask for many hosts.
    """
    return _KEPT.read(name)


def _read(name: str, *, now: dt.datetime) -> Figures:
    facts = {"namespace": HOSTS.namespace, "name": name, "policy": None}
    connection.ensure_connection()
    with named_rows(connection.connection) as cursor:
        row = cursor.execute(_HOST, facts).fetchone()
        if row is None:
            return Figures(now)
        applied = AppliedPolicies.read(cursor, [row], now=now)
    return Figures(
        now,
        hours=_last_day(row.id, now=now),
        answers=read_answers(row.id, name, span=DAY, now=now),
        in_force=_in_force(row, applied, now=now),
        evidence=read_head(name),
    )


def _last_day(bin_id: int, *, now: dt.datetime) -> Sequence[Hour]:
    hours = read_week(bin_id, now=now)[-_HOURS:]
    return hours if any(hour.was_requested for hour in hours) else ()


def _in_force(row: Any, applied: AppliedPolicies, *, now: dt.datetime) -> InForce:
    limits = applied.of_bin(row)
    found = decisive(applied.sources_of(row))
    until = row.back_off_until if row.back_off_until and row.back_off_until > now else None
    return InForce(limits, _reason_of(found.denied, found.gap or found.bytes_per_second or found.requests), until)


def _reason_of(closes: Source | None, paces: Source | None) -> Reason:
    decides = closes or paces
    if decides is not None and decides.policy is not None and decides.policy == _policy_of_webmasters():
        return Reason.WEBMASTER
    if closes is not None:
        return Reason.STOPPED if closes.origin == Origin.STOP else Reason.DENIED
    return Reason.USUAL if paces is None else _REASONS[paces.origin]


def _policy_of_webmasters() -> int | None:
    return ThrottlePolicy.objects.filter(name=WEBMASTERS, applies_everywhere=True).values_list("pk", flat=True).first()
