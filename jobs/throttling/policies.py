"""
What a throttle policy allows: of one bin at one moment, and of all its bins together. No I/O.

The first rule that matches a bin's name and is open at the moment holds for it; what that rule leaves open is as the
policy says. The longer of a least gap and of the gap that a rate comes to is the one in force.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from jobs.throttling.patterns import Patterns
from jobs.throttling.windows import ALWAYS, Window

# A denial that lasts for so long lasts for ever; clocks may be set meanwhile.
_LOOKED_AHEAD: Final = dt.timedelta(days=15)
_ENDS_KEPT: Final = 1_000
_LOOPBACK: Final = ("localhost", "127.", "[::1]")


@dataclass(frozen=True, slots=True)
class Numbers:
    """
    The limits that a policy or a rule names; None is left open. `rate_gap` is what its rate comes to, in seconds.
    """

    requests: int | None = None
    min_gap: float | None = None
    rate_gap: float | None = None
    bytes_per_second: int | None = None

    @property
    def are_open(self) -> bool:
        return self == _NOTHING

    def over(self, others: "Numbers") -> "Numbers":
        """These, and where they leave something open the others."""
        return Numbers(
            requests=others.requests if self.requests is None else self.requests,
            min_gap=others.min_gap if self.min_gap is None else self.min_gap,
            rate_gap=others.rate_gap if self.rate_gap is None else self.rate_gap,
            bytes_per_second=others.bytes_per_second if self.bytes_per_second is None else self.bytes_per_second,
        )

    def as_limits(self) -> Limits:
        return Limits(
            requests=UNLIMITED_REQUESTS if self.requests is None else self.requests,
            gap=max(self.min_gap or 0.0, self.rate_gap or 0.0),
            bytes_per_second=self.bytes_per_second,
        )


_NOTHING: Final = Numbers()


@dataclass(frozen=True, slots=True)
class RuleTerms:
    """
    Other numbers for the bins of a pattern while a window is open; or nothing at all is fetched of them: until it
    closes, or ever.

    `total` is for all bins of the policy together, and said only by rules whose pattern is every bin.
    """

    pattern: str = ""
    window: Window = ALWAYS
    numbers: Numbers = _NOTHING
    total: Numbers = _NOTHING
    denies: bool = False


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """
    A policy as a value. `version` grows with each change of it, so what is worked out from it can be kept by that.

    One that `holds_everywhere` limits every bin, whatever its seeds say. Under `per_address` its limits for one bin
    hold for all bins at one address together, too.
    """

    id: int
    version: int
    numbers: Numbers
    rules: tuple[RuleTerms, ...] = ()
    total: Numbers = _NOTHING
    holds_everywhere: bool = False
    per_address: bool = False
    spares_loopback: bool = False
    _patterns: Patterns = field(init=False, repr=False, compare=False)
    # By the places of the rules that match a name: since when it is known, and until when they deny.
    _ends: dict[tuple[int, ...], tuple[dt.datetime, dt.datetime | None]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_patterns", Patterns(rule.pattern for rule in self.rules))

    def for_bin(self, name: str, at: dt.datetime) -> Limits:
        """What the bin of this name may be asked for at a moment."""
        places = self._patterns.places_of(name)
        place = self._first_open(places, at)
        rule = None if place is None else self.rules[place]
        limits = self.numbers.as_limits() if rule is None else rule.numbers.over(self.numbers).as_limits()
        if rule is not None and rule.denies:
            opens_at = self._end_of_denial(tuple(places), at)
            limits = replace(limits, denied=opens_at is None, closed_until=opens_at)
        return replace(limits, gap=0.0) if self.spares(name) else limits

    def spares(self, name: str) -> bool:
        """Whether it lets this bin go without a gap."""
        return self.spares_loopback and name.startswith(_LOOPBACK)

    def place_for(self, name: str, at: dt.datetime) -> int | None:
        """Which of the rules, from 0, holds for a name at a moment; None if the policy's own numbers do."""
        return self._first_open(self._patterns.places_of(name), at)

    def _first_open(self, places: Iterable[int], at: dt.datetime) -> int | None:
        return next((place for place in places if self.rules[place].window.is_open(at)), None)

    def _end_of_denial(self, places: tuple[int, ...], at: dt.datetime) -> dt.datetime | None:
        """When, of the rules at these places, it is no longer one that denies that holds; None if that never comes."""
        known = self._ends.get(places)
        if known is not None and known[0] <= at and (known[1] is None or at < known[1]):
            return known[1]
        windows = {self.rules[place].window for place in places}
        end: dt.datetime | None = at
        while end is not None and self._denies(places, end):
            end = min((moment for window in windows if (moment := window.next_change(end)) is not None), default=None)
            if end is not None and end > at + _LOOKED_AHEAD:
                # Windows are those of a week.
                end = None
        if len(self._ends) > _ENDS_KEPT:
            self._ends.clear()
        self._ends[places] = at, end
        return end

    def _denies(self, places: Iterable[int], at: dt.datetime) -> bool:
        place = self._first_open(places, at)
        return place is not None and self.rules[place].denies

    def in_total(self, at: dt.datetime) -> Limits | None:
        """What all bins of the policy together may be asked for at a moment; None where that is not limited."""
        place = self.place_in_total(at)
        total = self.total if place is None else self.rules[place].total.over(self.total)
        return None if total.are_open else total.as_limits()

    def place_in_total(self, at: dt.datetime) -> int | None:
        """Which of the rules holds for all its bins together at a moment; None if the policy's own numbers do."""
        rules = enumerate(self.rules)
        return next((place for place, rule in rules if rule.pattern == "" and rule.window.is_open(at)), None)

    def next_change(self, at: dt.datetime) -> dt.datetime | None:
        """When a window of its rules opens or closes next: until then all its limits stay; None: for ever."""
        windows = {rule.window for rule in self.rules}
        moments = [moment for window in windows if (moment := window.next_change(at)) is not None]
        return min(moments, default=None)
