"""
Limits that the webmasters of hosts ask for. The pages of webmasters apply them after a proof of control, and operators
withdraw them.

The limit of a host is a rule of one policy, which applies everywhere. If several policies apply, the strictest one
limits the host, so a webmaster can only make the crawler slower. A host that is named without a port gets a second rule
for its ports.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from django.db import transaction

from jobs.checks.policies import MOST_RULES, RuleWanted
from jobs.lifecycle.limits import LONGEST_GAP, MOST_REQUESTS
from jobs.models import ThrottlePolicy, WebmasterLimit
from jobs.models.webmaster import WEBMASTERS
from jobs.throttling.patterns import patterns_of
from jobs.verbs import policies
from nodes.errors import Invalid, Refused, Unknown
from nodes.membership.changes import record_request

# Shortest gap between two starts that a webmaster may set (seconds).
SHORTEST_GAP: Final = 1.0
# Largest number of hosts with a limit. Each host needs two rules.
MOST_LIMITS: Final = MOST_RULES // 2
# The author of these limits in the journal.
_AUTHOR: Final = "a webmaster"


def check_gap(gap: float | None) -> None:
    """
    Check the time between two starts (seconds; None: no requests).

    Raises:
        Invalid: the gap is out of range.
    """
    # A condition that refuses NaN, too.
    if gap is not None and not SHORTEST_GAP <= gap <= LONGEST_GAP:
        raise Invalid({"gap": [f"Write a number of seconds from {SHORTEST_GAP:g} to {LONGEST_GAP:g}."]})


def put_in_force(
    host: str, *, gap: float | None, proof: WebmasterLimit.Proof, token: str, lasts: dt.timedelta, now: dt.datetime
) -> WebmasterLimit:
    """
    Store the limit of a host in place of an earlier limit of its webmaster. Nodes apply it immediately.

    Raises:
        Invalid: the gap is out of range.
        Refused: too many hosts have a limit, or a policy with the name of these limits does not apply everywhere.
        ControlledElsewhere: this is not the control partition.
    """
    check_gap(gap)
    facts = {"gap": gap, "proof": proof, "token": token, "proved_at": now, "expires_at": now + lasts}
    with transaction.atomic():
        policy = _locked_policy() or _create_policy()
        if not WebmasterLimit.objects.filter(host=host).exists() and WebmasterLimit.objects.count() >= MOST_LIMITS:
            raise Refused("Too many hosts have a limit of this kind. Write to the operator of the crawler.")
        before = _facts(WebmasterLimit.objects.filter(host=host).first())
        limit, _ = WebmasterLimit.objects.update_or_create(host=host, defaults=facts)
        _write_rules(policy, host, _rules_of(limit), made_by=_AUTHOR)
        record_request(
            f"A webmaster of {host} asked for {in_words(gap)}. Proof: {_PROOFS[proof]}",
            made_by=_AUTHOR,
            before=before,
            after=_facts(limit),
        )
    return limit


def lift(host: str, *, proof: WebmasterLimit.Proof) -> None:
    """
    Remove the limit of a host at the request of its webmaster; do nothing if it has none.

    Raises:
        ControlledElsewhere: this is not the control partition.
    """
    with transaction.atomic():
        policy = _locked_policy()
        limit = WebmasterLimit.objects.filter(host=host).first()
        if limit is not None:
            message = f"A webmaster of {host} withdrew the limit of {in_words(limit.gap)}. Proof: {_PROOFS[proof]}"
            _remove(policy, limit, message=message, made_by=_AUTHOR)


def withdraw(host: str, *, made_by: str) -> None:
    """
    Remove the limit that the webmaster of a host asked for.

    Raises:
        Unknown: the host has no limit of a webmaster.
        ControlledElsewhere: this is not the control partition.
    """
    with transaction.atomic():
        policy = _locked_policy()
        limit = WebmasterLimit.objects.filter(host=host).first()
        if limit is None:
            raise Unknown("limit", host, f"No webmaster of {host} has a limit in force.")
        message = f"{made_by} withdrew the limit that a webmaster of {limit.host} asked for ({in_words(limit.gap)})"
        _remove(policy, limit, message=message, made_by=made_by)


def in_words(gap: float | None) -> str:
    """Return a limit as a phrase for the journal."""
    return "no requests" if gap is None else f"at most one request in {gap:g} s"


_PROOFS: Final = {WebmasterLimit.Proof.DNS: "a DNS record", WebmasterLimit.Proof.FILE: "a file on the host"}


def _locked_policy() -> ThrottlePolicy | None:
    """
    Return the policy of these limits, locked, so that only one transaction at a time changes them; None before the
    first limit.
    """
    policy = ThrottlePolicy.objects.select_for_update().filter(name=WEBMASTERS).first()
    if policy is not None and not policy.applies_everywhere:
        raise Refused(f"The policy {WEBMASTERS} does not apply everywhere. Rename that policy first.")
    return policy


def _create_policy() -> ThrottlePolicy:
    return policies.create(
        name=WEBMASTERS,
        applies_everywhere=True,
        open_requests=MOST_REQUESTS,
        min_gap=0.0,
        unlimited=True,
        everywhere=True,
        made_by=_AUTHOR,
    ).policy


def _rules_of(limit: WebmasterLimit) -> list[RuleWanted]:
    patterns = patterns_of(limit.host)
    if limit.gap is None:
        return [RuleWanted(pattern=pattern, denies=True) for pattern in patterns]
    return [RuleWanted(pattern=pattern, open_requests=1, min_gap=limit.gap) for pattern in patterns]


def _write_rules(policy: ThrottlePolicy, host: str, wanted: Sequence[RuleWanted], *, made_by: str) -> None:
    """Replace the rules of one host."""
    meant = {pattern.lower() for pattern in patterns_of(host)}
    others = [rule for rule in policies.rules_of(policy) if rule.pattern.lower() not in meant]
    policies.change(policy.pk, rules=[*others, *wanted], everywhere=True, made_by=made_by)


def _remove(policy: ThrottlePolicy | None, limit: WebmasterLimit, *, message: str, made_by: str) -> None:
    before = _facts(limit)
    if policy is not None:
        _write_rules(policy, limit.host, (), made_by=made_by)
    WebmasterLimit.objects.filter(pk=limit.pk).delete()
    record_request(message, made_by=made_by, before=before)


def _facts(limit: WebmasterLimit | None) -> dict[str, object]:
    if limit is None:
        return {}
    return {"limit": in_words(limit.gap), "proof": limit.proof, "expires_at": limit.expires_at}
