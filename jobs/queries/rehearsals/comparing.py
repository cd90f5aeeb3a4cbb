"""
Comparison of the documents of a job with other rules. No I/O.

A key is the hash of an identifier, in 16 bytes: a rehearsal holds one for each document of the job.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobs.connectors.repository.kind import Rules

EXAMPLES: Final = 20
# Reasons of one kind that are told apart. A job may have thousands of patterns.
_REASONS: Final = 100


class Known(NamedTuple):
    """A document of the job, in a lane; `is_held` if an output may hold it."""

    key: bytes
    identifier: str
    lane: int
    is_held: bool = True


class Links(NamedTuple):
    """The links of a document, which are one target if it redirects."""

    targets: Iterable[bytes]
    is_redirect: bool


class Rejected(NamedTuple):
    """An address that the rules refused when `found_on` linked to it."""

    key: bytes
    identifier: str
    found_on: bytes


# Returns the links of these documents.
LinksOf = Callable[[Set[bytes]], Iterator[Links]]


@dataclass(slots=True)
class Group:
    """A number of documents, and the first of their identifiers."""

    number: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, identifier: str) -> None:
        self.number += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(identifier)


@dataclass(slots=True)
class Sorted:
    """
    The documents of a job, sorted by its rules: `admitted` ones, and `refused` ones by their reason.

    `of_lanes` counts all documents, and `lost` the refused ones, by lane; `held_of_lanes` and `held_lost` only
    documents that an output may hold. `refused_keys` are the keys of the refused ones.
    """

    admitted: set[bytes] = field(default_factory=set)
    refused: dict[str, Group] = field(default_factory=dict)
    refused_keys: list[bytes] = field(default_factory=list)
    of_lanes: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)
    held_of_lanes: Counter[int] = field(default_factory=Counter)
    held_lost: Counter[int] = field(default_factory=Counter)

    @property
    def documents(self) -> int:
        return len(self.admitted) + len(self.refused_keys)


@dataclass(frozen=True, slots=True)
class Reached:
    """
    The documents to which links lead from the seeds. Documents of `at_the_end` are as far from the seeds as the rules
    allow, so their links are not followed.
    """

    documents: set[bytes]
    at_the_end: set[bytes]


def sort_documents(documents: Iterable[Known], rules: Rules) -> Sorted:
    """Return the documents, sorted by the rules."""
    found = Sorted()
    why_not, admit, of_lanes, held = rules.why_not, found.admitted.add, found.of_lanes, found.held_of_lanes
    for key, identifier, lane, is_held in documents:
        of_lanes[lane] += 1
        held[lane] += is_held
        why = why_not(identifier)
        if why is None:
            admit(key)
            continue
        found.refused_keys.append(key)
        found.lost[lane] += 1
        found.held_lost[lane] += is_held
        _group_of(found.refused, why).add(identifier)
    return found


def follow_links(seeds: Set[bytes], admitted: Set[bytes], links_of: LinksOf, *, max_depth: int | None) -> Reached:
    """Return the admitted documents to which links lead from the seeds, each by the shortest path."""
    frontier = set(seeds & admitted)
    reached = set(frontier)
    depth = 0
    while frontier:
        is_the_end = max_depth is not None and depth >= max_depth
        level, following = set(frontier), set[bytes]()
        while frontier:
            redirected = set[bytes]()
            for links in links_of(frontier):
                # The target of a redirect is as far from the seeds as its source.
                (redirected if links.is_redirect else following).update(links.targets)
            redirected &= admitted
            redirected -= reached
            reached |= redirected
            level |= redirected
            frontier = redirected
        if is_the_end:
            return Reached(reached, level)
        following &= admitted
        following -= reached
        reached |= following
        frontier = following
        depth += 1
    return Reached(reached, set())


def find_arrivals(
    sample: Iterable[Rejected], rules: Rules, *, known: Callable[[bytes], bool], leads_on: Callable[[bytes], bool]
) -> list[Rejected]:
    """
    Return the rejected addresses that the rules admit now.

    They are left out if they are `known` documents, or if the links of their page are not followed (`leads_on`).
    """
    return [
        one for one in sample if not known(one.key) and leads_on(one.found_on) and rules.why_not(one.identifier) is None
    ]


def _group_of(groups: dict[str, Group], why: str) -> Group:
    """Return the group of a reason; above the limit, all further reasons have one together."""
    if why not in groups and len(groups) >= _REASONS:
        why = "further rules"
    return groups.setdefault(why, Group())
