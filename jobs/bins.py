"""
Every operator's verb about bins, once: pages, the REST API and commands translate and call these.

Stopping and denying hold for the whole cluster, from the moment at which they are stored: running workers are told at once,
close what they have open, and look for themselves with each beat. Documents of such a bin end as DENIED in the runs
that come to them, and outputs keep what they hold of it. The end of a back-off is as quick: what waits for it is due at once,
and managers and workers are told.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction
from django.db.models import QuerySet

from jobs import channels, policies
from jobs.connectors.repository.kind import BadIdentifier
from jobs.connectors.repository.web.kind import HOSTS
from jobs.connectors.repository.web.urls import bin_of, canonical
from jobs.invalid import Invalid
from jobs.models import Bin, BinState, ThrottlePolicy, ThrottleRule
from jobs.models.policy import MOST_REQUESTS
from jobs.policy_checks import RuleWanted, as_kept, why_no_pattern
from jobs.queue.end_back_off import go_on_without_back_off
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import NodeEvent

# Patterns that are denied here become rules of this policy; others that hold everywhere may deny, too.
DENY_LIST: Final = "Deny list"
_LONGEST_REASON: Final = 500


class InvalidBin(Invalid):
    """These fields cannot be those of a host."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__({field: [sentence]})


class BinUnknown(Exception):
    """There is no such bin."""

    def __init__(self, bin_id: int | str) -> None:
        self.bin_id = bin_id
        super().__init__(f"There is no host {bin_id}.")


class BinRefused(Exception):
    """It is not in the state in which this can be done; the sentence says which it is in."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A rule of a policy that holds everywhere by which nothing is fetched from the bins of a pattern."""

    policy_id: int
    policy: str
    rule: int
    pattern: str
    is_always: bool


def stop(bin_id: int, *, reason: str, made_by: str, now: dt.datetime) -> Bin:
    """
    Ask nothing more of a bin, over all jobs and nodes, until `go_on`.

    Raises:
        BinUnknown: there is none of this id.
        BinRefused: it is stopped already.
        InvalidBin: no reason is given.
    """
    _check_reason(reason)
    with transaction.atomic():
        facts = {"stopped_at": now, "stopped_by": made_by, "stopped_why": reason.strip()}
        changed = _of_connectors(bin_id).filter(stopped_at=None).update(**facts)
        found = _read(bin_id)
        if not changed:
            raise BinRefused(f"{found} is stopped already, by {found.stopped_by}: {found.stopped_why}")
        _tell(found, f"{made_by} stopped {found}: {found.stopped_why}", made_by=made_by)
    return found


def stop_named(typed: str, *, reason: str, made_by: str, now: dt.datetime) -> Bin:
    """
    The same for a web host by its name, or an address there, whether a crawl has come to it or not.

    Raises:
        BinRefused: it is stopped already.
        InvalidBin: no host has such a name, or no reason is given.
    """
    name = name_meant(typed)
    _check_reason(reason)
    usual = {"is_known": False, "usual_requests": HOSTS.requests, "usual_gap": HOSTS.gap}
    with transaction.atomic():
        found, is_new = Bin.objects.get_or_create(namespace=HOSTS.namespace, name=name, defaults=usual)
        if is_new:
            BinState.objects.create(bin=found)
        return stop(found.pk, reason=reason, made_by=made_by, now=now)


def go_on(bin_id: int, *, made_by: str) -> Bin:
    """
    Let a bin that was stopped be asked again, at its pace. What ended as DENIED meanwhile can be sent back.

    Raises:
        BinUnknown: there is none of this id.
        BinRefused: it is not stopped.
    """
    with transaction.atomic():
        changed = (
            _of_connectors(bin_id)
            .filter(stopped_at__isnull=False)
            .update(stopped_at=None, stopped_by="", stopped_why="")
        )
        found = _read(bin_id)
        if not changed:
            raise BinRefused(f"{found} is not stopped.")
        _tell(found, f"{made_by} let {found} go on", made_by=made_by)
    return found


def end_back_off(bin_id: int, *, made_by: str, now: dt.datetime) -> Bin:
    """
    Let a bin that backs off, or comes back from that, be asked at its full pace at once: somebody knows that it is well.

    What it was refused is forgotten, whatever its host asked for. Documents that failed there are tried again now; how
    often they have failed still counts.

    Raises:
        BinUnknown: there is none of this id.
        BinRefused: it does not back off.
    """
    with transaction.atomic():
        found = _of_connectors(bin_id).select_for_update(no_key=True).first()
        if found is None:
            raise BinUnknown(bin_id)
        until = found.back_off_until if found.back_off_until and found.back_off_until > now else None
        if not found.back_off_level and until is None:
            raise BinRefused(f"{found} does not back off.")
        ended = f"level {found.back_off_level}" + (f", until {until:%Y-%m-%d %H:%M:%S} UTC" if until else "")
        found.back_off_level, found.back_off_until, found.backing_off_since = 0, None, None
        found.save(update_fields=["back_off_level", "back_off_until", "backing_off_since"])
        go_on_without_back_off(connection.connection, bin_id=bin_id, now=now)
        _tell(found, f"{made_by} ended the back-off of {found} ({ended})", made_by=made_by)
    return found


def find_named(typed: str) -> Bin:
    """
    The bin of a web host, by its name or an address there.

    Raises:
        BinUnknown: no crawl has come to it, and nobody has stopped it.
        InvalidBin: no host has such a name.
    """
    name = name_meant(typed)
    found = Bin.objects.filter(namespace=HOSTS.namespace, name=name).first()
    if found is None:
        raise BinUnknown(name)
    return found


def name_meant(typed: str) -> str:
    """
    The name of the bin of a web host that a person may mean by its name or by an address there.

    Raises:
        InvalidBin: no host has such a name.
    """
    typed = typed.strip()
    try:
        return bin_of(canonical(typed if "://" in typed else f"http://{typed}/"))
    except BadIdentifier as bad:
        raise InvalidBin("name", f"{bad}; write the name of a host, such as www.example.com.") from None


def denials() -> list[Denial]:
    """All rules that deny in policies that hold everywhere, by policy and place."""
    rules = (
        ThrottleRule.objects.filter(denies=True, policy__holds_everywhere=True)
        .select_related("policy")
        .order_by("policy__name", "position")
    )
    return [
        Denial(rule.policy_id, rule.policy.name, rule.position + 1, rule.pattern, _as_wanted(rule).is_always_open)
        for rule in rules
    ]


def deny(pattern: str, *, made_by: str, everywhere: bool) -> None:
    """
    Fetch nothing more from the hosts of a pattern (`*.example.com`), whatever job names them.

    Raises:
        InvalidPolicy, PolicyNotAllowed: as `jobs.policies` does.
        InvalidBin: the pattern is every host: jobs are paused for that.
        BinRefused: it is denied already, or there is a policy in the place of the list.
    """
    pattern = pattern_meant(pattern)
    with transaction.atomic():
        # The full lock: two who deny at once must not each write a list without the other's.
        listed = ThrottlePolicy.objects.select_for_update().filter(name=DENY_LIST, holds_everywhere=True).first()
        wanted = [RuleWanted(pattern=pattern, denies=True)]
        if listed is None and ThrottlePolicy.objects.filter(name=DENY_LIST).exists():
            raise BinRefused(
                f"A policy named {DENY_LIST} is no list of what is denied, since it does not hold everywhere: rename it first."
            )
        if listed is None:
            facts: policies.PolicyFacts = {
                "name": DENY_LIST,
                "holds_everywhere": True,
                "open_requests": MOST_REQUESTS,
                "min_gap": 0.0,
            }
            policies.create(rules=wanted, unlimited=True, everywhere=everywhere, made_by=made_by, **facts)
        else:
            rules = policies.rules_of(listed)
            if any(rule.denies and rule.is_always_open and _is_same(rule.pattern, pattern) for rule in rules):
                raise BinRefused(f"{DENY_LIST} denies {pattern} already.")
            policies.change(listed.pk, rules=[*rules, *wanted], everywhere=everywhere, made_by=made_by)
        _journal(f"{made_by} denied {pattern}", made_by=made_by)


def pattern_meant(typed: str) -> str:
    """
    The pattern of hosts that a person means, if they may be denied together.

    Raises:
        InvalidBin: it is no pattern, or means every host.
    """
    pattern = as_kept(typed)
    if not pattern:
        raise InvalidBin("pattern", "This is every host; to fetch nothing at all, pause the jobs.")
    why = why_no_pattern(pattern)
    if why or "/" in pattern:
        raise InvalidBin("pattern", why or f"{pattern!r} names files; write a pattern of hosts like *.example.com.")
    return pattern


def allow(policy_id: int, *, pattern: str, made_by: str, everywhere: bool) -> None:
    """
    Take the rules that deny a pattern out of a policy that holds everywhere.

    Raises:
        PolicyUnknown, PolicyNotAllowed: as `jobs.policies` does.
        BinRefused: it has no such rule.
    """
    with transaction.atomic():
        policy = ThrottlePolicy.objects.select_for_update().filter(pk=policy_id, holds_everywhere=True).first()
        if policy is None:
            raise policies.PolicyUnknown(policy_id)
        rules = policies.rules_of(policy)
        kept = [rule for rule in rules if not (rule.denies and _is_same(rule.pattern, pattern))]
        if len(kept) == len(rules):
            raise BinRefused(f"{policy.name} does not deny {pattern}.")
        policies.change(policy_id, rules=kept, unlimited=True, everywhere=everywhere, made_by=made_by)
        _journal(f"{made_by} denies {pattern} no longer", made_by=made_by)


def allow_everywhere(pattern: str, *, made_by: str) -> None:
    """
    Take the rules that deny a pattern out of all policies that hold everywhere.

    Raises:
        BinRefused: none has such a rule.
    """
    with transaction.atomic():
        denying = sorted({denial.policy_id for denial in denials() if _is_same(denial.pattern, pattern)})
        if not denying:
            raise BinRefused(f"Nothing denies {pattern}.")
        for policy_id in denying:
            allow(policy_id, pattern=pattern, made_by=made_by, everywhere=True)


def _is_same(pattern: str, typed: str) -> bool:
    return as_kept(pattern).lower() == as_kept(typed).lower()


def _as_wanted(rule: ThrottleRule) -> RuleWanted:
    return RuleWanted(days=tuple(rule.days), from_time=rule.from_time, to_time=rule.to_time)


def _check_reason(reason: str) -> None:
    if not reason.strip() or len(reason) > _LONGEST_REASON:
        raise InvalidBin("reason", f"Say why, in 1 to {_LONGEST_REASON} characters: others will want to know.")


def _of_connectors(bin_id: int) -> QuerySet[Bin]:
    return Bin.objects.filter(pk=bin_id).exclude(namespace__in=[Bin.ADDRESS, Bin.POLICY])


def _read(bin_id: int) -> Bin:
    found = _of_connectors(bin_id).first()
    if found is None:
        raise BinUnknown(bin_id)
    return found


def _tell(changed: Bin, message: str, *, made_by: str) -> None:
    """Let running workers look, when this is committed."""
    _journal(message, made_by=made_by, bin=changed.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", (channels.CONTROL,))


def _journal(message: str, *, made_by: str, **detail: object) -> None:
    NodeEvent.objects.create(
        scope=CLUSTER_SCOPE, kind=NodeEvent.Kind.ASKED, message=message, detail={"by": made_by, **detail}
    )
