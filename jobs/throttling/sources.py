"""
Where the limits of a bin come from, so that it can be said which of them holds. No I/O.

A bin has as many sources as there are policies, and what its connector and its host say. Each gives limits that are
whole; of each kind of limit the strictest is in force, and its source is the one to look at who wants it otherwise.
"""

import datetime as dt
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.throttling.limits import UNLIMITED_REQUESTS, UNTIL_GO_ON, Limits
from jobs.throttling.policies import PolicyTerms


class Origin(enum.StrEnum):
    """Who says a limit."""

    # What its connector keeps to where no policy says anything.
    USUAL = "usual"
    POLICY = "policy"
    ROBOTS = "robots"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Source:
    """
    One that limits a bin. Of a policy also which, and which of its rules, from 1 (None: what it says itself).

    `since` is when it began to, as far as that is known, and `until` when it next may say something else.
    """

    origin: Origin
    limits: Limits
    policy: int | None = None
    rule: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Decisive:
    """The source of each limit that is in force; None where nothing limits that."""

    requests: Source | None
    gap: Source | None
    bytes_per_second: Source | None
    denied: Source | None


_NOTHING: Final = Limits(UNLIMITED_REQUESTS, 0.0)


def of_policy(terms: PolicyTerms, name: str, at: dt.datetime) -> Source:
    """What a policy says of the bin of this name at a moment."""
    return _said(terms, terms.for_bin(name, at), terms.place_for(name, at), at)


def of_total(terms: PolicyTerms, at: dt.datetime) -> Source:
    """What a policy says of all its bins together at a moment."""
    return _said(terms, terms.in_total(at) or _NOTHING, terms.place_in_total(at), at)


def of_robots(interval: float) -> Source:
    """The crawl-delay that a host asks for, in seconds."""
    return Source(Origin.ROBOTS, Limits(UNLIMITED_REQUESTS, interval))


def of_stop(since: dt.datetime) -> Source:
    """That somebody stopped the bin."""
    return Source(Origin.STOP, Limits(UNLIMITED_REQUESTS, 0.0, closed_until=UNTIL_GO_ON), since=since)


def decisive(sources: Sequence[Source]) -> Decisive:
    """Of each kind of limit the source that says the strictest one; the first of those that say the same."""
    requests = min(sources, key=lambda source: source.limits.requests, default=None)
    gap = max(sources, key=lambda source: source.limits.gap, default=None)
    return Decisive(
        requests=requests if requests and requests.limits.requests < UNLIMITED_REQUESTS else None,
        gap=gap if gap and gap.limits.gap > 0 else None,
        bytes_per_second=_least_bytes(sources),
        denied=next((source for source in sources if source.limits.denied), None) or _longest_closed(sources),
    )


def _longest_closed(sources: Iterable[Source]) -> Source | None:
    """The one that denies its bin for longest, of those that do so at times."""
    moments = [(source.limits.closed_until, source) for source in sources]
    said = [(moment, source) for moment, source in moments if moment is not None]
    return max(said, key=lambda pair: pair[0])[1] if said else None


def _least_bytes(sources: Iterable[Source]) -> Source | None:
    limits = [(source.limits.bytes_per_second, source) for source in sources]
    said = [(number, source) for number, source in limits if number is not None]
    return min(said, key=lambda pair: pair[0])[1] if said else None


def _said(terms: PolicyTerms, limits: Limits, place: int | None, at: dt.datetime) -> Source:
    since = None if place is None else terms.rules[place].window.last_change(at)
    rule = None if place is None else place + 1
    return Source(Origin.POLICY, limits, terms.id, rule, since, limits.closed_until or terms.next_change(at))
