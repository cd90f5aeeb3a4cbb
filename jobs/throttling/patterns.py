"""
Patterns of bins' names, such as `*.example.com`. No I/O.

`*` stands for any number of any characters, everything else for itself; letters match in either case. The empty
pattern matches every name. `*.example.com` does not match `example.com`, and neither matches
`example.com:8080`: a port that is not the scheme's own is part of the name.

A name is held against many patterns at a time: exact names and `*.` before a name, of which most lists
consist, are looked up; only the others are tried one by one, each in time linear in the name.
"""

from collections.abc import Iterable, Iterator
from typing import Final

_ANY: Final = "*"


def matches(pattern: str, name: str) -> bool:
    """Whether the bin of this name is meant."""
    return _is_everything(pattern) or _matches(pattern.lower(), name.lower())


class Patterns:
    """Patterns in an order, to be asked for those that match a name."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._looked_up: dict[str, list[int]] = {}
        self._tried: list[tuple[int, str]] = []
        for place, given in enumerate(patterns):
            pattern = given.lower()
            if _is_everything(pattern) or _ANY in pattern.removeprefix("*."):
                self._tried.append((place, pattern))
            else:
                self._looked_up.setdefault(pattern, []).append(place)

    def places_of(self, name: str) -> list[int]:
        """The places of all patterns that match this name, in their order."""
        lowered = name.lower()
        found = [place for place, pattern in self._tried if _is_everything(pattern) or _matches(pattern, lowered)]
        if self._looked_up:
            for key in _keys(lowered):
                found += self._looked_up.get(key, ())
            found.sort()
        return found


def _is_everything(pattern: str) -> bool:
    return not pattern.strip(_ANY)


def _keys(name: str) -> Iterator[str]:
    """The patterns without a `*`, or with one before their first dot only, that match a name."""
    yield name
    dot = name.find(".")
    while dot != -1:
        yield f"*{name[dot:]}"
        dot = name.find(".", dot + 1)


def _matches(pattern: str, name: str) -> bool:
    first, *others = pattern.split(_ANY)
    if not others:
        return name == first
    *middle, last = others
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    # Each piece at its first place leaves most room for those behind it, so nothing is tried twice.
    begin, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, begin, end)
        if found == -1:
            return False
        begin = found + len(piece)
    return True
