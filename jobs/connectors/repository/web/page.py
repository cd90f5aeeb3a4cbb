"""
What one HTML page says: its title, its main text, its links, and whether it wants to be indexed.

The tree is Lexbor's, which reads broken markup as browsers do. Links are taken from the whole page; text
is that of the body without scripts, templates and what surrounds the content (nav, aside, a header or
footer that belongs to the page and not to an article). If `main`, or else the only `article`, holds at
least half of that text, it is the text. Every block element begins a line; blanks are folded.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from jobs.connectors.repository.web.nesting import cut_where_too_deep

_MOST_TITLE: Final = 1000
_MOST_LANGUAGE: Final = 35
_MOST_LEVELS_UP: Final = 64

# What an element is to the reader. One that surrounds or is no text counts by that only.
_BLOCK, _LINK, _LINK_ELEMENT, _FRAME, _META, _BASE, _TITLE, _NO_TEXT, _HEAD_OR_FOOT, _CONTENT = range(10)
_ROLES: Final = {
    _BLOCK: "address blockquote br caption center dd details dialog dir div dl dt fieldset figcaption figure form h1 h2 h3"
    " h4 h5 h6 hgroup hr legend li menu ol optgroup option p pre search section summary table tbody td tfoot th thead tr ul",
    _LINK: "a area",
    _LINK_ELEMENT: "link",
    _FRAME: "iframe frame",
    _META: "meta",
    _BASE: "base",
    _TITLE: "title",
    _NO_TEXT: "script style template noscript textarea select object svg nav aside",
    _HEAD_OR_FOOT: "header footer",
    _CONTENT: "main article",
}

# A separator that is a blank to str.split, so that one in the page does no harm.
_BREAK: Final = "\x1e"
_LINK_RELATIONS: Final = frozenset({"canonical", "alternate", "next"})
_REFRESH: Final = re.compile(
    r"\s*\d*(?:\.\d*)?\s*[;,\s]\s*(?:url\s*=\s*)?(?:\"([^\"]*)|'([^']*)|(.*))", re.IGNORECASE | re.DOTALL
)
_VALUED_DIRECTIVES: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


@dataclass(frozen=True, slots=True)
class RobotsWishes:
    """What a page asks of those who have read it."""

    noindex: bool = False
    nofollow: bool = False

    def with_directives(self, directives: Iterable[str]) -> "RobotsWishes":
        words = {word.strip().lower() for word in directives}
        return RobotsWishes(
            noindex=self.noindex or not words.isdisjoint({"noindex", "none"}),
            nofollow=self.nofollow or not words.isdisjoint({"nofollow", "none"}),
        )

    def joined(self, other: "RobotsWishes") -> "RobotsWishes":
        return RobotsWishes(noindex=self.noindex or other.noindex, nofollow=self.nofollow or other.nofollow)


@dataclass(frozen=True, slots=True)
class Page:
    """`links` are as written; they are relative to `base` where the page names one, else to the page."""

    title: str
    description: str
    language: str
    text: str
    base: str | None
    links: list[str]
    wishes: RobotsWishes


def read_page(html: str, *, token: str) -> Page:
    """Read a page for the crawler with this product token."""
    tree = LexborHTMLParser(cut_where_too_deep(html))
    root = tree.root
    if root is None:
        return Page(title="", description="", language="", text="", base=None, links=[], wishes=RobotsWishes())
    found = _elements_of(root)
    metas = _Metas()
    for node in found[_META]:
        metas.read(node, token=token.lower())
    title = next((node for node in found[_TITLE] if not _is_in_svg(node)), None)
    return Page(
        title="" if title is None else _one_line(title.text()),
        description=metas.description,
        language=(root.attributes.get("lang") or "").strip()[:_MOST_LANGUAGE],
        base=_first_href(found[_BASE]),
        links=_links_in(found) + metas.refreshes,
        wishes=metas.wishes,
        # Last: it takes the tree apart.
        text="" if tree.body is None else _main_text_of(tree.body, found),
    )


def _elements_of(root: LexborNode) -> list[list[LexborNode]]:
    """The elements of the page that have a role, by role: all that the reader needs, in one walk."""
    found: list[list[LexborNode]] = [[] for _ in _ROLES]
    role_of = _ROLE_OF.get
    for node in root.traverse():
        role = role_of(node.tag_id)
        if role is not None:
            found[role].append(node)
    return found


def wishes_of_headers(values: Iterable[str], *, token: str) -> RobotsWishes:
    """What X-Robots-Tag asks; a header may begin with the name of the crawler it speaks to."""
    wishes = RobotsWishes()
    for value in values:
        name, colon, directives = value.partition(":")
        name = name.strip().lower()
        if colon and "," not in name and name not in _VALUED_DIRECTIVES:
            if name not in {"*", token.lower()}:
                continue
        else:
            directives = value
        wishes = wishes.with_directives(directives.split(","))
    return wishes


class _Metas:
    """What the meta elements of a page say."""

    def __init__(self) -> None:
        self.description = ""
        self.wishes = RobotsWishes()
        self.refreshes: list[str] = []

    def read(self, node: LexborNode, *, token: str) -> None:
        attributes = node.attributes
        content = attributes.get("content")
        if not content:
            return
        name = (attributes.get("name") or "").strip().lower()
        if name == "description":
            self.description = self.description or _one_line(content)
        elif name in {"robots", token}:
            self.wishes = self.wishes.with_directives(content.split(","))
        elif (attributes.get("http-equiv") or "").strip().lower() == "refresh":
            target = _REFRESH.match(content)
            if target is not None:
                self.refreshes.append((target[1] or target[2] or target[3] or "").strip())


def _links_in(found: list[list[LexborNode]]) -> list[str]:
    # `attributes`, a dictionary, costs half of `attrs`, a view, on elements with the few that links have.
    links: list[str] = []
    for node in found[_LINK]:
        attributes = node.attributes
        href = attributes.get("href")
        if href:
            relation = attributes.get("rel")
            if not relation or "nofollow" not in relation.lower().split():
                links.append(href)
    for node in found[_LINK_ELEMENT]:
        attributes = node.attributes
        href = attributes.get("href")
        if href and not _LINK_RELATIONS.isdisjoint((attributes.get("rel") or "").lower().split()):
            links.append(href)
    links.extend(source for node in found[_FRAME] if (source := node.attributes.get("src")))
    return links


def _first_href(nodes: Iterable[LexborNode]) -> str | None:
    """The href of the first element that has one: later ones do not count, whatever this one says."""
    return next((href for node in nodes if (href := node.attributes.get("href")) is not None), None)


def _is_in_svg(node: LexborNode) -> bool:
    parent = node.parent
    return parent is not None and parent.tag == "svg"


def _main_text_of(body: LexborNode, found: list[list[LexborNode]]) -> str:
    contents = found[_CONTENT]
    blocks = found[_BLOCK] + contents
    for node in found[_NO_TEXT] + found[_FRAME] + found[_TITLE]:
        node.remove()
    for node in found[_HEAD_OR_FOOT]:
        if _is_within_content(node):
            blocks.append(node)
        else:
            node.remove()
    # Before and after every block, so that the words of two do not grow together.
    for node in blocks:
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)
    text = body.text()
    main = _main_of(contents)
    if main is not None:
        main_text = main.text()
        if 2 * len(main_text) >= len(text):
            text = main_text
    return _folded(text)


def _main_of(contents: list[LexborNode]) -> LexborNode | None:
    """The only `main`, else the only `article`."""
    for name in ("main", "article"):
        named = [node for node in contents if node.tag == name]
        if named:
            return named[0] if len(named) == 1 else None
    return None


def _is_within_content(node: LexborNode) -> bool:
    """Whether it belongs to an article or the like. Looks some way up only, to cost little on any page."""
    parent = node.parent
    for _ in range(_MOST_LEVELS_UP):
        if parent is None:
            return False
        if parent.tag in {"main", "article", "section"}:
            return True
        parent = parent.parent
    return True


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_TITLE]


def _folded(text: str) -> str:
    """The lines that the breaks make, without empty ones, and blanks folded in those that need it."""
    lines = [line for line in map(str.strip, text.split(_BREAK)) if line]
    return "\n".join(
        [" ".join(line.split()) if "\n" in line or "  " in line or "\t" in line else line for line in lines]
    )


def _roles_by_id() -> dict[int, int]:
    """The role of each element by Lexbor's number of it: numbers are read at half the cost of names."""
    tree = LexborHTMLParser("")
    return {tree.create_node(name).tag_id: role for role, names in _ROLES.items() for name in names.split()}


_ROLE_OF: Final = _roles_by_id()
