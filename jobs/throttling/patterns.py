"""
Patterns of bins' names, such as `*.example.com`. No I/O.

`*` matches any number of any characters. All other characters match themselves. Case is ignored. The empty pattern
matches every name. `*.example.com` does not match `example.com`, and neither matches `example.com:8080`: a port that is
not the scheme's own is part of the name.

A name is compared with many patterns. Most patterns are exact names, or `*.` and a name, and are found by a look-up.
Only other patterns are tried one by one, each in time linear in the name.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_ANY: Final = "*"
# The suffix of a pattern that matches a host at every port except the default port of its scheme.
EVERY_PORT: Final = ":*"
_HAS_PORT: Final = re.compile(r":[^\]:]*$")


def matches(pattern: str, name: str) -> bool:
    """True if the pattern matches this name."""
    return _is_everything(pattern) or _matches(pattern.lower(), name.lower())


def patterns_of(pattern: str) -> list[str]:
    """Return the patterns that an entered pattern stands for. Without a port, it stands for its hosts at every port."""
    if pattern.endswith("*") or "/" in pattern or _HAS_PORT.search(pattern):
        return [pattern]
    return [pattern, pattern + EVERY_PORT]


class Patterns:
    """An ordered list of patterns, with a search for the matches of a name."""

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
        """Return the indices of all patterns that match this name, in their order."""
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
    """
    Yield the simple patterns that match a name: the name itself, and patterns whose only `*` stands for the labels
    before a dot.
    """
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
    # Take the first match of each part: it leaves most room for the parts after it, so no other match has to be tried.
    begin, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, begin, end)
        if found == -1:
            return False
        begin = found + len(piece)
    return True
