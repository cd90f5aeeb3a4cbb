"""
The effects of a change of a throttle policy, shown before it is stored.

The cost is bounded, whatever the size of the cluster: limited numbers of hosts are examined, counted and named.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

from django.db import connection
from django.db.models import QuerySet

from jobs.models import Bin, BinLimit, Seed
from jobs.queries.rehearsals.limits import read_other_limits
from jobs.throttling.limits import Limits, strictest
from jobs.throttling.patterns import Patterns
from jobs.throttling.policies import PolicyValues, RuleValues

EXAMINED_HOSTS: Final = 100_000
COUNTED: Final = 1_000
_CHANGES_SHOWN: Final = 20
_NAMES_SHOWN: Final = 5
# Largest number of documents of one host that are counted.
DOCUMENTS_COUNTED: Final = 20_000

_DOCUMENTS: Final[LiteralString] = f"""
SELECT bin.id,
       (SELECT count(*) FROM (SELECT FROM jobs_lane AS lane JOIN jobs_queueitem AS item ON item.lane_id = lane.id
                               WHERE lane.bin_id = bin.id LIMIT {DOCUMENTS_COUNTED + 1}) AS counted)
  FROM jobs_bin AS bin WHERE bin.id = ANY(%(hosts)s)
"""


@dataclass(slots=True)
class Counted:
    """A number of objects, and the first of their names; counting stops above 1,000."""

    number: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.number = min(self.number + 1, COUNTED + 1)
        if len(self.names) < _NAMES_SHOWN:
            self.names.append(name)

    @property
    def is_more(self) -> bool:
        return self.number > COUNTED

    def __str__(self) -> str:
        return f"more than {COUNTED:,}" if self.is_more else f"{self.number:,}"


@dataclass(frozen=True, slots=True)
class HostChange:
    """
    The limits of the policy for one host at this moment, before and after; None if it does not apply to the host.

    If both are equal, they differ at other times of the week, or one of these limits applies to the whole address of
    the host. `in_force_before` and `in_force_after` are the strictest of these and of all other limits of the host,
    while jobs of the policy run. `documents` is the number of documents of all jobs on the host, counted up to one more
    than `DOCUMENTS_COUNTED`.
    """

    name: str
    before: Limits | None
    after: Limits | None
    in_force_before: Limits | None
    in_force_after: Limits | None
    documents: int

    @property
    def seconds_before(self) -> float | None:
        """Return the shortest time to read all documents now; None without a rate, or for a denied host."""
        return _seconds(self.documents, self.in_force_before)

    @property
    def seconds_after(self) -> float | None:
        return _seconds(self.documents, self.in_force_after)

    @property
    def is_without_effect(self) -> bool:
        """True if the change has no effect now, because other limits are stricter."""
        return self.before != self.after and self.in_force_before == self.in_force_after


@dataclass(frozen=True, slots=True)
class Reach:
    """The hosts that the pattern of a rule matches, among the examined hosts."""

    rule: RuleValues
    hosts: Counted
    is_everything: bool

    @property
    def is_nothing(self) -> bool:
        return self.hosts.number == 0


@dataclass(frozen=True, slots=True)
class Preview:
    """
    The preview of a change. `hosts` are changed hosts, and `changes` the first of them; `seeds` have the policy.

    `among` is the number of examined hosts: the hosts of the policy's seeds, or (`is_of_all_hosts`) all hosts.
    `has_more` is true if further hosts were not examined.
    """

    hosts: Counted
    changes: Sequence[HostChange]
    seeds: Counted
    reaches: Sequence[Reach]
    total_before: Limits | None
    total_after: Limits | None
    per_address_before: bool
    per_address_after: bool
    among: int
    is_of_all_hosts: bool
    has_more: bool
    warnings: Sequence[str]


def read_preview(
    before: PolicyValues | None, after: PolicyValues, *, warnings: Sequence[str], now: dt.datetime
) -> Preview:
    """Return the effects of a policy that becomes `after`; `before` is None for a new policy, which no seed has yet."""
    everywhere = after.applies_everywhere or (before is not None and before.applies_everywhere)
    own = {} if before is None else _names(BinLimit.objects.filter(policy=before.id).values_list("bin_id"))
    is_of_all_hosts = everywhere or not own
    examined = _names(Bin.objects.values_list("pk")) if is_of_all_hosts else own
    names = sorted(examined)[:EXAMINED_HOSTS]
    limited_before = _Limited(before, own)
    limited_after = _Limited(after, own)
    hosts = Counted()
    changed: list[str] = []
    reaches = [Reach(rule, Counted(), rule.pattern == "") for rule in after.rules]
    for name in names:
        places_after = limited_after.patterns.places_of(name)
        for place in places_after:
            reaches[place].hosts.add(name)
        if limited_before.says(name) != limited_after.says(name, places_after):
            hosts.add(name)
            if len(changed) < _CHANGES_SHOWN:
                changed.append(name)
    others = read_other_limits([examined[name] for name in changed], but=[after.id], with_usual=everywhere, now=now)
    documents = _count_documents([examined[name] for name in changed])
    changes = []
    for name in changed:
        said = (limited_before.limits(name, now), limited_after.limits(name, now))
        beside = others.get(examined[name], [])
        in_force_before, in_force_after = (strictest([*beside, *([limits] if limits else [])]) for limits in said)
        changes.append(
            HostChange(name, *said, in_force_before, in_force_after, documents=documents.get(examined[name], 0))
        )
    return Preview(
        hosts=hosts,
        changes=changes,
        seeds=_seeds(None if everywhere else after.id),
        reaches=reaches,
        total_before=before.in_whole_total(now) if before else None,
        total_after=after.in_whole_total(now),
        per_address_before=before is not None and before.per_address,
        per_address_after=after.per_address,
        among=len(names),
        is_of_all_hosts=is_of_all_hosts,
        has_more=len(examined) > EXAMINED_HOSTS,
        warnings=warnings,
    )


class _Limited:
    """The limits of a policy for hosts, in a form in which two versions of the policy are quickly compared."""

    def __init__(self, policy: PolicyValues | None, own: Iterable[str]) -> None:
        self._policy = policy
        self._own = frozenset(own)
        self._rules = policy.rules if policy else ()
        self.patterns = Patterns(rule.pattern for rule in self._rules)

    def says(self, name: str, places: Sequence[int] | None = None) -> tuple[object, ...] | None:
        """Return everything that the policy says about a host, at any time; None if it does not apply to the host."""
        if self._policy is None or not self._holds_for(name):
            return None
        places = self.patterns.places_of(name) if places is None else places
        policy = self._policy
        return (policy.numbers, policy.spares(name), policy.per_address, [self._rules[place] for place in places])

    def limits(self, name: str, at: dt.datetime) -> Limits | None:
        return self._policy.for_bin(name, at) if self._policy and self._holds_for(name) else None

    def _holds_for(self, name: str) -> bool:
        return self._policy is not None and (self._policy.applies_everywhere or name in self._own)


def _count_documents(hosts: Sequence[int]) -> dict[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(_DOCUMENTS, {"hosts": list(hosts)})
        return dict(cursor.fetchall())


def _seconds(documents: int, limits: Limits | None) -> float | None:
    return documents * limits.gap if limits is not None and limits.gap and not limits.denied else None


def _names(hosts: "QuerySet[Any, Any]") -> dict[str, int]:
    """
    Return the ids of these hosts by name, without bins that stand for addresses and policies. One host more than are
    examined shows that further hosts exist.
    """
    chosen = hosts[: EXAMINED_HOSTS + 1]
    hosts = Bin.objects.filter(pk__in=chosen).exclude(namespace__in=[Bin.ADDRESS, Bin.POLICY])
    return dict(hosts.values_list("name", "pk"))


def _seeds(policy_id: int | None) -> Counted:
    found = Seed.objects.filter(removed_at=None)
    if policy_id is not None:
        found = found.filter(policy=policy_id)
    named = found.select_related("job").order_by("pk")[:_NAMES_SHOWN]
    return Counted(len(found.values_list("pk")[: COUNTED + 1]), [f"{seed.job.name}: {seed}" for seed in named])
