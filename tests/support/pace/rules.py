"""
Checks of a site's log against its limits over all windows of time: the outside checker of pace.

A `Rule` is one limit of some hosts together, between two moments of the site's clock. It reads only what the site saw:
the arrivals and ends of requests, and the bytes sent. Each limit is a separate rule, so a host under several limits
must keep each of them. A rule judges only requests that began and ended between its two moments.

Windows are half open: of requests that come every second, a minute has sixty. All windows are checked, by two pointers
over the moments at which they can begin. A site may see two requests closer than they were, so gaps and windows have a
tolerance (`TOLERANCE`).
"""

import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from tests.chaos.checkers import TOLERANCE, Fetch, Freeze, is_frozen

# Seconds of the window in which bytes are counted.
BYTES_WINDOW = 10.0
# Number of the largest pages. If a window has room for fewer, whole pages cannot nearly fill it.
FEW_PAGES = 25
# Seconds after an edit from which only the new limits hold.
EDIT_GRACE = 10.0
# Seconds after a denial from which a host gets no request.
DENIAL_GRACE = 5.0

_ALWAYS = float("inf")
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken rule, with the requests that broke it. `words` describes the breach."""

    rule: "Rule"
    by: tuple[Fetch, ...]
    words: str

    def __str__(self) -> str:
        first, last = self.by[0], self.by[-1]
        return (
            f"{self.words}, from {first.host} {first.url} by {first.agent} at {first.start:.3f}"
            f" to {last.url} by {last.agent} at {last.start:.3f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(abc.ABC):
    """One limit: of these hosts together, or of each host if `hosts` is None. Times are monotonic seconds."""

    hosts: frozenset[str] | None = None
    since: float = -_ALWAYS
    until: float = _ALWAYS

    @abc.abstractmethod
    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        """Yield the breaches by requests of its hosts, given in the order of arrival."""

    def is_in_force(self, at: float) -> bool:
        return self.since <= at < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastGap(Rule):
    """Two requests come at least `seconds` after each other."""

    seconds: float

    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        in_force = [fetch for fetch in made if self.is_in_force(fetch.start)]
        for earlier, later in pairwise(in_force):
            if later.start - earlier.start < self.seconds - TOLERANCE:
                apart = later.start - earlier.start
                yield Broken(
                    self, (earlier, later), f"{apart:.3f} s between two starts where {self.seconds:g} are asked"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class MostStarts(Rule):
    """At most this many requests come in any window of the period."""

    most: int
    within: float

    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        in_force = [fetch for fetch in made if self.is_in_force(fetch.start)]
        for first, beyond in zip(in_force, in_force[self.most :], strict=False):
            if beyond.start - first.start < self.within - TOLERANCE:
                words = (
                    f"{self.most + 1} starts within {beyond.start - first.start:.3f} s where {self.within:g} are asked"
                )
                yield Broken(self, (first, beyond), words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MostOpen(Rule):
    """
    At most this many requests are open. Requests of a frozen process do not count, because a sent request cannot be
    taken back.
    """

    most: int

    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        still_open: list[Fetch] = []
        for fetch in made:
            still_open = [other for other in still_open if other.end > fetch.start]
            still_open.append(fetch)
            counted = [other for other in still_open if not is_frozen(other.agent, fetch.start, freezes)]
            if self.is_in_force(fetch.start) and len(counted) > self.most:
                yield Broken(self, tuple(counted), f"{len(counted)} requests open where {self.most} may be")


@dataclass(frozen=True, slots=True, kw_only=True)
class MostBytes(Rule):
    """
    At most this many bytes a second are sent, over any window of ten seconds.

    A page counts at its answer. A single page may exceed a window, because it cannot be requested in parts. If a window
    has room for fewer than `FEW_PAGES` of its largest pages, the last page in a window may exceed the limit by less
    than its own size.
    """

    per_second: float

    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        answered = sorted((fetch for fetch in made if self.is_in_force(fetch.end)), key=lambda fetch: fetch.end)
        first, sent = 0, 0
        for last, fetch in enumerate(answered):
            sent += fetch.size
            while fetch.end - answered[first].end >= BYTES_WINDOW - TOLERANCE:
                sent -= answered[first].size
                first += 1
            within, most = answered[first : last + 1], self.per_second * BYTES_WINDOW
            largest = max((one.size for one in within), default=0) if sent > most else 0
            allowed_more = fetch.size - 1 if most < FEW_PAGES * largest else 0
            if first < last and sent > most + allowed_more:
                words = f"{sent} bytes within {BYTES_WINDOW:g} s where {self.per_second:g} a second may be"
                yield Broken(self, tuple(within), words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence(Rule):
    """No request comes at all: the host is denied, or it asked for a pause."""

    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        for fetch in made:
            if self.is_in_force(fetch.start) and fetch.start < self.until - TOLERANCE:
                yield Broken(self, (fetch,), "a start where there must be none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a policy. `starts` are (number, seconds of the period)."""

    gap: float = 0.0
    open_requests: int | None = None
    starts: tuple[int, float] | None = None
    bytes_per_second: float | None = None

    def rules(self, *hosts: str, since: float = -_ALWAYS, until: float = _ALWAYS) -> list[Rule]:
        """Return the limits as rules of these hosts together, or of each host."""
        time: dict[str, Any] = {"since": since, "until": until, "hosts": frozenset(hosts) or None}
        rules: list[Rule] = []
        if self.gap:
            rules.append(LeastGap(seconds=self.gap, **time))
        if self.open_requests is not None:
            rules.append(MostOpen(most=self.open_requests, **time))
        if self.starts is not None:
            most, within = self.starts
            rules.append(MostStarts(most=most, within=within, **time))
        if self.bytes_per_second is not None:
            rules.append(MostBytes(per_second=self.bytes_per_second, **time))
        return rules

    def looser(self, other: "Limits") -> "Limits":
        """Return limits that allow what either of the two allows."""
        mine, theirs = self.starts, other.starts
        return Limits(
            gap=min(self.gap, other.gap),
            open_requests=_most(self.open_requests, other.open_requests),
            # If the periods differ, neither limit is looser for all windows.
            starts=max(mine, theirs) if mine and theirs and mine[1] == theirs[1] else None,
            bytes_per_second=_most(self.bytes_per_second, other.bytes_per_second),
        )


def _most(one: _Number | None, other: _Number | None) -> _Number | None:
    return None if one is None or other is None else max(one, other)


def over_time(changes: Sequence[tuple[float, Limits]], *hosts: str) -> list[Rule]:
    """
    Return the rules of limits that were edited. Each entry has limits and the moment from which they hold. The first
    limits hold from the start.

    Until an edit has reached all nodes, each node uses the old or the new limits. So there are two kinds of rules.
    Rules of the new limits hold from `EDIT_GRACE` seconds after an edit until the next edit. Rules that allow what
    either of the two limits allows hold from the beginning of the old limits to the end of the new ones.
    """
    rules: list[Rule] = []
    ends = [moment for moment, _ in changes[1:]] + [_ALWAYS]
    begins = [-_ALWAYS] + [moment + EDIT_GRACE for moment, _ in changes[1:]]
    for place, (_, limits) in enumerate(changes):
        rules += limits.rules(*hosts, since=begins[place], until=ends[place])
        if place:
            before = changes[place - 1][1]
            rules += limits.looser(before).rules(*hosts, since=begins[place - 1], until=ends[place])
    return rules


def broken(made: Iterable[Fetch], rules: Iterable[Rule], *, freezes: Sequence[Freeze] = ()) -> list[Broken]:
    """Check the sites' requests against all rules, and return every breach."""
    in_order = sorted(made, key=lambda fetch: fetch.start)
    by_host: dict[str, list[Fetch]] = {}
    for fetch in in_order:
        by_host.setdefault(fetch.host, []).append(fetch)
    found: list[Broken] = []
    for rule in rules:
        if rule.hosts is None:
            for of_host in by_host.values():
                found += rule.broken(of_host, freezes)
        else:
            found += rule.broken([fetch for fetch in in_order if fetch.host in rule.hosts], freezes)
    return found


def share_of_rate(made: Iterable[Fetch], *, gap: float, since: float, until: float) -> float:
    """
    Return the used share of the rate that a gap allows between two moments: 1 is all of it.

    It is measured from the last start before the first moment to the first start after the second. So one start more or
    less does not matter.
    """
    starts = sorted(fetch.start for fetch in made)
    first = max((start for start in starts if start <= since), default=since)
    last = min((start for start in starts if start >= until), default=until)
    return sum(first < start <= last for start in starts) * gap / (last - first)
