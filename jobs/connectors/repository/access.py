"""
The access of a document: which tokens may see it, in levels.

Each level has tokens that allow and tokens that deny. A user sees a document if every level admits one of its tokens
and denies none. A level without tokens admits all users. Connectors report the tokens of their source by the names that
its authorities use. The job adds the name of the authority group to each token (`scope_token`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, Protocol, Self

from jobs.connectors.authority.kind import DENY_TOKEN


@dataclass(frozen=True, slots=True)
class Level:
    """One level of an access: the tokens that it allows and the tokens that it denies, sorted, each once."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow", tuple(sorted(set(self.allow))))
        object.__setattr__(self, "deny", tuple(sorted(set(self.deny))))

    @property
    def is_open(self) -> bool:
        return not self.allow and not self.deny

    def as_json(self) -> dict[str, list[str]]:
        return {"allow": list(self.allow), "deny": list(self.deny)}

    def admits(self, tokens: Set[str]) -> bool:
        """True if this level admits a user with these tokens. A token that denies takes precedence."""
        return self.is_open or (not tokens.isdisjoint(self.allow) and tokens.isdisjoint(self.deny))


NO_TOKENS: Final = Level()


@dataclass(frozen=True, slots=True)
class Access:
    """
    The levels of one document. `parents` has the levels of the folders, or similar containers, above the document, in
    order. Open levels are left out.

    Two values are equal if they admit the same users by equal tokens.
    """

    document: Level = NO_TOKENS
    parents: tuple[Level, ...] = field(default=())
    share: Level = NO_TOKENS

    def __post_init__(self) -> None:
        protected = dict.fromkeys(level for level in self.parents if not level.is_open)
        object.__setattr__(self, "parents", tuple(protected))

    @property
    def is_open(self) -> bool:
        """True if every user may see the document."""
        return self.document.is_open and not self.parents and self.share.is_open

    @property
    def levels(self) -> tuple[tuple[str, Level], ...]:
        """Return the protected levels with their names."""
        named = (("document", self.document), *(("parent", level) for level in self.parents), ("share", self.share))
        return tuple((name, level) for name, level in named if not level.is_open)

    @property
    def text(self) -> str:
        """Return the one text of this value, for fingerprints; "" if it is open."""
        return "" if self.is_open else json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """Return 32 hex digits that distinguish this value from any other."""
        return blake2b(self.text.encode(), digest_size=16).hexdigest()

    def admits(self, tokens: Set[str]) -> bool:
        """True if a user with these tokens may see the document."""
        return all(level.admits(tokens) for _, level in self.levels)

    def scoped(self, group: str) -> Self:
        """
        Return this access with the name of an authority group added to each token. Each protected level also denies the
        deny token of the group.

        If the group is "", no user has any of the tokens.
        """
        return replace(
            self,
            document=_scoped(self.document, group),
            parents=tuple(_scoped(level, group) for level in self.parents),
            share=_scoped(self.share, group),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the protected levels: `document`, `parents`, `share`, each with `allow` and `deny`."""
        shown: dict[str, Any] = {}
        if not self.document.is_open:
            shown["document"] = self.document.as_json()
        if self.parents:
            shown["parents"] = [level.as_json() for level in self.parents]
        if not self.share.is_open:
            shown["share"] = self.share.as_json()
        return shown

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the access that `as_json` wrote."""
        return cls(
            document=_level(stored.get("document", {})),
            parents=tuple(map(_level, stored.get("parents", ()))),
            share=_level(stored.get("share", {})),
        )

    @classmethod
    def from_levels(cls, levels: Iterable[tuple[str, Iterable[str], Iterable[str]]]) -> Self:
        """Return the access of named levels, each with the tokens that it allows and denies."""
        read = [(name, Level(tuple(allow), tuple(deny))) for name, allow, deny in levels]
        by_name = dict(read)
        return cls(
            document=by_name.get("document", NO_TOKENS),
            parents=tuple(level for name, level in read if name == "parent"),
            share=by_name.get("share", NO_TOKENS),
        )


# The access of a document that every user may see.
OPEN: Final = Access()


class Identifiers(Protocol):
    """A compiled pattern that is searched for in identifiers."""

    def search(self, text: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class JobAccess:
    """
    The access of a job's documents: the authority group of its repository, and its rules.

    `group` is "" if the repository has no authority group. Then no user can see protected documents.
    """

    group: str = ""
    rules: Sequence[tuple[Identifiers, Access]] = field(default=())

    def of(self, identifier: str, said: Access) -> Access:
        """
        Return the access of a document by the first rule that matches it; without such a rule, the access that its
        source `said`.
        """
        found = next((access for pattern, access in self.rules if pattern.search(identifier)), said)
        return found if found.is_open else found.scoped(self.group)


NO_RULES: Final = JobAccess()


def scope_token(group: str, token: str) -> str:
    """
    Return a token with its group: `group:token`.

    A colon in the name of a group is escaped, so no token of one group equals a token of another.
    """
    escaped = group.replace("%", "%25").replace(":", "%3A")
    return _storable(f"{escaped}:{token}")


def _scoped(level: Level, group: str) -> Level:
    if level.is_open:
        return level
    return Level(
        tuple(scope_token(group, token) for token in level.allow),
        tuple(scope_token(group, token) for token in (*level.deny, DENY_TOKEN)),
    )


def _level(stored: Mapping[str, Any]) -> Level:
    return Level(tuple(stored.get("allow", ())), tuple(stored.get("deny", ())))


def _storable(token: str) -> str:
    """Return a token that a database can store. Zero bytes and half surrogate pairs are escaped."""
    return token.encode(errors="backslashreplace").decode().replace("\0", "\\0")
