"""
Finds the references of a page's `href` values, usually with one look-up in a dictionary.

The crawl has met 97 % of its links before. The table holds the result for each address: a ready `Reference`, or
None if it is outside of the job. Ready references are values, shared by all pages that contain them. Fragments are
dropped first, so that all anchors of one document have one spelling.

Most links are written as their canonical address, with or without its origin, and are found by that address. The result
for any other spelling is stored by its context. A spelling that begins with http:// or https:// has no context, one
that begins with a slash has the origin, and all others have the page's directory. A spelling that begins with `?`
depends on the whole address, so it is parsed each time.

A refused address is not stored if its host may join the scope later, by the redirect of a seed.
If a table keeps rejected addresses, it returns each of them about once. This does not slow down known links.

The table is bounded: it has two generations of at most `capacity` addresses and spellings. When the younger generation
is full, the older one is dropped. Entries that are used move to the younger one.
"""

from collections.abc import Callable, Iterable
from typing import Final

from jobs.connectors.repository.base import Reference, hash_of
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical, directory_of, origin_of, without_parameters

# Characters that HTML strips from both ends of an address.
_BLANKS: Final = "".join(map(chr, range(0x21)))
# Longest spelling that is stored (characters). Longer ones are scripts and images in the page, and would fill the
# memory.
_LONGEST_KEPT: Final = 512
# An address that begins with a slash and one of these characters names a host next, such as `//example.org/`.
_SLASHES: Final = ("/", "\\")
# Largest number of refused addresses that are kept between two calls of `take_rejected`. Further addresses are dropped.
_MOST_REJECTED: Final = 1_000
# Largest size of the set of refused addresses that were returned. For most addresses, the table itself prevents a
# repetition.
_NOTED: Final = 4_096
_ABSENT: Final = Reference(hash="", identifier="", bin="")
# A refused address that may be admitted later.
_NOT_YET: Final = Reference(hash="", identifier="", bin="")

_Table = dict[str, Reference | None]


class LinkTable:
    """
    The links that one job has found. `admits` returns True for addresses in its scope.

    `is_near` returns True for addresses that the scope refuses for now, and may admit later. If it `keeps_rejected`,
    the user of the table takes the refused addresses (`take_rejected`). Links lose the `dropped` parameters.
    """

    def __init__(
        self,
        *,
        admits: Callable[[str], bool],
        is_near: Callable[[str], bool] = lambda _url: False,
        limits: Limits = DEFAULT_LIMITS,
        capacity: int = 65_536,
        keeps_rejected: bool = False,
        dropped: frozenset[str] = frozenset(),
    ) -> None:
        self._dropped = dropped
        self._admits = admits
        self._is_near = is_near
        self._limits = limits
        self._capacity = capacity
        self._young, self._old = _Generation(), _Generation()
        self._keeps_rejected = keeps_rejected
        self._rejected: list[str] = []
        # Refused addresses that `take_rejected` has returned, or will return next.
        self._noted: set[str] = set()

    def references(self, hrefs: Iterable[str], *, base: str) -> dict[str, Reference]:
        """
        Return the references of these spellings, by hash, each once.

        `base` is canonical. Invalid addresses and those outside of the scope are left out.
        """
        if self._young.size >= self._capacity:
            self._young, self._old = _Generation(), self._young
        addresses = self._young.addresses
        try:
            origin, directory = origin_of(base), directory_of(base)
        except ValueError:  # a base such as that of a file is not a web address: relative links have no target
            origin = directory = base
        found: dict[str, Reference] = {}
        for href in hrefs:
            if "#" in href:
                href = _without_fragment(href)  # noqa: PLW2901 - it is the same document
            is_rooted = href[:1] == "/" and href[1:2] not in _SLASHES
            address = origin + href if is_rooted else href
            reference = addresses.get(address, _ABSENT)
            if reference is _ABSENT:
                around = origin if href[:1] == "/" else "" if href.startswith(("http://", "https://")) else directory
                reference = self._look_up(href, address, base=base, around=around)
            if reference is not None and reference is not _NOT_YET:
                found[reference.hash] = reference
        return found

    def take_rejected(self) -> list[str]:
        """Return the addresses that were refused since the last call, each about once."""
        taken, self._rejected = self._rejected, []
        return taken

    def _look_up(self, href: str, address: str, *, base: str, around: str) -> Reference | None:
        """
        Return the reference of a spelling that is not in the younger generation.

        `around` is the part of the page's address on which the spelling depends. `address` is the canonical address if
        the spelling is canonical, with or without its origin.
        """
        if address in self._old.addresses:
            return self._at_address(address)
        if not href or href[0] in "?#" or href[0] <= " " or len(href) > _LONGEST_KEPT:
            return self._resolve_unkept(href.strip(_BLANKS), base=base)
        reference = self._young.spelling(around, href)
        if reference is not _ABSENT:
            return reference
        reference = self._old.spelling(around, href)
        if reference is _ABSENT:
            reference = self._resolve(href, base=base)
        if reference is not _NOT_YET and address not in self._young.addresses:
            self._young.keep_spelling(around, href, reference)
        return reference

    def _resolve_unkept(self, href: str, *, base: str) -> Reference | None:
        # The empty address and a fragment alone are this document itself.
        if not href or href[0] == "#":
            return None
        return self._resolve(href, base=base)

    def _resolve(self, href: str, *, base: str) -> Reference | None:
        try:
            url = canonical(href, base, limits=self._limits)
            return self._at_address(without_parameters(url, self._dropped))
        except BadUrl:
            return None

    def _at_address(self, url: str) -> Reference | None:
        reference = self._young.addresses.get(url, _ABSENT)
        if reference is _ABSENT:
            reference = self._old.addresses.get(url, _ABSENT)
            if reference is _ABSENT:
                if self._admits(url):
                    reference = Reference(hash_of(url), url, bin_of(url))
                else:
                    reference = _NOT_YET if self._is_near(url) else None
                    self._note(url)
            if reference is not _NOT_YET and len(url) <= _LONGEST_KEPT:
                self._young.keep_address(url, reference)
        return reference

    def _note(self, url: str) -> None:
        if not self._keeps_rejected or url in self._noted or len(self._rejected) >= _MOST_REJECTED:
            return
        if len(self._noted) >= _NOTED:
            self._noted.clear()
        self._noted.add(url)
        self._rejected.append(url)


class _Generation:
    """
    One of the two generations of a table: the results for canonical addresses, and for other spellings by their
    context.
    """

    def __init__(self) -> None:
        self.size = 0
        self.addresses: _Table = {}
        self.spellings: dict[str, _Table] = {}

    def keep_address(self, url: str, reference: Reference | None) -> None:
        self.addresses[url] = reference
        self.size += 1

    def spelling(self, around: str, href: str) -> Reference | None:
        """
        Return the reference of a spelling, which is None for a refused or invalid address; `_ABSENT` if it is unknown.
        """
        table = self.spellings.get(around)
        return _ABSENT if table is None else table.get(href, _ABSENT)

    def keep_spelling(self, around: str, href: str, reference: Reference | None) -> None:
        self.spellings.setdefault(around, {})[href] = reference
        self.size += 1


def _without_fragment(href: str) -> str:
    """
    Return the address without its fragment. If a blank precedes the fragment, return the address as it is, because the
    blank belongs to the path.
    """
    end = href.index("#")
    return href[:end] if end and href[end - 1] > " " else href
