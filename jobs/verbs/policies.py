"""
All operations of operators on throttle policies. Set-up pages and the REST API call these functions.

A change applies from the next turn of each host, at most 10 s later; running workers are notified immediately.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Unpack

from django.db import connection, transaction

from jobs.checks.policies import RuleWanted, check, is_unlimited, stored_pattern
from jobs.lifecycle.limits import LimitFacts
from jobs.models import Seed, ThrottlePolicy, ThrottleRule
from jobs.partitions.this_partition import refuse_elsewhere
from jobs.queries.rehearsals.policies import Preview, read_preview
from jobs.queue.pace.addresses import want_placed
from jobs.queue.pace.read_policies import read_policies
from jobs.state import channels, versions
from jobs.throttling.policies import PolicyValues
from nodes.database.clock import read_clock
from nodes.errors import InUse, Invalid, NameTaken, NotAllowed, Unknown
from nodes.membership.changes import record_change

# Permission for limits of every host of the cluster, and for denials.
EVERYWHERE: Final = "jobs.limit_everywhere"
_USERS_NAMED: Final = 10
_USERS_COUNTED: Final = 1_000
_NOT_ALLOWED: Final = (
    "Only administrators may change policies that apply everywhere, and denied hosts. Nothing was changed."
)

# Gap between two starts at a host in a policy without any other limit (seconds).
_DEFAULT_GAP: Final = 1.0


class PolicyFacts(LimitFacts, total=False):
    """Columns of a policy by name. Missing columns keep their values."""

    name: str
    applies_everywhere: bool
    per_address: bool
    skips_loopback: bool
    time_zone: str


@dataclass(frozen=True, slots=True)
class _Users:
    """
    The jobs whose seeds have a policy: their first names, and the number of the jobs (None if there are too many to
    count).
    """

    names: Sequence[str]
    count: int | None

    def __str__(self) -> str:
        named = ", ".join(self.names)
        if self.count is None:
            return f"{named} and more than {_USERS_COUNTED - len(self.names):,} others"
        others = self.count - len(self.names)
        return f"{named} and {others} others" if others else named


@dataclass(frozen=True, slots=True)
class PolicySaved:
    """A stored policy; `warnings` are sentences about valid fields that are probably mistakes."""

    policy: ThrottlePolicy
    warnings: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A policy before and after a requested change. `before` is None for a new policy."""

    before: PolicyValues | None
    after: PolicyValues
    warnings: Sequence[str]


def default_gap(*, unlimited: bool, starts: int | None) -> float:
    """Return the gap of a policy for which none is given (seconds): 0 if the policy has a rate or is unlimited."""
    return 0.0 if unlimited or starts is not None else _DEFAULT_GAP


def create(
    *,
    rules: Sequence[RuleWanted] = (),
    unlimited: bool = False,
    everywhere: bool,
    made_by: str = "",
    **facts: Unpack[PolicyFacts],
) -> PolicySaved:
    """
    Store a new policy, and return it.

    `unlimited` is True if its hosts are unlimited on purpose. `everywhere` is True if the author may limit the whole
    cluster.

    Raises:
        Invalid: a field is invalid, or the name is taken.
        NotAllowed: the policy concerns every host, or denies some.
        ControlledElsewhere: this is not the control partition.
    """
    refuse_elsewhere()
    with transaction.atomic():
        saved = _write(None, rules=rules, unlimited=unlimited, everywhere=everywhere, facts=facts)
        record_change(f"policy {saved.policy.name}", before={}, after=_facts(saved.policy), made_by=made_by)
        versions.keep(saved.policy, made_by=made_by, now=read_clock())
        _put_in_force(saved.policy)
    return saved


def change(
    policy_id: int,
    *,
    rules: Sequence[RuleWanted] | None = None,
    unlimited: bool = False,
    everywhere: bool,
    made_by: str = "",
    **facts: Unpack[PolicyFacts],
) -> PolicySaved:
    """
    Change a policy, and return it. Missing fields stay. `rules` replaces all rules. The other arguments are those of
    `create`.

    Raises:
        Invalid: a field is invalid, or the name is taken.
        NotAllowed: the policy concerns every host, or changes denials.
        Unknown: the policy does not exist.
        ControlledElsewhere: this is not the control partition.
    """
    refuse_elsewhere()
    with transaction.atomic():
        stored, _before = _lock(policy_id)
        now, before = read_clock(), _facts(stored)
        versions.keep_first(stored, now=now)
        saved = _write(policy_id, rules=rules, unlimited=unlimited, everywhere=everywhere, facts=facts)
        after = _facts(saved.policy)
        record_change(f"policy {saved.policy.name}", before=before, after=after, made_by=made_by)
        if after != before:
            versions.keep(saved.policy, made_by=made_by, now=now)
        _put_in_force(saved.policy)
    return saved


def rehearse(
    policy_id: int | None,
    *,
    rules: Sequence[RuleWanted] | None = None,
    unlimited: bool = False,
    everywhere: bool,
    **facts: Unpack[PolicyFacts],
) -> Rehearsed:
    """
    Return the result of `create` (without an id) or of `change`. Nothing is stored, and no host is read.

    Raises:
        Invalid, NotAllowed, Unknown: as `create` and `change` do.
    """
    with transaction.atomic():
        before = None if policy_id is None else _read_policy(policy_id)
        saved = _write(policy_id, rules=rules, unlimited=unlimited, everywhere=everywhere, facts=facts)
        after = _read_policy(saved.policy.pk)
        transaction.set_rollback(True)
    assert after is not None
    return Rehearsed(before, after, saved.warnings)


def preview(policy_id: int | None, *, everywhere: bool, now: dt.datetime, **wanted: Any) -> Preview:
    """
    Return the effects of `create` (without an id) or `change` without storing anything.

    Raises:
        Invalid, NotAllowed, Unknown: as `create` and `change` do.
    """
    found = rehearse(policy_id, everywhere=everywhere, **wanted)
    return read_preview(found.before, found.after, warnings=found.warnings, now=now)


def _read_policy(policy_id: int) -> PolicyValues | None:
    with connection.cursor() as cursor:
        return read_policies(cursor, [policy_id]).get(policy_id)


def delete(policy_id: int, *, everywhere: bool, made_by: str = "") -> None:
    """
    Delete a policy that no seed has.

    Raises:
        InUse: seeds have it.
        NotAllowed: the policy holds for every host, or denies some.
        Unknown: the policy does not exist.
        ControlledElsewhere: this is not the control partition.
    """
    refuse_elsewhere()
    with transaction.atomic():
        # A full lock (FOR UPDATE): a transaction that gives this policy to a seed must wait, and then find no policy.
        policy = ThrottlePolicy.objects.select_for_update().filter(pk=policy_id).first()
        if policy is None:
            raise Unknown("policy", policy_id)
        if not everywhere and (policy.applies_everywhere or _denied(rules_of(policy), policy.time_zone)):
            raise NotAllowed(_NOT_ALLOWED)
        if why := why_in_use(policy):
            raise InUse(why)
        record_change(f"policy {policy.name}", before=_facts(policy), after={}, made_by=made_by)
        policy.delete()
        _notify_nodes()


def why_in_use(policy: ThrottlePolicy) -> str:
    """Return the reason why a policy cannot be deleted, with the jobs whose seeds have it; "" if no seed has it."""
    users = _users_of(policy)
    if not users.names:
        return ""
    return f"{policy.name} cannot be deleted while it is used by: {users}. Give their seeds another policy."


def _users_of(policy: ThrottlePolicy) -> _Users:
    """Return the jobs whose seeds have a policy, including seeds that are being removed."""
    found = (
        Seed.objects.filter(policy=policy)
        .order_by("job__name")
        .values_list("job__name", flat=True)
        .distinct()[: _USERS_COUNTED + 1]
    )
    names = list(found)
    return _Users(names[:_USERS_NAMED], len(names) if len(names) <= _USERS_COUNTED else None)


def rules_of(policy: ThrottlePolicy) -> list[RuleWanted]:
    """
    Return the rules of a policy as input of `change`. There is no query if the rules were read together with the
    policy.
    """
    return [
        RuleWanted(**{one.name: _without_lists(getattr(rule, one.name)) for one in fields(RuleWanted)})
        for rule in policy.rules.all()
    ]


def _facts(policy: ThrottlePolicy) -> dict[str, Any]:
    """Return the fields of a policy that operators set."""
    facts = {name: getattr(policy, name) for name in PolicyFacts.__annotations__}
    return {**facts, "rules": [asdict(rule) for rule in rules_of(policy)]}


def has_no_pace(policy: ThrottlePolicy) -> bool:
    """True if the policy, or one of its rules, has no gap, no rate and no limit of bytes."""
    return _has_no_pace(policy, rules_of(policy))


def _has_no_pace(policy: ThrottlePolicy, rules: Sequence[RuleWanted]) -> bool:
    return any(is_unlimited(policy, rule) for rule in (None, *rules))


def _without_lists(value: Any) -> Any:  # noqa: ANN401 (of any column)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class _Before:
    """The facts about the stored policy that the checks of a change need."""

    rules: Sequence[RuleWanted]
    applies_everywhere: bool
    time_zone: str
    is_unlimited: bool


def _write(
    policy_id: int | None,
    *,
    rules: Sequence[RuleWanted] | None,
    unlimited: bool,
    everywhere: bool,
    facts: PolicyFacts,
) -> PolicySaved:
    """Check and write a policy: a new one, or the one with this id under its lock."""
    policy, before = ThrottlePolicy(), _Before(rules=(), applies_everywhere=False, time_zone="", is_unlimited=False)
    if policy_id is not None:
        policy, before = _lock(policy_id)
    else:
        policy.min_gap = default_gap(unlimited=unlimited, starts=facts.get("starts"))
    for name, value in facts.items():
        setattr(policy, name, value)
    after = list(before.rules) if rules is None else [_as_stored(rule) for rule in rules]
    # A policy that was unlimited before may stay so without a new confirmation.
    checked = check(policy, after, unlimited=unlimited, was_unlimited=before.is_unlimited)
    if checked.problems:
        raise Invalid(checked.problems)
    if ThrottlePolicy.objects.filter(name=policy.name).exclude(pk=policy.pk).exists():
        raise NameTaken("policy", policy.name)
    denial_changes = _denied(before.rules, before.time_zone) != _denied(after, policy.time_zone)
    if (before.applies_everywhere or policy.applies_everywhere or denial_changes) and not everywhere:
        raise NotAllowed(_NOT_ALLOWED)
    policy.save()
    if after != before.rules:
        policy.rules.all().delete()
        ThrottleRule.objects.bulk_create(
            ThrottleRule(policy=policy, position=position, **{**asdict(rule), "days": list(rule.days)})
            for position, rule in enumerate(after)
        )
    policy.refresh_from_db()
    return PolicySaved(policy, checked.warnings)


def _lock(policy_id: int) -> tuple[ThrottlePolicy, _Before]:
    policy = ThrottlePolicy.objects.select_for_update(no_key=True).filter(pk=policy_id).first()
    if policy is None:
        raise Unknown("policy", policy_id)
    rules = rules_of(policy)
    return policy, _Before(rules, policy.applies_everywhere, policy.time_zone, _has_no_pace(policy, rules))


def _put_in_force(policy: ThrottlePolicy) -> None:
    with connection.cursor() as cursor:
        want_placed(cursor, policy_id=policy.pk)
    _notify_nodes()


def _as_stored(rule: RuleWanted) -> RuleWanted:
    """Return the rule in its stored form."""
    return RuleWanted(
        **(asdict(rule) | {"days": tuple(sorted(set(rule.days))), "pattern": stored_pattern(rule.pattern)})
    )


def _denied(rules: Sequence[RuleWanted], time_zone: str) -> list[tuple[Any, ...]]:
    """
    Return the facts on which denials depend: all rules up to the last one that denies. These include rules that do not
    deny, because an earlier rule can exempt hosts from a denial.
    """
    last = max((place for place, rule in enumerate(rules, start=1) if rule.denies), default=0)
    return [(rule.pattern, *rule.times, rule.from_time and time_zone, rule.denies) for rule in rules[:last]]


def _notify_nodes() -> None:
    """Notify running workers and managers when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, channels.LIMITS))
