"""
From what a page writes in `href` to the documents it names, at the cost of a dictionary look-up.

Of the links of a crawl 97 % have been met before, spelled the same way from the same place. The table
keeps what became of each spelling: a ready `Reference`, or None where the address is bad or outside
of the job. Ready references are values and shared between all pages that name them. Fragments are
dropped first, so that all places of one document are one spelling.

What a spelling means depends on the page only as far as it must: not at all for one that begins with
http:// or https://, on the origin for one that begins with a slash, else on the page's directory. One
that begins with `?` depends on the whole address, so it is not kept.

The table is bounded: it is two generations of at most `capacity` spellings, of which the older is
dropped when the younger is full. A spelling in use moves to the younger.
"""

from collections.abc import Callable, Iterable
from typing import Final

from jobs.connectors.repository.base import Reference, hash_of
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical, directory_of, origin_of

# What HTML strips from both ends of an address.
_BLANKS: Final = "".join(map(chr, range(0x21)))
# Longer ones are scripts and pictures within the page; they would fill the memory as keys.
_LONGEST_KEPT: Final = 512
_ABSENT: Final = Reference(hash="", identifier="", bin="", depth=0, redirects=0)

_Table = dict[str, Reference | None]


class LinkTable:
    """The spellings of links that one job has met. `admits` is its scope."""

    def __init__(
        self, *, admits: Callable[[str], bool], limits: Limits = DEFAULT_LIMITS, capacity: int = 32_768
    ) -> None:
        self._admits = admits
        self._limits = limits
        self._capacity = capacity
        self._young: dict[str, _Table] = {}
        self._old: dict[str, _Table] = {}
        # Of those that were met at other depths before: the same document, by depth and hash.
        self._at_depths: dict[int, dict[str, Reference]] = {}
        self._size = 0

    def references(self, hrefs: Iterable[str], *, base: str, depth: int) -> dict[str, Reference]:
        """
        The documents that these spellings name, by hash, each once and with this depth.

        `base` is canonical or at least absolute; what is bad or outside of the scope is left out.
        """
        self._rotate_if_full()
        anywhere, at_origin, in_directory = self._tables_of(base)
        nearby = self._at_depths.setdefault(depth, {})
        found: dict[str, Reference] = {}
        for href in hrefs:
            if "#" in href:
                href = _without_fragment(href)  # noqa: PLW2901 - the same document is meant
            if not href or href[0] in "?#" or href[0] <= " " or len(href) > _LONGEST_KEPT:
                reference = self._resolve_unkept(href.strip(_BLANKS), base=base, depth=depth)
            else:
                if href[0] == "/":
                    key, table = at_origin
                elif href.startswith(("http://", "https://")):
                    key, table = anywhere
                else:
                    key, table = in_directory
                reference = table.get(href, _ABSENT)
                if reference is _ABSENT:
                    reference = table[href] = self._recall_or_resolve(key, href, base=base, depth=depth)
                    self._size += 1
                if reference is not None and reference.depth != depth:
                    reference = nearby.get(reference.hash) or self._at_depth(reference, depth)
            if reference is not None:
                found[reference.hash] = reference
        return found

    def _tables_of(self, base: str) -> tuple[tuple[str, _Table], ...]:
        try:
            keys = ("", origin_of(base), directory_of(base))
        except ValueError:  # a base that is no web address: nothing relative leads anywhere
            keys = ("", base, base)
        # Origin and directory of a front page are written alike, and so must not share a key.
        keys = (keys[0], f"origin {keys[1]}", keys[2])
        return tuple((key, self._young.setdefault(key, {})) for key in keys)

    def _recall_or_resolve(self, key: str, href: str, *, base: str, depth: int) -> Reference | None:
        older = self._old.get(key)
        if older is not None and href in older:
            return older[href]
        return self._resolve(href, base=base, depth=depth)

    def _resolve_unkept(self, href: str, *, base: str, depth: int) -> Reference | None:
        # The empty address and a mere fragment are this document itself.
        if not href or href[0] == "#":
            return None
        return self._resolve(href, base=base, depth=depth)

    def _resolve(self, href: str, *, base: str, depth: int) -> Reference | None:
        try:
            url = canonical(href, base, limits=self._limits)
        except BadUrl:
            return None
        if not self._admits(url):
            return None
        return Reference(hash=hash_of(url), identifier=url, bin=bin_of(url), depth=depth, redirects=0)

    def _at_depth(self, reference: Reference, depth: int) -> Reference:
        deeper = Reference(
            hash=reference.hash, identifier=reference.identifier, bin=reference.bin, depth=depth, redirects=0
        )
        self._at_depths[depth][reference.hash] = deeper
        self._size += 1
        return deeper

    def _rotate_if_full(self) -> None:
        if self._size >= self._capacity:
            self._old, self._young, self._size = self._young, {}, 0
            self._at_depths.clear()


def _without_fragment(href: str) -> str:
    """The address without its fragment, unless a blank comes before it: that is part of the path until then."""
    end = href.index("#")
    return href[:end] if end and href[end - 1] > " " else href
