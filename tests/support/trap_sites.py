"""
Synthetic sites with traps: for each of twelve traps a host with 300 good pages and 2,000 wasted ones that its links
lead to, and hosts without a trap.

No other page has the text of a good page. The pages of a trap repeat content, as traps on real sites do. A
crawl follows the links of the pages that it reads: a page that is held back leads nowhere.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

GOOD: Final = 300
WASTED: Final = 2_000
# Number of articles that a list names.
_LISTED: Final = 20
_MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
_DAYS: Final = "Monday\nTuesday\nWednesday\nThursday\nFriday\nSaturday\nSunday"
_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprstvz"
_SYLLABLES: Final = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]


@dataclass(frozen=True)
class Page:
    url: str
    text: str
    is_good: bool
    links: tuple[str, ...] = ()


def prose(rng: random.Random, lines: int = 4) -> str:
    """Return lines of words that no other page has."""
    sentences = []
    for _ in range(lines):
        words = [
            "".join(rng.choices(_SYLLABLES, k=1 + int(rng.random() * 3))) for _ in range(5 + int(rng.random() * 8))
        ]
        sentences.append(" ".join(words))
    return "\n".join(sentences)


def hexadecimal(text: object, digits: int = 32) -> str:
    return hashlib.md5(str(text).encode(), usedforsecurity=False).hexdigest()[:digits]


@cache
def _article(host: str, number: int) -> tuple[str, str]:
    rng = random.Random(f"{host} {number}")
    return f"/articles/{prose(rng, 1).replace(' ', '-')}", f"The daily page\n{prose(rng)}\nImprint"


# --- Traps: number of a wasted address → its path and its text -----------------------------------


def _items(host: str, numbers: list[int]) -> str:
    return "\n".join(prose(random.Random(f"{host} item {number}"), 1) for number in numbers)


def _calendar(host: str, n: int) -> tuple[str, str]:
    year, month = 2026 + n // 10, n % 10
    text = (
        f"Events in {_MONTHS[month]} {year}\n{_DAYS}\n" + "\n".join(map(str, range(1, 29))) + "\nNo events this month."
    )
    return f"/calendar/{year}/{month + 1:02}", text


def _facets(host: str, n: int) -> tuple[str, str]:
    rng = random.Random(n)
    chosen = sorted(rng.sample(["brand", "colour", "material", "price", "size", "style"], rng.randint(1, 6)))
    query = "&".join(f"{name}={rng.choice('abcdefgh')}{n}" for name in chosen)
    return f"/shop?{query}", _items(host, rng.sample(range(60), 12))


def _session(host: str, n: int) -> tuple[str, str]:
    path, text = _article(host, n % 40)
    return f"{path}?PHPSESSID={hexadecimal(n)}", text


def _relative_loop(host: str, n: int) -> tuple[str, str]:
    return f"/help{'/topics' * (3 + n // 137)}/page{n % 137}.html", _article(host, n % 20)[1]


def _sort(host: str, n: int) -> tuple[str, str]:
    rng = random.Random(n % 120)
    numbers = list(range(n % 15 * 4, n % 15 * 4 + 12))
    rng.shuffle(numbers)
    return f"/list/{n % 15}?order={rng.choice(['name', 'price', 'date'])}&dir={n}", _items(host, numbers)


def _soft_404(host: str, n: int) -> tuple[str, str]:
    path = f"/products/{hexadecimal(n, 6)}x-{n}"
    return path, f"Page not found\nWe could not find {path} on this server.\nSearch our site\nTry the home page."


def _pagination(host: str, n: int) -> tuple[str, str]:
    return f"/archive?page={n + 30}", f"Archive\nPage {n + 30}\nThere are no entries on this page.\nOlder\nNewer"


def _case_and_slashes(host: str, n: int) -> tuple[str, str]:
    path, text = _article(host, n % 60)
    rng = random.Random(n)
    mixed = "/A" + "".join(rng.choice((c.upper(), c)) for c in path[2:])
    return (mixed.replace("/", "//", 1 + n % 2) if n % 3 == 0 else mixed), text


def _tracking(host: str, n: int) -> tuple[str, str]:
    path, text = _article(host, n % 80)
    return f"{path}?utm_source=s{n}&utm_medium=m{n % 7}", text


def _print(host: str, n: int) -> tuple[str, str]:
    path, text = _article(host, n % 250)
    return f"/print{path.removeprefix('/articles')}?copy={n // 250}", text


def _deep(host: str, n: int) -> tuple[str, str]:
    path = "".join(f"/{'abcdef'[n // 6**level % 6]}" for level in range(6))
    return f"/tree{path}/", f"Folder\n{_article(host, n % 10)[1]}"


def _random_ids(host: str, n: int) -> tuple[str, str]:
    return (
        f"/r/{hexadecimal(n)}",
        f"Welcome\nYour reference is {hexadecimal((n, 1), 12)}.\nContinue to the next page\nVisitor 1{n:05}",
    )


@dataclass(frozen=True)
class Trap:
    """
    The pages of a trap: `page` makes each page from its number. With a `step`, page n leads to page n + `step`, and the
    first articles lead to the first pages. Without a step, each page leads to three others, and the home page to the
    first.
    """

    page: Callable[[str, int], tuple[str, str]]
    step: int = 0

    def links(self, n: int) -> list[int]:
        return [n + self.step] if self.step else [3 * n + 1, 3 * n + 2, 3 * n + 3]


TRAPS: Final[dict[str, Trap]] = {
    "calendar": Trap(_calendar, 1),
    "facets": Trap(_facets),
    "session ids": Trap(_session, 40),
    "relative loop": Trap(_relative_loop),
    "sort orders": Trap(_sort, 15),
    "soft 404": Trap(_soft_404),
    "endless pagination": Trap(_pagination, 1),
    "mixed case and slashes": Trap(_case_and_slashes, 60),
    "tracking parameters": Trap(_tracking, 80),
    "print versions": Trap(_print, 250),
    "deep repetition": Trap(_deep),
    "random ids": Trap(_random_ids),
}


@dataclass
class Site:
    """The pages of a site with a trap, by their address."""

    name: str
    pages: dict[str, Page] = field(default_factory=dict)

    @property
    def home(self) -> str:
        return f"http://{self.name.replace(' ', '-')}.example/"

    def add(self, path: str, text: str, *, is_good: bool, links: list[str]) -> None:
        url = self.home[:-1] + path
        self.pages[url] = Page(url, text, is_good, tuple(self.home[:-1] + link for link in links))


def site_with(name: str, variant: str = "") -> Site:
    """Return a site with a trap: lists of articles, each of which leads on, and the pages of the trap among them."""
    site, trap = Site(name + variant), TRAPS[name]
    host = site.home
    wasted = [trap.page(host, n) for n in range(WASTED)]
    entries = range(min(trap.step, GOOD))
    lists = [f"/lists/{n}" for n in range(GOOD // _LISTED)]
    site.add("/", "The daily page\nImprint", is_good=True, links=[lists[0], *([] if trap.step > 1 else [wasted[0][0]])])
    for n, path in enumerate(lists):
        articles = [_article(host, number) for number in range(n * _LISTED, (n + 1) * _LISTED)]
        titles = "\n".join(text.split("\n")[1] for _, text in articles)
        site.add(
            path,
            f"The daily page\n{titles}\nImprint",
            is_good=True,
            links=[*(lists[n + 1 : n + 2]), *(path for path, _ in articles)],
        )
    for n in range(GOOD):
        path, text = _article(host, n)
        site.add(path, text, is_good=True, links=["/", *([wasted[n][0]] if n in entries else [])])
    for n, (path, text) in enumerate(wasted):
        back = _article(host, n % GOOD)[0]
        site.add(path, text, is_good=False, links=[back, *(wasted[to][0] for to in trap.links(n) if to < WASTED)])
    return site


# --- Good sites ----------------------------------------------------------------------------------


def _rates(n: int) -> tuple[str, str]:
    rng = random.Random(n)
    return f"/rates/{2000 + n // 300}-{1 + n % 12:02}-{1 + n % 28:02}?n={n}", "Rates\n" + "\n".join(
        f"{rng.random() * 99:.4f}" for _ in range(8)
    )


def _forum(n: int) -> tuple[str, str]:
    return f"/viewtopic.php?f={n % 7}&t={n // 3}&start={n % 3 * 20}", f"Forum\nReply\n{prose(random.Random(n), 2)}"


def _wiki(n: int) -> tuple[str, str]:
    rng = random.Random(n)
    return f"/wiki/{prose(rng, 1).title().replace(' ', '_')}", f"From the encyclopedia\n{prose(rng, 3)}"


def _parts(n: int) -> tuple[str, str]:
    rng = random.Random(n)
    return f"/part/{n}", f"Spare part\n{prose(rng, 1)}\nPrice: {n % 90}.99\nIn stock\nAdd to cart"


def _listing(n: int) -> tuple[str, str]:
    return f"/news?page={n}", f"News\nOlder\nNewer\n{prose(random.Random(n), 5)}"


def _manual(n: int) -> tuple[str, str]:
    return (
        f"/docs/v{n % 3}/guide/part/{n % 20}/section/{n}",
        f"Manual\nContents\n{prose(random.Random(n // 3), 3)}\nversion {prose(random.Random(n), 1)}",
    )


def _events(n: int) -> tuple[str, str]:
    path, text = _calendar("", n)
    return path, f"{text}\n{prose(random.Random(n), 1)}" if n % 2 else text + f"\nConcert: {prose(random.Random(n), 1)}"


def _languages(n: int) -> tuple[str, str]:
    return f"/page/{n // 3}?lang={('en', 'de', 'zh')[n % 3]}", f"Site\n{prose(random.Random(n), 3)}"


def _half_empty(n: int) -> tuple[str, str]:
    return (
        f"/places/{hexadecimal(n, 6)}",
        "Place\nNo description yet." if n % 5 < 2 else f"Place\n{prose(random.Random(n), 1)}",
    )


GOOD_SITES: Final = {
    "rates": _rates, "forum": _forum, "wiki": _wiki, "parts": _parts, "listing": _listing,
    "manual": _manual, "events": _events, "languages": _languages, "half-empty": _half_empty,
}  # fmt: skip


def good_site(name: str, pages: int = GOOD * 3) -> Iterator[Page]:
    """Yield the pages of a site without a trap."""
    for number in range(pages):
        path, text = GOOD_SITES[name](number)
        yield Page(f"http://{name}.example{path}", text, True)
