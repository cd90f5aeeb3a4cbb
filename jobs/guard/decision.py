"""The decision of the delete guard, and the sentences that it gives to an operator."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

# Least share that counts as "most" of the removals, or of the documents of a host or a job.
_MOST = 0.5


class ParentState(enum.StrEnum):
    """
    The reason why a document no longer leads to other documents: it cannot be read any more, has no links in scope,
    redirects, has only other links, or lost some links.
    """

    GONE = "gone"
    EMPTY = "empty"
    REDIRECTS = "redirects"
    REPLACED = "replaced"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """
    The guard of a job asks if more than `documents` are removed and they exceed a share of the job or of one host. It
    also asks if a seed is lost.

    If `percent` is None, it never asks. If `host_percent` is None, single hosts do not count.
    """

    percent: int | None
    host_percent: int | None
    documents: int
    asks_for_seeds: bool


@dataclass(frozen=True, slots=True)
class HostShare:
    """The documents of one host that the outputs hold: the documents to be removed, and the documents that stay."""

    host: str
    leaving: int
    staying: int

    @property
    def share(self) -> float:
        """Return the share of the host's documents that would be removed, from 0 to 1."""
        return self.leaving / (self.leaving + self.staying) if self.leaving else 0.0


@dataclass(frozen=True, slots=True)
class Seed:
    """A seed that lost all of its links, and the result code of its document in this run."""

    identifier: str
    host: str
    state: ParentState
    code: str


@dataclass(frozen=True, slots=True)
class Parent:
    """
    A document that no longer names `children` of the documents to be removed.

    `reached` also counts documents to which links from these children lead, up to a limit.
    """

    identifier: str
    state: ParentState
    code: str
    children: int
    reached: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Removals that were compared with the present rules of their job, and the number of them that the rules refuse."""

    examined: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """
    The documents that a run's clean-up would remove from the outputs, and the documents that it would keep.

    `outside` is the number of leaving documents outside the hop limits. Links were followed from parents to at most
    `followed` documents.
    """

    leaving: int
    staying: int
    hosts: Sequence[HostShare] = ()
    seeds: Sequence[Seed] = ()
    parents: Sequence[Parent] = ()
    outside: int = 0
    rules: Refused = Refused()
    followed: int = 50_000

    @property
    def share(self) -> float:
        """Return the share of the job's documents that would be removed, from 0 to 1."""
        return self.leaving / (self.leaving + self.staying) if self.leaving else 0.0


def should_ask(facts: Facts, thresholds: Thresholds) -> bool:
    """True if the removals have to wait for approval."""
    if thresholds.percent is None or not facts.leaving:
        return False
    if facts.leaving > thresholds.documents and facts.share * 100 > thresholds.percent:
        return True
    if hosts_that_lose_too_much(facts, thresholds):
        return True
    return thresholds.asks_for_seeds and any(_is_lost(seed, facts) for seed in facts.seeds)


def hosts_that_lose_too_much(facts: Facts, thresholds: Thresholds) -> list[HostShare]:
    """Return the hosts whose removals alone are a reason to ask."""
    percent = thresholds.host_percent
    if percent is None:
        return []
    return [host for host in facts.hosts if host.leaving > thresholds.documents and host.share * 100 > percent]


def _is_lost(seed: Seed, facts: Facts) -> bool:
    """
    True if a seed no longer exists.

    Also true if it lost its links, and most documents of its host or of the job would be removed. A login page in place
    of the seed has this effect. If a seed really loses a few links, only a few documents are removed.
    """
    if seed.state == ParentState.GONE or facts.share > _MOST:
        return True
    return any(host.host == seed.host and host.share > _MOST for host in facts.hosts)


def question(facts: Facts, thresholds: Thresholds) -> str:
    """Return the question in one sentence, with the number of removals, the host that loses most, and their cause."""
    every = facts.leaving + facts.staying
    said = [f"{facts.leaving:,} of {every:,} documents would be removed ({_percent(facts.share)})."]
    hosts = hosts_that_lose_too_much(facts, thresholds)
    if hosts and hosts[0].leaving < facts.leaving:
        said.append(f"{hosts[0].host} would lose {hosts[0].leaving:,} of {hosts[0].leaving + hosts[0].staying:,}.")
    elif hosts and hosts[0].staying < facts.staying:
        said.append(f"All are on {hosts[0].host}, which has {hosts[0].leaving + hosts[0].staying:,}.")
    return " ".join([*said, cause(facts)])


def cause(facts: Facts) -> str:
    """Return the cause that most of the removals share, as a sentence."""
    rules = facts.rules
    if facts.outside > facts.leaving * _MOST:
        return f"The hop limits of the job exclude {facts.outside:,} of them."
    if rules.refused > rules.examined * _MOST:
        compared = f"{rules.refused:,} of the {rules.examined:,} that were compared"
        return f"The job's own rules and seeds exclude {compared if rules.examined < facts.leaving else f'{rules.refused:,} of them'}."
    top = max(facts.parents, key=lambda parent: parent.reached, default=None)
    if top is not None and top.reached > min(facts.leaving, facts.followed) * _MOST:
        became = f"{top.identifier} {_BECAME[top.state].format(code=top.code)}"
        if top.children == top.reached:
            return f"{became}, and had named {top.children:,} of them."
        or_more = " or more" if sum(parent.reached for parent in facts.parents) >= facts.followed else ""
        return f"{became}, and its links had led to {top.reached:,}{or_more} of them."
    for state in (ParentState.GONE, ParentState.EMPTY, ParentState.REDIRECTS, ParentState.REPLACED):
        seed = next((seed for seed in facts.seeds if seed.state == state), None)
        if seed is not None:
            return f"The seed {seed.identifier} {_BECAME[state].format(code=seed.code)}."
    if len(facts.parents) > 1:
        return f"{len(facts.parents):,} documents or more no longer name them."
    return "No document of this run names them. Were rules or seeds of the job changed?"


_BECAME = {
    ParentState.GONE: "cannot be read any more ({code})",
    ParentState.EMPTY: "has no links in scope ({code})",
    ParentState.REDIRECTS: "redirects elsewhere",
    ParentState.REPLACED: "links to none of its earlier documents",
    ParentState.CHANGED: "no longer names them",
}


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{share * 100:.1f} %"
