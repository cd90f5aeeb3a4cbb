"""
The deny list: hosts from which no document is fetched, for any job. Pages, API and commands call these operations.

A denial is a rule of a policy that applies everywhere. A denied host without a port has a second rule for all its
ports. Both rules are one entry of the list.
"""

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from jobs.checks.policies import RuleWanted, stored_pattern, why_no_pattern
from jobs.lifecycle.limits import MOST_REQUESTS
from jobs.models import Bin, DenialReason, ThrottlePolicy, ThrottleRule
from jobs.throttling.patterns import EVERY_PORT, patterns_of
from jobs.verbs import policies
from jobs.verbs.hosts import HostsUnknown, check_reason
from nodes.errors import Invalid, Refused, Unknown
from nodes.membership.changes import record_request

# The policy that gets the rules for denied patterns. Other policies that apply everywhere may deny too.
DENY_LIST: Final = "Deny list"


@dataclass(frozen=True, slots=True)
class Denial:
    """A rule that denies the hosts of a pattern, in a policy that applies everywhere."""

    policy_id: int
    policy: str
    rule: int
    pattern: str
    is_always: bool
    reason: str = ""
    denied_by: str = ""
    denied_at: dt.datetime | None = None


def denials(*, lock: bool = False) -> list[Denial]:
    """
    Return all rules that deny hosts, in policies that apply everywhere, by policy and place. The two rules of a host
    and of its ports are one entry.

    With `lock`, no other transaction changes the list before this one ends.
    """
    if lock:
        # If the policy does not exist yet, there is nothing to lock: two concurrent first denials conflict on its name.
        list(ThrottlePolicy.objects.select_for_update().filter(applies_everywhere=True).order_by("pk"))
    rules = (
        ThrottleRule.objects.filter(denies=True, policy__applies_everywhere=True)
        .select_related("policy")
        .order_by("policy__name", "position")
    )
    reasons = {(one.policy_id, one.pattern): one for one in DenialReason.objects.all()}
    return [_denial(rule, reasons.get((rule.policy_id, rule.pattern))) for rule in _without_ports(list(rules))]


def deny(pattern: str, *, reason: str, confirm: bool = False, made_by: str, now: dt.datetime) -> None:
    """
    Deny the hosts of a pattern (`*.example.com`) for all jobs.

    Raises:
        Invalid: as `jobs.verbs.policies` does.
        Invalid: the pattern is every host (pause the jobs for that), or no reason is given.
        HostsUnknown: the pattern matches no known host, and the caller did not confirm it.
        Refused: the pattern is already denied, or another policy has the name of the list.
    """
    pattern = pattern_meant(pattern)
    check_reason(reason)
    if not confirm and not is_known(pattern):
        raise HostsUnknown(pattern)
    with transaction.atomic():
        # A full lock (FOR UPDATE), so that of two concurrent denials neither overwrites the other one.
        listed = ThrottlePolicy.objects.select_for_update().filter(name=DENY_LIST, applies_everywhere=True).first()
        wanted = [RuleWanted(pattern=each, denies=True) for each in patterns_of(pattern)]
        if listed is None and ThrottlePolicy.objects.filter(name=DENY_LIST).exists():
            raise Refused(
                f"The policy {DENY_LIST} is not the deny list, because it does not apply everywhere. Rename that policy first."
            )
        if listed is None:
            facts: policies.PolicyFacts = {
                "name": DENY_LIST,
                "applies_everywhere": True,
                "open_requests": MOST_REQUESTS,
                "min_gap": 0.0,
            }
            listed = policies.create(rules=wanted, unlimited=True, everywhere=True, made_by=made_by, **facts).policy
        else:
            rules = policies.rules_of(listed)
            denied = {rule.pattern.lower() for rule in rules if rule.denies and rule.is_always_open}
            missing = [rule for rule in wanted if rule.pattern.lower() not in denied]
            if not missing:
                raise Refused(f"{DENY_LIST} already denies {pattern}.")
            policies.change(listed.pk, rules=[*rules, *missing], everywhere=True, made_by=made_by)
        DenialReason.objects.update_or_create(
            policy=listed,
            pattern=pattern,
            defaults={"reason": reason.strip(), "denied_by": made_by, "denied_at": now},
        )
        record_request(
            f"{made_by} denied {pattern}: {reason.strip()}",
            made_by=made_by,
            after={"denied": pattern, "reason": reason.strip()},
        )


def is_known(pattern: str) -> bool:
    """True if a crawl has come to a host that matches the pattern."""
    known = Bin.objects.exclude(namespace__in=[Bin.ADDRESS, Bin.POLICY])
    return any(known.filter(name__regex=_as_regex(each)).exists() for each in patterns_of(pattern.lower()))


def pattern_meant(typed: str) -> str:
    """
    Return the stored form of a pattern of hosts that a person typed, after a check that it may be denied.

    Raises:
        Invalid: the text is not a pattern, or means every host.
    """
    pattern = stored_pattern(typed)
    if not pattern:
        raise Invalid({"pattern": ["This pattern matches every host. To stop all requests, pause the jobs."]})
    why = why_no_pattern(pattern)
    if why or "/" in pattern:
        raise Invalid({"pattern": [why or f"{pattern!r} means files. Write a host pattern, such as *.example.com."]})
    return pattern


def allow(policy_id: int, *, pattern: str, made_by: str, everywhere: bool) -> None:
    """
    Remove the rules for a pattern and its ports from a policy that applies everywhere. Without `everywhere`, this must
    be the deny list.

    Raises:
        Unknown, NotAllowed: as `jobs.verbs.policies` does.
        Refused: the policy has no such rule.
    """
    with transaction.atomic():
        policy = ThrottlePolicy.objects.select_for_update().filter(pk=policy_id, applies_everywhere=True).first()
        if policy is None:
            raise Unknown("policy", policy_id)
        rules = policies.rules_of(policy)
        meant = {each.lower() for each in patterns_of(stored_pattern(pattern))}
        kept = [rule for rule in rules if not (rule.denies and stored_pattern(rule.pattern).lower() in meant)]
        if len(kept) == len(rules):
            raise Refused(f"{policy.name} does not deny {pattern}.")
        policies.change(
            policy_id, rules=kept, unlimited=True, everywhere=everywhere or policy.name == DENY_LIST, made_by=made_by
        )
        DenialReason.objects.filter(policy=policy, pattern__iexact=stored_pattern(pattern)).delete()
        record_request(f"{made_by} removed {pattern} from the deny list", made_by=made_by, before={"denied": pattern})


def allow_everywhere(pattern: str, *, made_by: str) -> None:
    """
    Remove the rules that deny a pattern from all policies that apply everywhere.

    Raises:
        Refused: no policy has such a rule.
    """
    with transaction.atomic():
        denying = sorted({denial.policy_id for denial in denials() if _is_same(denial.pattern, pattern)})
        if not denying:
            raise Refused(f"Nothing denies {pattern}.")
        for policy_id in denying:
            allow(policy_id, pattern=pattern, made_by=made_by, everywhere=True)


def _without_ports(rules: list[ThrottleRule]) -> Iterator[ThrottleRule]:
    """
    Yield the rules, without those for the ports of a host if the host itself has a rule in the same policy for the same
    times.
    """
    said = {(rule.policy_id, rule.pattern, _as_wanted(rule).times) for rule in rules}
    for rule in rules:
        without = rule.pattern.removesuffix(EVERY_PORT)
        if without == rule.pattern or (rule.policy_id, without, _as_wanted(rule).times) not in said:
            yield rule


def _denial(rule: ThrottleRule, why: DenialReason | None) -> Denial:
    facts = (rule.policy_id, rule.policy.name, rule.position + 1, rule.pattern, _as_wanted(rule).is_always_open)
    return Denial(*facts) if why is None else Denial(*facts, why.reason, why.denied_by, why.denied_at)


def _as_regex(pattern: str) -> str:
    return "^" + ".*".join(re.escape(piece) for piece in pattern.split("*")) + "$"


def _is_same(pattern: str, typed: str) -> bool:
    return stored_pattern(pattern).lower() == stored_pattern(typed).lower()


def _as_wanted(rule: ThrottleRule) -> RuleWanted:
    return RuleWanted(days=tuple(rule.days), from_time=rule.from_time, to_time=rule.to_time)
