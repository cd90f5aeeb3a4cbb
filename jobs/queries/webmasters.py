"""The limits that webmasters asked for, and whether they are in force."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.models import ThrottleRule, WebmasterLimit
from jobs.models.webmaster import WEBMASTERS
from jobs.throttling.patterns import patterns_of

_Rule = tuple[str, bool, float | None]


@dataclass(frozen=True, slots=True)
class LimitLine:
    """
    The limit of a host. Without a `gap`, no requests are allowed. `is_in_force` is false if an operator has changed the
    policy.
    """

    host: str
    gap: float | None
    proof: str
    proved_at: dt.datetime
    expires_at: dt.datetime
    is_in_force: bool


def read_webmasters_limits(host: str | None = None) -> Sequence[LimitLine]:
    """
    Return the limits of all hosts, sorted by name. If a host is given, return only its limits: for all its ports, and
    for its port if it names one.
    """
    found = WebmasterLimit.objects.order_by("host")
    if host is not None:
        found = found.filter(host__in={host, host.rpartition(":")[0]})
    limits = list(found)
    rules = _rules([pattern for limit in limits for pattern in patterns_of(limit.host)])
    return [
        LimitLine(
            limit.host,
            limit.gap,
            limit.proof,
            limit.proved_at,
            limit.expires_at,
            is_in_force=all((pattern, limit.gap is None, limit.gap) in rules for pattern in patterns_of(limit.host)),
        )
        for limit in limits
    ]


def _rules(patterns: Sequence[str]) -> set[_Rule]:
    if not patterns:
        return set()
    found = ThrottleRule.objects.filter(
        policy__name=WEBMASTERS, policy__applies_everywhere=True, pattern__in=patterns, from_time=None
    )
    return set(found.values_list("pattern", "denies", "min_gap"))
