"""Throttle policies as values, read inside a transaction."""

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, LiteralString, NamedTuple
from zoneinfo import ZoneInfo

from jobs.lifecycle.limits import LIMITS, LimitColumns
from jobs.lifecycle.period import Period
from jobs.partitions import this_partition
from jobs.throttling.limits import gap_of
from jobs.throttling.policies import Numbers, PolicyValues, RuleValues
from jobs.throttling.windows import Window


def _columns_of(table: LiteralString) -> LiteralString:
    """Return the columns of all limits of a table as an SQL list."""
    return ", ".join(f"{table}.{name}" for name in LIMITS)


# The version of a `policy` and of its share of the totals: it grows with each change of either.
VERSION: Final[LiteralString] = (
    "policy.version + coalesce((SELECT version FROM jobs_policyshare WHERE policy_id = policy.id), 0)"
)
# Locks: none. A policy that is changed meanwhile applies as it was: the next read sees the change.
_POLICIES: Final[LiteralString] = f"""
SELECT policy.id, {VERSION} AS version, json_build_array({_columns_of("policy")}) AS limits, policy.applies_everywhere,
       policy.per_address, policy.skips_loopback, policy.time_zone,
       (SELECT json_agg(json_build_array(rule.pattern, rule.days, rule.from_time, rule.to_time,
                        json_build_array({_columns_of("rule")}), rule.denies) ORDER BY rule.position)
          FROM jobs_throttlerule AS rule WHERE rule.policy_id = policy.id) AS rules,
       share.parts, share.of, policy.private_to_id
  FROM jobs_throttlepolicy AS policy LEFT JOIN jobs_policyshare AS share ON share.policy_id = policy.id
 WHERE policy.id = ANY(%(policies)s::bigint[]) OR policy.applies_everywhere
"""


class _Policy(NamedTuple):
    id: int
    version: int
    limits: Sequence[Any]
    applies_everywhere: bool
    per_address: bool
    skips_loopback: bool
    time_zone: str
    rules: Sequence[Sequence[Any]] | None
    parts: int | None
    of: int | None
    private_to: int | None


class _Rule(NamedTuple):
    pattern: str
    days: Sequence[int]
    from_time: str | None
    to_time: str | None
    limits: Sequence[Any]
    denies: bool


def read_policies(cursor: Any, policy_ids: Sequence[int]) -> dict[int, PolicyValues]:
    """
    Return the policies with these ids, and all policies that apply everywhere, by id. It takes one statement.

    The cursor's rows are sequences. Ids without a policy are left out.
    """
    cursor.execute(_POLICIES, {"policies": list(policy_ids)})
    return {policy.id: _policy_values(policy) for policy in (_Policy(*row) for row in cursor.fetchall())}


def _policy_values(policy: _Policy) -> PolicyValues:
    zone = ZoneInfo(policy.time_zone)
    return PolicyValues(
        id=policy.id,
        version=policy.version,
        numbers=_numbers(_columns(policy)),
        rules=tuple(_rule(_Rule(*rule), zone) for rule in policy.rules or ()),
        total=_total(_columns(policy)),
        applies_everywhere=policy.applies_everywhere,
        per_address=policy.per_address,
        skips_loopback=policy.skips_loopback,
        share=_share(policy),
    )


def _share(policy: _Policy) -> Fraction:
    """
    Return the part of the policy's totals that this database may use: all for a one-shot crawl, which has one partition
    only.
    """
    if this_partition.placement() is None or policy.private_to is not None:
        return Fraction(1)
    return Fraction(policy.parts or 0, policy.of or 1)


def _rule(rule: _Rule, zone: ZoneInfo) -> RuleValues:
    opens, closes = (dt.time.fromisoformat(text) if text else None for text in (rule.from_time, rule.to_time))
    return RuleValues(
        pattern=rule.pattern,
        window=Window(days=tuple(rule.days), opens=opens, closes=closes, zone=zone),
        numbers=_numbers(_columns(rule)),
        total=_total(_columns(rule)),
        denies=rule.denies,
    )


def _columns(row: _Policy | _Rule) -> LimitColumns:
    return LimitColumns(**dict(zip(LIMITS, row.limits, strict=True)))


def _numbers(said: LimitColumns) -> Numbers:
    # JSON gives whole seconds as int, and PostgreSQL takes no list that mixes int and float.
    min_gap = None if said.min_gap is None else float(said.min_gap)
    return Numbers(said.open_requests, min_gap, _rate(said.starts, said.period), said.bytes_per_second)


def _total(said: LimitColumns) -> Numbers:
    rate = _rate(said.total_starts, said.total_period)
    return Numbers(said.total_open_requests, None, rate, said.total_bytes_per_second)


def _rate(starts: int | None, period: str) -> float | None:
    return gap_of(starts, Period(period)) if starts else None
