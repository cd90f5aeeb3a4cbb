"""The bytes of the synthetic site: HTML pages of 8 to 19 KB, and robots.txt."""

from functools import lru_cache
from hashlib import shake_128

from crawlctl.demo.plan import Outline, SitePlan, path_of, word_of

_TEXT = (
    "harbour lantern meadow river stone copper orchard window winter garden bridge market letter "
    "kitchen mountain candle paper village station morning evening forest island journey ladder mirror "
    "needle ocean pepper quarry railway shelter thunder valley weather anchor basket cottage dolphin "
    "engine falcon glacier hammer ivory jacket kettle library magnet novel olive pocket ribbon saddle "
    "the the of of and and to to in in a a is was for with on by from at are be this that which"
)
_WORDS = _TEXT.split()

_PARAGRAPHS = 128
_WORDS_IN_A_PARAGRAPH = 48

# Fewest and most paragraphs on one page. With 18 to 50 links of 70 bytes they make 8 to 19 KB.
_SHORTEST_TEXT, _LONGEST_TEXT = 23, 51

# Number of links in the cache: far more than a page has, and far fewer than a million. Most links go to a few popular
# pages.
_LINKS_KEPT = 1 << 16


# Links in the navigation, in the text (relative if possible), and in the aside (with a fragment).
_IN_NAV = b'<li><a href="%s">Page %d</a></li>\n'
_IN_TEXT = b'<a href="%s">page %d</a>,\n'
_IN_ASIDE = b'<li><a href="%s#notes">Notes on page %d</a></li>\n'


class PageWriter:
    """Computes the pages of one plan. No page is stored: each request computes it again."""

    def __init__(self, plan: SitePlan) -> None:
        self._plan = plan
        self._hosts = len(plan.origins)
        self._paragraphs, self._offsets = _write_paragraphs(plan.seed)
        self._link = lru_cache(maxsize=_LINKS_KEPT)(self._write_link)

    def page(self, page: int, outline: Outline) -> bytes:
        children = self._plan.linked_children(page, outline)
        links = [*children, *outline.popular]
        host, hosts, link = page % self._hosts, self._hosts, self._link
        third = len(links) // 3
        start = self._offsets[int(outline.text_start * _PARAGRAPHS)]
        paragraphs = _SHORTEST_TEXT + int(outline.text_length * (_LONGEST_TEXT - _SHORTEST_TEXT + 1))
        end = self._offsets[int(outline.text_start * _PARAGRAPHS) + paragraphs]
        return b"".join(
            (
                _HEAD % (page, page),
                *[link(target, target % hosts == host, _IN_NAV) for target in links[:third]],
                _MAIN % (page, word_of(page).encode(), self._plan.modified_in(page)),
                *[link(target, target % hosts == host, _IN_TEXT) for target in links[third : 2 * third]],
                b"and no more.</p>\n",
                self._paragraphs[start:end],
                b"</main>\n<aside><ul>\n",
                *[link(target, target % hosts == host, _IN_ASIDE) for target in links[2 * third :]],
                *[b'<li><a href="/%s/%d">The %s link</a></li>\n' % (trap, page, trap)
                  for trap in (trap.encode() for trap in outline.traps)],
                b"</ul></aside>\n</body>\n</html>\n",
            )
        )  # fmt: skip

    def _write_link(self, target: int, same_host: bool, place: bytes) -> bytes:  # noqa: FBT001
        """Return one link: a full address if it leads to another host, otherwise a rooted or relative path."""
        path = path_of(target)
        if not same_host:
            href = self._plan.url(target)
        elif place is _IN_TEXT:
            # A relative link that works from /p/7.html and also from /, where ".." stays at the root.
            href = ".." + path
        else:
            href = path
        return place % (href.encode(), target)


_HEAD = b"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Page %d of the synthetic site</title>
<meta name="description" content="What page %d says about harbours, lanterns and meadows.">
</head>
<body>
<nav><ul>
"""

_MAIN = b"""\
</ul></nav>
<main>
<h1>Page %d</h1>
<p>Only this page has the word %s. Its text is that of revision %d.</p>
<p>Related are
"""


def write_robots(*, crawl_delay: float | None) -> bytes:
    delay = b"" if crawl_delay is None else b"Crawl-delay: %g\n" % crawl_delay
    return b"User-agent: *\nDisallow: /private/\n" + delay


def _write_paragraphs(seed: int) -> tuple[bytes, list[int]]:
    """
    Return all paragraphs in a row, twice, and the offset of each.

    A page's text is one slice of this. All paragraphs are repeated once, so that a slice that begins near the end need
    not continue at the beginning.
    """
    draws = iter(shake_128(b"%d text" % seed).digest(_PARAGRAPHS * _WORDS_IN_A_PARAGRAPH))
    paragraphs = [
        "<p>" + " ".join(_WORDS[next(draws) % len(_WORDS)] for _ in range(_WORDS_IN_A_PARAGRAPH)) + ".</p>\n"
        for _ in range(_PARAGRAPHS)
    ] * 2
    offsets = [0]
    for paragraph in paragraphs:
        offsets.append(offsets[-1] + len(paragraph))
    return "".join(paragraphs).encode(), offsets
