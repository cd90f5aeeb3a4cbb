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

_MOST_TITLE: Final = 1000
_MOST_LANGUAGE: Final = 35

_NEVER_TEXT: Final = [
    "script",
    "style",
    "template",
    "noscript",
    "title",
    "textarea",
    "select",
    "iframe",
    "object",
    "svg",
]
_AROUND_TEXT: Final = ["nav", "aside"]
_FRAMES_OF_PAGE: Final = ("header", "footer")
_CONTENT: Final = frozenset({"article", "main", "section"})
_BLOCKS: Final = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "legend",
    "li",
    "main",
    "menu",
    "nav",
    "ol",
    "optgroup",
    "option",
    "p",
    "pre",
    "search",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
]

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
    tree = LexborHTMLParser(html)
    description, wishes, refreshes = _read_metas(tree, token=token.lower())
    base = _first_href(tree.tags("base"))
    title = next((node for node in tree.tags("title") if not _is_in_svg(node)), None)
    links = _links_of(tree)
    links.extend(refreshes)
    root = tree.root
    return Page(
        title="" if title is None else " ".join(title.text().split())[:_MOST_TITLE],
        description=description,
        language=_language_of(root),
        base=base,
        links=links,
        wishes=wishes,
        # Last: it takes the tree apart.
        text=_main_text_of(tree),
    )


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


def _read_metas(tree: LexborHTMLParser, *, token: str) -> tuple[str, RobotsWishes, list[str]]:
    description, wishes, refreshes = "", RobotsWishes(), []
    for node in tree.tags("meta"):
        attributes = node.attributes
        content = attributes.get("content")
        if not content:
            continue
        name = (attributes.get("name") or "").strip().lower()
        if name == "description":
            description = description or " ".join(content.split())[:_MOST_TITLE]
        elif name in {"robots", token}:
            wishes = wishes.with_directives(content.split(","))
        elif (attributes.get("http-equiv") or "").strip().lower() == "refresh":
            target = _REFRESH.match(content)
            if target is not None:
                refreshes.append((target[1] or target[2] or target[3] or "").strip())
    return description, wishes, refreshes


def _links_of(tree: LexborHTMLParser) -> list[str]:
    links: list[str] = []
    for name in ("a", "area"):
        for node in tree.tags(name):
            attributes = node.attrs
            href = attributes.get("href")
            if href:
                relation = attributes.get("rel")
                if not relation or "nofollow" not in relation.lower().split():
                    links.append(href)
    for node in tree.tags("link"):
        attributes = node.attrs
        href = attributes.get("href")
        if href and not _LINK_RELATIONS.isdisjoint((attributes.get("rel") or "").lower().split()):
            links.append(href)
    for name in ("iframe", "frame"):
        links.extend(source for node in tree.tags(name) if (source := node.attrs.get("src")))
    return links


def _first_href(nodes: Iterable[LexborNode]) -> str | None:
    """The href of the first element that has one: later ones do not count, whatever this one says."""
    return next((href for node in nodes if (href := node.attributes.get("href")) is not None), None)


def _language_of(root: LexborNode | None) -> str:
    language = None if root is None else root.attributes.get("lang")
    return (language or "").strip()[:_MOST_LANGUAGE]


def _is_in_svg(node: LexborNode) -> bool:
    parent = node.parent
    return parent is not None and parent.tag == "svg"


def _main_text_of(tree: LexborHTMLParser) -> str:
    body = tree.body
    if body is None:
        return ""
    tree.strip_tags(_NEVER_TEXT)
    tree.strip_tags(_AROUND_TEXT)
    for name in _FRAMES_OF_PAGE:
        for node in tree.tags(name):
            if not _is_within_content(node):
                node.remove()
    _break_lines(body)
    text = body.text()
    part = _main_part(tree)
    if part is not None:
        part_text = part.text()
        if 2 * len(part_text) >= len(text):
            text = part_text
    return _folded(text)


def _main_part(tree: LexborHTMLParser) -> LexborNode | None:
    for name in ("main", "article"):
        nodes = tree.tags(name)
        if len(nodes) == 1:
            return nodes[0]
    return None


def _is_within_content(node: LexborNode) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.tag in _CONTENT:
            return True
        parent = parent.parent
    return False


def _break_lines(body: LexborNode) -> None:
    """Put a break before and after every block, so that the words of two blocks do not grow together."""
    blocks = [node for node in body.traverse() if node.tag_id in _BLOCK_IDS]
    for node in blocks:
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)


def _folded(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split(_BREAK))
    return "\n".join(line for line in lines if line)


def _ids_of(names: Iterable[str]) -> frozenset[int]:
    """Lexbor's numbers of these elements: to compare numbers costs half of comparing names."""
    tree = LexborHTMLParser("")
    return frozenset(tree.create_node(name).tag_id for name in names)


_BLOCK_IDS: Final = _ids_of(_BLOCKS)
