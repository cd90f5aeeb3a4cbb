"""The value types of connections for the service, and pure functions that plan the questions of a request."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs.connectors.authority.kind import Access, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class MapperFacts:
    """A connection to a mapper. `prerequisite` is the id of the mapper that is asked before this one."""

    id: int
    name: str
    kind: str
    configuration: Mapping[str, Any]
    limits: Limits
    prerequisite: int | None = None
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityFacts:
    """A connection to an authority. `prerequisite` is the id of a mapper."""

    id: int
    name: str
    kind: str
    configuration: Mapping[str, Any]
    limits: Limits
    group: str
    domain: str = ""
    prerequisite: int | None = None
    is_silent: bool = False


Facts = AuthorityFacts | MapperFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """
    All connections at one moment, with the mark of the last change. The mark is None before the first change.

    `callers` are the names and the moments of expiry (seconds since 1970, or None) of service tokens, by their digests.
    """

    generation: UUID | None
    authorities: Sequence[AuthorityFacts] = ()
    mappers: Mapping[int, MapperFacts] = field(default_factory=dict)
    callers: Mapping[str, tuple[str, float | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """
    The answer of one authority. `user` is the name about which it was asked; None if a mapper found no name for the
    user.

    `seconds` is the time until the answer. `is_kept` is True if the answer was in the cache.
    """

    authority: AuthorityFacts
    user: str | None
    access: Access
    seconds: float
    is_kept: bool = False


class Cycle(ValueError):
    """
    Mappers need each other in a circle. `names` has the mappers of the circle. The last name repeats the first one.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        super().__init__(" → ".join(names))


def questions(snapshot: Snapshot, users: Mapping[str, str]) -> Iterator[tuple[AuthorityFacts, str]]:
    """
    Yield the authorities of the given domains, each with the user of its domain.

    A domain belongs to the authorities that have it in exactly this spelling. If there is none, the case of letters
    does not matter, as in DNS: EXAMPLE.ORG belongs to an authority of example.org. So authorities whose domains differ
    only in case can be told apart.
    """
    exact = {authority.domain for authority in snapshot.authorities}
    others = {domain.lower(): user for domain, user in users.items() if domain not in exact}
    for authority in snapshot.authorities:
        user = users.get(authority.domain, others.get(authority.domain.lower()))
        if user is not None:
            yield authority, user


def chain(mappers: Mapping[int, MapperFacts], last: int | None) -> list[MapperFacts]:
    """
    Return the mappers before an authority, in the order in which they are asked.

    Raises:
        Cycle: the mappers need each other. Verbs refuse to store such mappers.
    """
    found: list[MapperFacts] = []
    while last is not None:
        mapper = mappers[last]
        if mapper in found:
            raise Cycle([one.name for one in (*found[found.index(mapper) :], mapper)])
        found.append(mapper)
        last = mapper.prerequisite
    return found[::-1]


def find_cycle(prerequisites: Iterable[tuple[str, str | None]], *, start: str) -> list[str]:
    """Return the names of the mappers in the circle of prerequisites that contains `start`; empty without a circle."""
    after = dict(prerequisites)
    names, name = [start], after.get(start)
    while name is not None and name not in names:
        names.append(name)
        name = after.get(name)
    return [*names, start] if name == start else []
