"""
What a site allows, held against its log over all windows of time: the outside checker of pace.

A `Rule` is one limit, of some hosts together, between two moments of the site's clock. It looks at what the site saw
and at nothing else: when requests came, when they were over, and how much was sent. Each limit is a rule of its own,
so where a host is under several the strictest holds by itself. A rule judges what lies wholly within its time.

Windows are half open: of requests that come every second, a minute has sixty. All that there are are looked at, by
two pointers over the moments at which they can begin. Where a site may see two requests closer than they were, a gap
or a window is forgiven so much (`TOLERANCE`).
"""

import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from tests.chaos.checkers import TOLERANCE, Fetch, Freeze, is_frozen

# Bytes are counted over so many seconds.
BYTES_WINDOW = 10.0
# From so many seconds after an edit on nothing but the new limits holds.
EDIT_GRACE = 10.0
# So soon a host is left alone that was denied.
DENIAL_GRACE = 5.0

_ALWAYS = float("inf")
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that was broken, by these requests; `words` say how."""

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
    """One limit of these hosts taken together; of each host that there is, if none is named. Seconds, monotonic."""

    hosts: frozenset[str] | None = None
    since: float = -_ALWAYS
    until: float = _ALWAYS

    @abc.abstractmethod
    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        """Say where the requests of its hosts, in the order in which they came, break it."""

    def is_in_force(self, at: float) -> bool:
        return self.since <= at < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastGap(Rule):
    """Two requests come at least so many seconds after each other."""

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
    """So many requests come at most in any window of so many seconds."""

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
    """So many requests are open at most, but for those of a frozen process: nobody can take back what it had sent."""

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
    So many bytes are sent a second at most, over any window of ten.

    A page counts as it was answered. One page alone may be more than a window allows: it cannot be asked for in parts.
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
            if first < last and sent > self.per_second * BYTES_WINDOW:
                words = f"{sent} bytes within {BYTES_WINDOW:g} s where {self.per_second:g} a second may be"
                yield Broken(self, tuple(answered[first : last + 1]), words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence(Rule):
    """No request comes at all: the host is denied, or has asked for time."""

    def broken(self, made: Sequence[Fetch], freezes: Sequence[Freeze]) -> Iterator[Broken]:
        for fetch in made:
            if self.is_in_force(fetch.start) and fetch.start < self.until - TOLERANCE:
                yield Broken(self, (fetch,), "a start where there must be none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a policy asks for. `starts` are (most, within so many seconds)."""

    gap: float = 0.0
    open_requests: int | None = None
    starts: tuple[int, float] | None = None
    bytes_per_second: float | None = None

    def rules(self, *hosts: str, since: float = -_ALWAYS, until: float = _ALWAYS) -> list[Rule]:
        """As rules of these hosts together, or of each host."""
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
        """What either of the two allows."""
        mine, theirs = self.starts, other.starts
        return Limits(
            gap=min(self.gap, other.gap),
            open_requests=_most(self.open_requests, other.open_requests),
            # Of different periods neither is looser for all windows.
            starts=max(mine, theirs) if mine and theirs and mine[1] == theirs[1] else None,
            bytes_per_second=_most(self.bytes_per_second, other.bytes_per_second),
        )


def _most(one: _Number | None, other: _Number | None) -> _Number | None:
    return None if one is None or other is None else max(one, other)


def over_time(changes: Sequence[tuple[float, Limits]], *hosts: str) -> list[Rule]:
    """
    The rules of limits that were edited: each holds from its moment on, the first from before.

    Until an edit has reached everybody, old or new limits hold, so from the beginning of the one to the end of the
    other what either allows; from then on, and until the next edit, the new ones alone.
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
    """Hold what sites saw against all rules; returns every breach."""
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
    How much of the rate that a gap allows was used between two moments: 1 is all of it.

    It is told from the last start before them to the first one after, so that a start more or less is none of it.
    """
    starts = sorted(fetch.start for fetch in made)
    first = max((start for start in starts if start <= since), default=since)
    last = min((start for start in starts if start >= until), default=until)
    return sum(first < start <= last for start in starts) * gap / (last - first)
