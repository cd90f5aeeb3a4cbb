"""
The requests that a worker sends, by host and minute, for the evidence of politeness.

A request counts when it is written to its connection. It counts at the host of its address, in the second of the
database's clock, with the limits that apply then. A single request writes nothing: complete minutes are reported
together, with the moment until which the worker has reported all requests. A killed worker loses its last minutes, and
this moment shows the loss.
"""

import datetime as dt
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from jobs.connectors.repository.base import Outcome
from jobs.connectors.repository.web.urls import bin_of
from jobs.evidence.minutes import MINUTE, Facts, Report, moment_text
from jobs.lifecycle.activity import ActivityName
from jobs.loops.worker.host_queue import PacedBin
from jobs.queue.evidence import Numbered, Reported

# Seconds after the end of a minute until the minute is reported. The reactions to the answers of this minute are stored
# by then.
_COMPLETE_AFTER: Final = 20


class Clock(Protocol):
    """The interface of a clock that knows the time of the database without a query."""

    def seconds_at(self, moment: float) -> float:
        """Return a moment of the monotonic clock as seconds since 1970."""


@dataclass(slots=True)
class _Minute:
    """The requests to a host in one minute; see `jobs.evidence.minutes.Report`."""

    seconds: dict[int, int] = field(default_factory=dict)
    unanswered: Counter[int] = field(default_factory=Counter)
    bytes_read: int = 0
    limits: list[tuple[int, float, float | None]] = field(default_factory=list)
    refusals: list[Facts] = field(default_factory=list)


class SentRequests:
    """
    The counts since the last report.

    The event loop's thread calls all methods except `note_refusal`, which the database's thread calls.
    """

    def __init__(self, clock: Clock, *, is_on: bool) -> None:
        self.is_on = is_on
        self._clock = clock
        self._minutes: dict[tuple[str, int], _Minute] = {}
        # Refusals by address and moment of the request, because a write that is repeated notes a refusal again.
        self._refused: dict[tuple[str, float], tuple[str, float, Facts]] = {}
        # Requests without an end yet, by minute.
        self._open: Counter[int] = Counter()
        self._reported = 0
        # Reports that may not be stored yet. They are written again after a write failed or was cancelled.
        self._unconfirmed: list[Numbered] = []
        # The moments from which all requests are counted (None: the worker's start), until which they are reported, and
        # at which the record was switched off.
        self._since: float | None = None
        self._complete_until = 0
        self._off_at: float | None = None

    def switch(self, *, is_on: bool) -> None:
        """Begin or stop counting requests."""
        if is_on != self.is_on:
            self.is_on = is_on
            now = self._clock.seconds_at(time.monotonic())
            if is_on:
                self._since, self._off_at = now, None
            else:
                self._off_at = now

    def count(self, address: str, paces: Iterable[PacedBin]) -> tuple[str, float]:
        """
        Count a request for this address that is sent now, with the limits that these paces apply. Return its host and
        its moment.
        """
        host = bin_of(address)
        at = self._clock.seconds_at(time.monotonic())
        minute, second = self._minute(host, at), int(at) % MINUTE
        minute.seconds[second] = minute.seconds.get(second, 0) + 1
        self._open[_minute_of(at)] += 1
        gap, rate = 0.0, None
        for paced in paces:
            gap = max(gap, paced.cadence.gap)
            limit = paced.cadence.bytes_per_second
            if limit is not None:
                rate = limit if rate is None else min(rate, limit)
        if not minute.limits or minute.limits[-1][1:] != (gap, rate):
            minute.limits.append((second, gap, rate))
        return host, at

    def count_unanswered(self, host: str, at: float) -> None:
        """Record that the request sent at this moment ended without an answer."""
        self._minute(host, at).unanswered[int(at) % MINUTE] += 1
        self._end(at)

    def count_answered(self, host: str, at: float, size: int) -> None:
        """Record that the request sent at this moment has ended, and count the bytes that have arrived."""
        self._minute(host, at).bytes_read += size
        self._end(at)

    def _end(self, at: float) -> None:
        minute = _minute_of(at)
        self._open[minute] -= 1
        if self._open[minute] <= 0:
            del self._open[minute]

    def note_refusal(self, outcome: Outcome, *, until: dt.datetime | None) -> None:
        """Record that an answer made the crawler back off `until` this moment of the database's clock."""
        fetch = next((one for one in reversed(outcome.records) if one.activity == ActivityName.FETCH), None)
        if fetch is None:
            # Another document got the answer, such as that for robots.txt.
            return
        sent = self._clock.seconds_at(fetch.began)
        refusal: Facts = {
            "sent": moment_text(sent),
            "at": moment_text(sent + fetch.seconds),
            "code": fetch.result_code,
            "asked": outcome.back_off or None,
            "until": moment_text(until.timestamp()) if until else None,
        }
        self._refused[fetch.entity, fetch.began] = bin_of(fetch.entity), sent, refusal

    def take(self, *, is_last: bool = False) -> Reported | None:
        """
        Return the reports of complete minutes, or of all minutes if `is_last`. They are repeated until `confirm`.

        Return None if there is nothing to report: less than a minute since the last report, or the record is off.
        """
        now = self._clock.seconds_at(time.monotonic())
        until = _minute_of(now - _COMPLETE_AFTER)
        if not (self.is_on or self._minutes or self._refused or self._unconfirmed):
            return None
        if not is_last:
            # A request that is still open may end with or without an answer.
            until = min(until, min(self._open, default=until))
            if until <= self._complete_until:
                return None
        for place in list(self._refused):
            host, at, refusal = self._refused.pop(place)
            self._minute(host, at).refusals.append(refusal)
        self._unconfirmed += [self._report(*place) for place in list(self._minutes) if is_last or place[1] < until]
        end = now if is_last else float(until)
        return Reported(
            list(self._unconfirmed),
            since=self._since,
            complete_until=end if self._off_at is None else min(end, self._off_at),
            is_all=is_last and self.is_on,
        )

    def confirm(self, reported: Reported) -> None:
        """Note that these reports are stored."""
        last = max((number for number, _ in reported.reports), default=0)
        self._unconfirmed = [one for one in self._unconfirmed if one[0] > last]
        self._complete_until = _minute_of(reported.complete_until)

    def _report(self, host: str, begin: int) -> Numbered:
        minute = self._minutes.pop((host, begin))
        self._reported += 1
        return self._reported, Report(
            host, begin, minute.seconds, minute.unanswered, minute.bytes_read, minute.limits, minute.refusals
        )

    def _minute(self, host: str, at: float) -> _Minute:
        place = host, _minute_of(at)
        minute = self._minutes.get(place)
        if minute is None:
            minute = self._minutes[place] = _Minute()
        return minute


def _minute_of(at: float) -> int:
    return int(at) // MINUTE * MINUTE
