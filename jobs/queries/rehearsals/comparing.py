"""
Comparison of the documents of a job with other rules. No I/O.

A key is the hash of an identifier, in 16 bytes. A rehearsal holds a key for each document of the job.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import Rules

EXAMPLES: Final = 20
# Largest number of reasons of one kind that are counted separately. A job may have thousands of patterns.
_REASONS: Final = 100
# The type of links that are redirects.
REDIRECT: Final = "redirect"
# The reason of all documents that leave because links have another form of their addresses.
RENAMED: Final = "links name another form of the address"


class Known(NamedTuple):
    """
    A document of the job, in a lane. `is_held` is True if an output may hold the document.

    If `is_beyond`, the document is outside the hop limits, and the job knows only its identifier.
    """

    key: bytes
    identifier: str
    lane: int
    is_held: bool = True
    is_beyond: bool = False


# A lane, and True if an output may hold the document.
Place = tuple[int, bool]


class Links(NamedTuple):
    """The keys to which some documents link, or to which some documents redirect."""

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


class NewForm(NamedTuple):
    """
    The new identifier that links name instead of the identifiers of some documents. `source` is one of these documents.
    """

    identifier: str
    source: bytes


@dataclass(slots=True)
class Sorted:
    """
    The documents of a job, sorted by its rules: `admitted` ones with their places, and `refused` ones by their reason.

    Admitted documents that the job does not read at present because of its hop limits are also in `beyond`, and no
    number counts them. `renamed` has, for the key of a document, the key that links name instead.

    `new_forms` are the new keys that no document has. `lost` counts the refused documents by their places, and
    `refused_keys` has their keys.
    """

    admitted: dict[bytes, Place] = field(default_factory=dict)
    beyond: set[bytes] = field(default_factory=set)
    refused: dict[str, Group] = field(default_factory=dict)
    refused_keys: list[bytes] = field(default_factory=list)
    renamed: dict[bytes, bytes] = field(default_factory=dict)
    new_forms: dict[bytes, NewForm] = field(default_factory=dict)
    lost: Counter[Place] = field(default_factory=Counter)

    @property
    def documents(self) -> int:
        return len(self.admitted) - len(self.beyond) + len(self.refused_keys)

    @property
    def possible(self) -> Set[bytes]:
        """Return the keys of all documents to which links may lead."""
        return self.admitted.keys() | self.new_forms.keys() if self.new_forms else self.admitted.keys()

    def places_of(self, keys: Iterable[bytes]) -> Counter[Place]:
        """Return the numbers of these admitted documents by place."""
        return Counter(map(self.admitted.__getitem__, keys))

    def all_places(self) -> Counter[Place]:
        """Return the numbers of all counted documents by place."""
        found = Counter(self.admitted.values())
        found.subtract(self.places_of(self.beyond))
        found.update(self.lost)
        return found


@dataclass(frozen=True, slots=True)
class Reached:
    """
    The documents to which links lead from the seeds: all except the `left_out` ones. Documents of `at_the_end` are as far
    from the seeds as the rules allow, so their links are not followed.
    """

    left_out: set[bytes] = field(default_factory=set)
    at_the_end: Set[bytes] = frozenset()


def sort_documents(documents: Iterable[Known], rules: Rules) -> Sorted:
    """Return the documents, sorted by the rules."""
    found = Sorted()
    why_not, link_to, admitted = rules.why_not, rules.link_to, found.admitted
    places: dict[Place, Place] = {}
    for key, identifier, lane, is_held, is_beyond in documents:
        why = why_not(identifier)
        if (named := link_to(identifier)) != identifier:
            found.renamed[key] = new = key_of(named)
            if why_not(named) is None:
                found.new_forms.setdefault(new, NewForm(named, key))
            why = why and RENAMED
        if why is None:
            place = (lane, is_held)
            # All documents of a place share one object, to save memory.
            admitted[key] = places.setdefault(place, place)
            if is_beyond:
                found.beyond.add(key)
        elif not is_beyond:
            found.refused_keys.append(key)
            found.lost[lane, is_held] += 1
            _group_of(found.refused, why).add(identifier)
    for key in found.new_forms.keys() & admitted.keys():
        del found.new_forms[key]
    return found


def key_of(identifier: str) -> bytes:
    return bytes.fromhex(hash_of(identifier))


def within_limits(
    seeds: Set[bytes], documents: Sorted, links_of: LinksOf, reached: Set[bytes], hop_limits: Mapping[str, int]
) -> Set[bytes]:
    """
    Return the `reached` documents that are within each of the `hop_limits`, which have a number by the type of the
    counted links.

    A document beyond a limit is not read, so its links do not count for another limit either.
    """
    while True:
        within = reached
        for link_type, most in hop_limits.items():
            counts_redirects = link_type == REDIRECT
            walk = follow_links(
                seeds, documents, links_of, max_depth=most, among=reached, counts_redirects=counts_redirects
            )
            # A new set each time, so that the caller's set does not change.
            within = within - walk.left_out
        # A shortest path within one limit leads over documents within it, so one walk is enough for one limit.
        if len(hop_limits) < 2 or len(within) == len(reached):
            return within
        reached = within


def follow_links(
    seeds: Set[bytes],
    documents: Sorted,
    links_of: LinksOf,
    *,
    max_depth: int | None,
    among: Iterable[bytes],
    counts_redirects: bool = False,
) -> Reached:
    """
    Return the documents to which links lead from the seeds, each by the shortest path. Documents of `among` that no
    link reaches are in `left_out`.

    Only links to the keys in `among` are followed: keys of admitted documents and of new forms. A new form has the
    links of its source. The length of a path is its number of links that are no redirects; with `counts_redirects`, its
    number of redirects.
    """
    new_forms, renamed = documents.new_forms, documents.renamed

    def read_links(keys: Set[bytes]) -> Iterator[Links]:
        found = links_of({new_forms[key].source if key in new_forms else key for key in keys} if new_forms else keys)
        if not renamed:
            return found
        # Links to a renamed document lead to the key that they name now.
        return (Links([renamed.get(key, key) for key in targets], is_redirect) for targets, is_redirect in found)

    # Most links lead to documents that were reached before. It is fastest to look for these in a set that shrinks.
    unreached = set(among)
    frontier = seeds & unreached
    unreached -= frontier
    depth = 0
    while frontier and unreached:
        is_the_end = depth == max_depth
        level, following = set(frontier if is_the_end else ()), set[bytes]()
        while frontier:
            as_far = set[bytes]()
            for targets, is_redirect in read_links(frontier):
                if is_redirect == counts_redirects:
                    found = unreached.intersection(targets)
                    following |= found
                else:
                    # The target of a link that does not count is as far from the seeds as its source.
                    all_targets = set(targets)
                    found = unreached & all_targets
                    as_far |= found
                    as_far |= following & all_targets
                    following -= all_targets
                unreached -= found
            frontier = as_far
            if is_the_end:
                level |= as_far
        if is_the_end:
            return Reached(unreached | following, level)
        frontier = following
        depth += 1
    return Reached(unreached, frontier if depth == max_depth else frozenset())


def find_arrivals(
    sample: Iterable[Rejected], rules: Rules, *, known: Callable[[bytes], bool], leads_on: Callable[[bytes], bool]
) -> list[Rejected]:
    """
    Return the rejected addresses that the rules admit now, as links name them, each once.

    An address is left out if it is a `known` document, or if the links of the page that names it are not followed
    (`leads_on`).
    """
    found: dict[bytes, Rejected] = {}
    for one in sample:
        named = rules.link_to(one.identifier)
        key = one.key if named == one.identifier else key_of(named)
        if not known(key) and leads_on(one.found_on) and rules.why_not(named) is None:
            found.setdefault(key, Rejected(key, named, one.found_on))
    return list(found.values())


def _group_of(groups: dict[str, Group], why: str) -> Group:
    """Return the group of a reason; above the limit, all further reasons share one group."""
    if why not in groups and len(groups) >= _REASONS:
        why = "further rules"
    return groups.setdefault(why, Group())
