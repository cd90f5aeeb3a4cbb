"""The sum of the removals of several partitions, which exchange them as JSON. Pure functions, without a database."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from jobs.guard.decision import (
    Facts,
    HostShare,
    Parent,
    ParentState,
    Refused,
    Seed,
    Thresholds,
    hosts_that_lose_too_much,
)

# Largest length of each list that a partition sends. Hosts that lose too much come first.
_HOSTS: Final = 100
_SEEDS: Final = 100
_PARENTS: Final = 20


def as_json(facts: Facts, thresholds: Thresholds) -> dict[str, Any]:
    """Return the facts with lists of bounded length."""
    hosts = list(dict.fromkeys([*hosts_that_lose_too_much(facts, thresholds), *facts.hosts]))
    bounded = replace(facts, hosts=hosts[:_HOSTS], seeds=facts.seeds[:_SEEDS], parents=facts.parents[:_PARENTS])
    return asdict(bounded)


def from_json(body: Mapping[str, Any]) -> Facts:
    """Return the facts that `as_json` made into JSON."""
    return Facts(
        leaving=body["leaving"],
        staying=body["staying"],
        hosts=[HostShare(**host) for host in body["hosts"]],
        seeds=[Seed(**{**seed, "state": ParentState(seed["state"])}) for seed in body["seeds"]],
        parents=[Parent(**{**parent, "state": ParentState(parent["state"])}) for parent in body["parents"]],
        outside=body["outside"],
        rules=Refused(**body["rules"]),
        followed=body["followed"],
    )


def merge(every: Sequence[Facts]) -> Facts:
    """Return the removals of all partitions together. A host is in one partition only."""
    return Facts(
        leaving=sum(facts.leaving for facts in every),
        staying=sum(facts.staying for facts in every),
        hosts=sorted((host for facts in every for host in facts.hosts), key=lambda host: (-host.leaving, host.host)),
        seeds=[seed for facts in every for seed in facts.seeds],
        parents=sorted((one for facts in every for one in facts.parents), key=lambda one: -one.reached)[:_PARENTS],
        outside=sum(facts.outside for facts in every),
        rules=Refused(sum(facts.rules.examined for facts in every), sum(facts.rules.refused for facts in every)),
        followed=sum(facts.followed for facts in every),
    )
