"""
The sources of a bin's limits, and the source of each limit in force. No I/O.

The sources of a bin are all policies that apply to it, its connector and its host. Each source gives a complete set of
limits. The strictest limit of each kind is in force, and an operator changes it at its source.
"""

import datetime as dt
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.throttling.limits import UNLIMITED_REQUESTS, UNTIL_RELEASED, Limits
from jobs.throttling.policies import PolicyValues


class Origin(enum.StrEnum):
    """The kinds of sources of a limit. An operator changes a limit at its source."""

    # The connector's default without any policy.
    USUAL = "usual"
    POLICY = "policy"
    ROBOTS = "robots"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Source:
    """
    A source of a bin's limits. For a policy, also its id and the number of its rule, from 1 (None: its own limits).

    `since` is its start, None if unknown, and `until` the next possible change.
    """

    origin: Origin
    limits: Limits
    policy: int | None = None
    rule: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Decisive:
    """The source of each limit in force; None where there is no limit."""

    requests: Source | None
    gap: Source | None
    bytes_per_second: Source | None
    denied: Source | None


_NOTHING: Final = Limits(UNLIMITED_REQUESTS, 0.0)


def of_policy(policy: PolicyValues, name: str, at: dt.datetime) -> Source:
    """Return a policy as the source of limits for the bin of this name at a moment."""
    return _source(policy, policy.for_bin(name, at), policy.place_for(name, at), at)


def of_total(policy: PolicyValues, at: dt.datetime) -> Source:
    """Return a policy as the source of limits for all its bins together at a moment."""
    return _source(policy, policy.in_total(at) or _NOTHING, policy.place_in_total(at), at)


def of_robots(interval: float) -> Source:
    """Return the crawl-delay of a host (seconds) as a source of limits."""
    return Source(Origin.ROBOTS, Limits(UNLIMITED_REQUESTS, interval))


def of_stop(since: dt.datetime) -> Source:
    """Return an operator's stop of the bin as a source of limits."""
    return Source(Origin.STOP, Limits(UNLIMITED_REQUESTS, 0.0, closed_until=UNTIL_RELEASED), since=since)


def decisive(sources: Sequence[Source]) -> Decisive:
    """
    Return the source of the strictest limit of each kind. If several limits are equal, return the first of their
    sources.
    """
    requests = min(sources, key=lambda source: source.limits.requests, default=None)
    gap = max(sources, key=lambda source: source.limits.gap, default=None)
    return Decisive(
        requests=requests if requests and requests.limits.requests < UNLIMITED_REQUESTS else None,
        gap=gap if gap and gap.limits.gap > 0 else None,
        bytes_per_second=_least_bytes(sources),
        denied=next((source for source in sources if source.limits.denied), None) or _longest_closed(sources),
    )


def _longest_closed(sources: Iterable[Source]) -> Source | None:
    """
    Return the source that keeps the bin closed for the longest time, among the sources that deny it for some time only.
    """
    moments = [(source.limits.closed_until, source) for source in sources]
    said = [(moment, source) for moment, source in moments if moment is not None]
    return max(said, key=lambda pair: pair[0])[1] if said else None


def _least_bytes(sources: Iterable[Source]) -> Source | None:
    limits = [(source.limits.bytes_per_second, source) for source in sources]
    said = [(number, source) for number, source in limits if number is not None]
    return min(said, key=lambda pair: pair[0])[1] if said else None


def _source(policy: PolicyValues, limits: Limits, place: int | None, at: dt.datetime) -> Source:
    since = None if place is None else policy.rules[place].window.last_change(at)
    rule = None if place is None else place + 1
    return Source(Origin.POLICY, limits, policy.id, rule, since, limits.closed_until or policy.next_change(at))
