"""The decision of the delete guard, and the sentences that it gives to an operator."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

# A parent explains most of the removals from this share on.
_MOST_OF_IT = 0.5


class ParentState(enum.StrEnum):
    """The reason why a document no longer names others."""

    GONE = "gone"
    EMPTY = "empty"
    REDIRECTS = "redirects"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A job's guard asks above both numbers, or if any seed is gone. If `percent` is None, it never asks."""

    percent: int | None
    documents: int
    asks_for_seeds: bool


@dataclass(frozen=True, slots=True)
class HostShare:
    """The documents of one host that the outputs hold: those to be removed, and the others."""

    host: str
    leaving: int
    staying: int


@dataclass(frozen=True, slots=True)
class Seed:
    """A seed that names nothing any more, and the result code of its document in this run."""

    identifier: str
    state: ParentState
    code: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A document that named `children` of the documents to be removed, and no longer does."""

    identifier: str
    state: ParentState
    code: str
    children: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The documents that a run's clean-up would remove from the outputs, and those that it would keep."""

    leaving: int
    staying: int
    hosts: Sequence[HostShare] = ()
    seeds: Sequence[Seed] = ()
    parents: Sequence[Parent] = ()

    @property
    def share(self) -> float:
        """The share of the job's documents that would be removed, from 0 to 1."""
        return self.leaving / (self.leaving + self.staying) if self.leaving else 0.0


def exceeds(facts: Facts, thresholds: Thresholds) -> bool:
    """True if the number of removals alone is a reason to ask."""
    return (
        thresholds.percent is not None
        and facts.leaving > thresholds.documents
        and facts.share * 100 > thresholds.percent
    )


def should_ask(facts: Facts, thresholds: Thresholds) -> bool:
    """True if the removals have to wait for approval."""
    if thresholds.percent is None or not facts.leaving:
        return False
    gone = any(seed.state == ParentState.GONE for seed in facts.seeds)
    return exceeds(facts, thresholds) or (thresholds.asks_for_seeds and gone)


def question(facts: Facts) -> str:
    """Return the question in one sentence, with the number of removals and their cause."""
    every = facts.leaving + facts.staying
    return f"{facts.leaving:,} of {every:,} documents would be removed ({_percent(facts.share)}). {cause(facts)}"


def cause(facts: Facts) -> str:
    """Return the cause that most of the removals share, as a sentence."""
    top = max(facts.parents, key=lambda parent: parent.children, default=None)
    if top is not None and top.children > facts.leaving * _MOST_OF_IT:
        return f"{top.identifier} {_BECAME[top.state].format(code=top.code)}, and had named {top.children:,} of them."
    for state in (ParentState.GONE, ParentState.EMPTY, ParentState.REDIRECTS):
        seed = next((seed for seed in facts.seeds if seed.state == state), None)
        if seed is not None:
            return f"The seed {seed.identifier} {_BECAME[state].format(code=seed.code)}."
    if len(facts.parents) > 1:
        return f"{len(facts.parents):,} documents or more no longer name them."
    return "No document of this run names them. Were rules or seeds of the job changed?"


_BECAME = {
    ParentState.GONE: "is gone ({code})",
    ParentState.EMPTY: "came without links ({code})",
    ParentState.REDIRECTS: "redirects elsewhere",
    ParentState.CHANGED: "no longer names them",
}


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{share * 100:.1f} %"
