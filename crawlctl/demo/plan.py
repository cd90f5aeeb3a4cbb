"""
The content of the synthetic site, computed from page numbers, without a file, a socket or a clock.

A *plan* is a value. Two processes that build it from the same arguments agree on every link and every status. So a test
can compare a crawl with the site itself, and not with a record of it. Nothing is stored for each page: a large site
needs no more memory than a small one.

Reachability. Page `p` links to the pages `2p + 1` and `2p + 2`, as in a binary heap, so every page has a path from page
0. All its other links are drawn from a power law over the *popular* pages, the first four fifths. The last fifth, the
*quiet* pages, are leaves of the heap to which only their parents link.

Revisions. A revision changes some pages and removes some quiet ones. Every second removed page answers 404 and is still
linked. The others answer as before, but their parent no longer links to them. Only quiet pages are removed: no other
page depends on them, and each removal changes only one parent.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from hashlib import shake_128
from heapq import nsmallest
from struct import Struct
from typing import NamedTuple, Self

FEWEST_LINKS, MOST_LINKS = 18, 50

# Divisor of the share of quiet pages: no revision can remove more than this share of the pages.
_QUIET_SHARE = 5

# Exponent in the formula of the power law. Page `n * u ** 3` for a uniform u gives a tenth of all links to the first
# thousandth of the pages. So most links that a crawler finds are duplicates, as on a real site.
_STEEPNESS = 3

# The random numbers of a page: eight for its own traits, and one for each link that it may have.
_DRAWS = Struct(f"<8H{MOST_LINKS}H")
_DRAW_VALUES = 1 << 16

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


class Trap(StrEnum):
    """A link that leads to no new document. The value is the first segment of its path."""

    REDIRECT = "redirect"  # 301 to a popular page
    MISSING = "missing"  # 404
    PRIVATE = "private"  # disallowed by robots.txt


@dataclass(frozen=True, kw_only=True)
class Revision:
    """The effect of a site's next revision. The shares are percentages of all its pages."""

    change: float = 0
    gone: float = 0
    broken: int | None = None  # this page answers 500 while the revision is the newest

    def __post_init__(self) -> None:
        if not 0 <= self.change <= 100:
            raise ValueError(f"change is {self.change:g} percent: only 0 to 100 is possible")
        if not 0 <= self.gone <= 100 / _QUIET_SHARE:
            raise ValueError(f"gone is {self.gone:g} percent: only 0 to {100 // _QUIET_SHARE} is possible")


class Changes(NamedTuple):
    """The pages that one revision changed or removed. Each page is in at most one of the sets."""

    changed: frozenset[int]  # other text, or one link less
    gone_404: frozenset[int]  # still linked
    gone_unlinked: frozenset[int]  # still answers 200


class Outline(NamedTuple):
    """The traits of a page that no revision alters."""

    children: Collection[int]
    popular: Collection[int]
    traps: Collection[Trap]
    redirect_target: int
    is_flaky: bool  # the first request for it is answered with 500
    text_start: float  # 0 to 1
    text_length: float  # 0 to 1


@dataclass(frozen=True, kw_only=True)
class SitePlan:
    """
    A site of `pages` pages. Page p is on `origins[p % len(origins)]`.

    Origins are written like "http://127.0.0.1:8000". `traps` is a percentage of the pages: as many link to a redirect,
    as many to a missing page, as many to a private page, and as many are flaky. `revisions` is the history of the site
    so far.
    """

    seed: int
    pages: int
    origins: tuple[str, ...]
    traps: float = 2
    revisions: tuple[Revision, ...] = ()

    def __post_init__(self) -> None:
        if self.pages < 1:
            raise ValueError(f"the site has {self.pages} pages: at least 1 is needed")
        if not self.origins:
            raise ValueError("the site has no origin: at least 1 is needed")
        if not 0 <= self.traps <= 100:
            raise ValueError(f"traps is {self.traps:g} percent: only 0 to 100 is possible")
        for broken in (revision.broken for revision in self.revisions):
            if broken is not None and not 0 <= broken < self.pages:
                raise ValueError(f"page {broken} cannot be broken: the pages are 0 to {self.pages - 1}")

    def at_revision(self, number: int, revision: Revision) -> Self:
        """Return this site with `revision` as its newest one. Its revisions from `number` on are dropped."""
        if not 1 <= number <= len(self.revisions) + 1:
            raise ValueError(
                f"the site is at revision {len(self.revisions)}: only 0 to {len(self.revisions) + 1} can be next"
            )
        return replace(self, revisions=(*self.revisions[: number - 1], revision))

    def before_revisions(self) -> Self:
        return replace(self, revisions=())

    # Addresses

    @property
    def start_url(self) -> str:
        return self.url(0)

    def url(self, page: int) -> str:
        return self.origins[page % len(self.origins)] + path_of(page)

    def urls(self, pages: Iterable[int]) -> frozenset[str]:
        return frozenset(map(self.url, pages))

    def trap_url(self, page: int, trap: Trap) -> str:
        """Return the address of one of the traps to which this page links. It is on the page's own host."""
        return f"{self.origins[page % len(self.origins)]}/{trap}/{page}"

    # Pages

    def outline(self, page: int) -> Outline:
        number = shake_128(b"%d page %d" % (self.seed, page)).digest(_DRAWS.size)
        links, start, length, flaky, redirect, missing, private, target, *popular = _DRAWS.unpack(number)
        share = self.traps / 100 * _DRAW_VALUES
        traps = [
            trap
            for trap, draw in ((Trap.REDIRECT, redirect), (Trap.MISSING, missing), (Trap.PRIVATE, private))
            if draw < share
        ]
        children = [child for child in (2 * page + 1, 2 * page + 2) if child < self.pages]
        count = FEWEST_LINKS + links * (MOST_LINKS - FEWEST_LINKS + 1) // _DRAW_VALUES
        quantiles = self._popular_pages
        return Outline(
            children=children,
            popular=[quantiles[draw] for draw in popular[: count - len(children) - len(traps)]],
            traps=traps,
            redirect_target=quantiles[target],
            # Never the start page: the pause before a retry would delay the whole crawl.
            is_flaky=page > 0 and flaky < share,
            text_start=start / _DRAW_VALUES,
            text_length=length / _DRAW_VALUES,
        )

    @cached_property
    def _popular_pages(self) -> list[int]:
        """Return the power law as a table from a draw to a page."""
        popular = self._first_quiet_page
        return [int(popular * (draw / _DRAW_VALUES) ** _STEEPNESS) for draw in range(_DRAW_VALUES)]

    @property
    def _first_quiet_page(self) -> int:
        return self.pages - self.pages // _QUIET_SHARE

    def linked_children(self, page: int, outline: Outline) -> Collection[int]:
        """Return the children to which the page still links."""
        if not self._unlinked:
            return outline.children
        return [child for child in outline.children if child not in self._unlinked]

    def is_gone(self, page: int) -> bool:
        """True if the page answers 404."""
        return page in self._gone

    @property
    def broken(self) -> int | None:
        """Return the page that answers 500 now."""
        return self.revisions[-1].broken if self.revisions else None

    def modified_in(self, page: int) -> int:
        """Return the number of the last revision that changed the page's body, 0 without such a revision."""
        return self._modified_in.get(page, 0)

    def stamp(self, revision: int) -> int:
        """Return a number that differs between sites and between histories up to this revision, for ETags."""
        return self._stamps[revision]

    @cached_property
    def _stamps(self) -> list[int]:
        site = (self.seed, self.pages, self.origins, self.traps)
        return [zlib.crc32(repr((site, self.revisions[:number])).encode()) for number in range(len(self.revisions) + 1)]

    # Sets of pages

    def documents(self) -> frozenset[int]:
        """
        Return the pages that an up-to-date index of the site contains.

        A page that answers 500 right now is included, with the pages to which it links: a crawl that holds it keeps its
        last version.
        """
        return frozenset(range(self.pages)) - self._gone - self._unlinked

    def only_parents(self) -> range:
        """Return the pages that alone link to their two children."""
        first, last = self._first_quiet_page, self.pages - 1
        return range(first // 2, (last - 2) // 2 + 1)

    @cached_property
    def changes(self) -> tuple[Changes, ...]:
        """Return the changes of each revision, oldest first."""
        made: list[Changes] = []
        gone: frozenset[int] = frozenset()
        for number, revision in enumerate(self.revisions, 1):
            changes = self._apply(number, revision, already_gone=gone)
            gone |= changes.gone_404 | changes.gone_unlinked
            made.append(changes)
        return tuple(made)

    @cached_property
    def _gone(self) -> frozenset[int]:
        return frozenset().union(*(changes.gone_404 for changes in self.changes))

    @cached_property
    def _unlinked(self) -> frozenset[int]:
        return frozenset().union(*(changes.gone_unlinked for changes in self.changes))

    @cached_property
    def _modified_in(self) -> Mapping[int, int]:
        return {page: number for number, changes in enumerate(self.changes, 1) for page in changes.changed}

    def _apply(self, number: int, revision: Revision, *, already_gone: Collection[int]) -> Changes:
        def share_of_pages(percent: float) -> int:
            return round(self.pages * percent / 100)

        # A crawler cannot see a change of a broken page, neither of its text nor of its links. So a revision neither
        # changes nor removes the broken page, and takes no link from it.
        shuffled = self._shuffle(number)
        may_go = [
            page
            for page in range(self._first_quiet_page, self.pages)
            if page not in already_gone and page != revision.broken and _parent(page) != revision.broken
        ]
        gone = nsmallest(_checked_count(may_go, share_of_pages(revision.gone), "let go"), may_go, key=shuffled)
        gone_404, gone_unlinked = frozenset(gone[::2]), frozenset(gone[1::2])
        one_link_less = frozenset(map(_parent, gone_unlinked))

        untouchable = {revision.broken, *already_gone, *gone, *one_link_less}
        may_change = [page for page in range(self.pages) if page not in untouchable]
        changed = nsmallest(
            _checked_count(may_change, share_of_pages(revision.change), "changed"), may_change, key=shuffled
        )
        return Changes(one_link_less.union(changed), gone_404, gone_unlinked)

    def _shuffle(self, number: int) -> Callable[[int], bytes]:
        def key(page: int) -> bytes:
            return shake_128(b"%d revision %d page %d" % (self.seed, number, page)).digest(8)

        return key


def path_of(page: int) -> str:
    return f"/p/{page}.html" if page else "/"


def word_of(page: int) -> str:
    """
    Return the word that appears on this page and on no other.

    It ends in an x, which no stemmer removes, so that two words never become one in a search index.
    """
    digits = ""
    while True:
        page, digit = divmod(page, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
        if not page:
            return f"word{digits}x"


def _parent(page: int) -> int:
    return (page - 1) // 2


def _checked_count(candidates: Collection[int], count: int, verb: str) -> int:
    if count > len(candidates):
        raise ValueError(f"{count} pages cannot be {verb}: only {len(candidates)} are left for that")
    return count
