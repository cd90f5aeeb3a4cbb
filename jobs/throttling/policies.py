"""
The limits of a throttle policy: for one bin at one moment, and for all its bins together. No I/O.

The first rule that matches a bin's name and is open at the moment applies. If a rule gives no value, the value of the
policy applies. The longer one of the minimum gap and the gap of a rate applies.
"""

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from jobs.throttling.patterns import Patterns
from jobs.throttling.windows import ALWAYS, Window

# Horizon of the search for the end of a denial. A denial that lasts beyond it counts as permanent. It is more than a
# week, because clocks may be set meanwhile.
_HORIZON: Final = dt.timedelta(days=15)
_ENDS_KEPT: Final = 1_000
_LOOPBACK: Final = ("localhost", "127.", "[::1]")


@dataclass(frozen=True, slots=True)
class Numbers:
    """
    The limits of a policy or a rule; None means that it gives no value. `rate_gap` is the gap of its rate (seconds).
    """

    requests: int | None = None
    min_gap: float | None = None
    rate_gap: float | None = None
    bytes_per_second: int | None = None

    @property
    def are_open(self) -> bool:
        return self == _NOTHING

    def over(self, others: "Numbers") -> "Numbers":
        """Return these limits. A limit without a value here has the value of `others`."""
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
_WHOLE: Final = Fraction(1)
# Gap (seconds) of a database without a share: a worker that still has a turn slows down.
_NO_SHARE_GAP: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class RuleValues:
    """
    Other limits for the bins of a pattern while a window is open; or a denial of these bins, until the window closes or
    forever.

    `total` is for all bins of the policy together. Only rules for every bin have one.
    """

    pattern: str = ""
    window: Window = ALWAYS
    numbers: Numbers = _NOTHING
    total: Numbers = _NOTHING
    denies: bool = False


@dataclass(frozen=True, slots=True)
class PolicyValues:
    """
    A policy as a value. `version` grows with each change of it, so results may be cached by version.

    A policy that `applies_everywhere` limits every bin, whatever its seeds' policies are. With `per_address` its limits
    for one bin also apply to all bins at one address together. `share` is the part of its totals that this database has
    (`jobs.partitions.totals`).
    """

    id: int
    version: int
    numbers: Numbers
    rules: tuple[RuleValues, ...] = ()
    total: Numbers = _NOTHING
    applies_everywhere: bool = False
    per_address: bool = False
    skips_loopback: bool = False
    share: Fraction = _WHOLE
    _patterns: Patterns = field(init=False, repr=False, compare=False)
    # A cache of the ends of denials. A key has the indices of the rules that match a name. The value is the moment of
    # the computation, and the end of the denial by these rules.
    _ends: dict[tuple[int, ...], tuple[dt.datetime, dt.datetime | None]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_patterns", Patterns(rule.pattern for rule in self.rules))

    def for_bin(self, name: str, at: dt.datetime) -> Limits:
        """Return the limits, at a moment, of the bin with this name."""
        places = self._patterns.places_of(name)
        place = self._first_open(places, at)
        rule = None if place is None else self.rules[place]
        limits = self.numbers.as_limits() if rule is None else rule.numbers.over(self.numbers).as_limits()
        if rule is not None and rule.denies:
            opens_at = self._end_of_denial(tuple(places), at)
            limits = replace(limits, denied=opens_at is None, closed_until=opens_at)
        return replace(limits, gap=0.0) if self.spares(name) else limits

    def spares(self, name: str) -> bool:
        """True if the policy requires no gap for this bin."""
        return self.skips_loopback and name.startswith(_LOOPBACK)

    def place_for(self, name: str, at: dt.datetime) -> int | None:
        """Return the index of the rule for a name at a moment; None if the policy's own limits apply."""
        return self._first_open(self._patterns.places_of(name), at)

    def _first_open(self, places: Iterable[int], at: dt.datetime) -> int | None:
        return next((place for place in places if self.rules[place].window.is_open(at)), None)

    def _end_of_denial(self, places: tuple[int, ...], at: dt.datetime) -> dt.datetime | None:
        """
        Return the moment at which none of the rules with these indices denies any longer; None if that never comes.
        """
        known = self._ends.get(places)
        if known is not None and known[0] <= at and (known[1] is None or at < known[1]):
            return known[1]
        windows = {self.rules[place].window for place in places}
        end: dt.datetime | None = at
        while end is not None and self._denies(places, end):
            end = min((moment for window in windows if (moment := window.next_change(end)) is not None), default=None)
            if end is not None and end > at + _HORIZON:
                # Windows repeat weekly.
                end = None
        if len(self._ends) > _ENDS_KEPT:
            self._ends.clear()
        self._ends[places] = at, end
        return end

    def _denies(self, places: Iterable[int], at: dt.datetime) -> bool:
        place = self._first_open(places, at)
        return place is not None and self.rules[place].denies

    def in_total(self, at: dt.datetime) -> Limits | None:
        """
        Return the limits, at a moment, of all bins of the policy in this database together; None if the policy has no
        such limits.
        """
        whole = self.in_whole_total(at)
        return whole if whole is None or self.share == _WHOLE else _share_of(whole, self.share)

    def in_whole_total(self, at: dt.datetime) -> Limits | None:
        """
        Return the limits, at a moment, of all bins of the policy in all databases together; None if the policy has no
        such limits.
        """
        place = self.place_in_total(at)
        total = self.total if place is None else self.rules[place].total.over(self.total)
        return None if total.are_open else total.as_limits()

    def place_in_total(self, at: dt.datetime) -> int | None:
        """Return the index of the rule for all bins together at a moment; None if the policy's own limits apply."""
        rules = enumerate(self.rules)
        return next((place for place, rule in rules if rule.pattern == "" and rule.window.is_open(at)), None)

    def next_change(self, at: dt.datetime) -> dt.datetime | None:
        """
        Return the next moment at which a window of its rules opens or closes, because limits do not change before that.
        None: they never change.
        """
        windows = {rule.window for rule in self.rules}
        moments = [moment for window in windows if (moment := window.next_change(at)) is not None]
        return min(moments, default=None)


def _share_of(total: Limits, share: Fraction) -> Limits:
    """Return a share of the limits of all bins together. A share of less than one request allows no request."""
    requests = total.requests if total.requests >= UNLIMITED_REQUESTS else math.floor(total.requests * share)
    if requests == 0 or share == 0:
        return Limits(0, _NO_SHARE_GAP)
    return Limits(
        requests=requests,
        gap=float(total.gap / share),
        bytes_per_second=None if total.bytes_per_second is None else float(total.bytes_per_second * share),
    )
