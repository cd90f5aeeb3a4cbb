"""
Reads the content of one HTML page: its title, its main text, its links, and its robots directives.

The tree is turbohtml's, which parses broken markup as browsers do (decision 0017). Links come from the whole page. The
text is that of the body without scripts, templates, `nav`, `aside`, and the header and the footer of the page (those of
an article count). If `main`, or else the only `article`, holds at least half of that text, it is the text. Every block
element begins a line. Blanks are folded.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from turbohtml import Document, Element, Namespace, Node, Text, parse

_MOST_TITLE: Final = 1000
_MOST_LANGUAGE: Final = 35
_MOST_LEVELS_UP: Final = 64

_NAMES_OF_BLOCKS: Final = (
    "address article blockquote br caption center dd details dialog dir div dl dt fieldset figcaption figure footer form h1 h2"
    " h3 h4 h5 h6 header hgroup hr legend li main menu ol optgroup option p pre search section summary table tbody td tfoot th"
    " thead tr ul body html"
)
_BLOCKS: Final = frozenset(_NAMES_OF_BLOCKS.split())

# The role of each element that matters to this module. Each element has one role at most.
_LINK, _LINK_ELEMENT, _FRAME, _META, _BASE, _TITLE, _TEMPLATE, _NO_TEXT, _HEAD_OR_FOOT, _CONTENT = range(10)
_ROLES: Final = {
    name: role
    for role, names in {
        _LINK: "a area",
        _LINK_ELEMENT: "link",
        _FRAME: "iframe frame",
        _META: "meta",
        _BASE: "base",
        _TITLE: "title",
        _TEMPLATE: "template",
        _NO_TEXT: "script style noscript textarea select object svg nav aside",
        _HEAD_OR_FOOT: "header footer",
        _CONTENT: "main article",
    }.items()
    for name in names.split()
}
_ROLE_COUNT: Final = _CONTENT + 1

# A separator that str.split treats as a blank, so that the same character in a page is harmless.
_BREAK: Final = "\x1e"
_TWO_BLANKS: Final = re.compile("  ")
_LINK_RELATIONS: Final = frozenset({"canonical", "alternate", "next"})
_REFRESH: Final = re.compile(
    r"\s*\d*(?:\.\d*)?\s*[;,\s]\s*(?:url\s*=\s*)?(?:\"([^\"]*)|'([^']*)|(.*))", re.IGNORECASE | re.DOTALL
)
# Metadata of a page: these names, and names with these beginnings. Names for browsers, scripts and proofs of ownership
# are left out, because some of them change with each answer.
_METADATA: Final = frozenset(
    {"author", "date", "keywords", "last-modified", "news_keywords", "pubdate", "publisher", "subject"}
)
_METADATA_BEGINS: Final = (
    "og:", "article:", "book:", "profile:", "product:", "dc.", "dc:", "dcterms.", "dcterms:", "citation_",
)  # fmt: skip
_VALUED_DIRECTIVES: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


@dataclass(frozen=True, slots=True)
class RobotsDirectives:
    """
    The robots directives of a page: `noindex` keeps the page out of the outputs, and `nofollow` keeps its links out of
    the crawl.
    """

    noindex: bool = False
    nofollow: bool = False

    def with_directives(self, directives: Iterable[str]) -> "RobotsDirectives":
        words = {word.strip().lower() for word in directives}
        return RobotsDirectives(
            noindex=self.noindex or not words.isdisjoint({"noindex", "none"}),
            nofollow=self.nofollow or not words.isdisjoint({"nofollow", "none"}),
        )

    def joined(self, other: "RobotsDirectives") -> "RobotsDirectives":
        return RobotsDirectives(noindex=self.noindex or other.noindex, nofollow=self.nofollow or other.nofollow)


@dataclass(frozen=True, slots=True)
class Page:
    """
    The content of one HTML page. `links` are as the page wrote them: relative to `base` if the page names a base,
    otherwise relative to the page. `named` has the facts of the page's meta elements, by name.
    """

    title: str
    description: str
    language: str
    text: str
    base: str | None
    links: list[str]
    robots: RobotsDirectives
    named: list[tuple[str, str]] = field(default_factory=list)


def read_page(html: str, *, robots_name: str) -> Page:
    """Parse a page. The robots directives are those for the crawler with this name; "" is a crawler without a name."""
    document = parse(html, positions=False)
    found = _elements_of(document)
    # The content of a `template` element appears only through a script. In an SVG image, the element is an ordinary
    # one.
    if templates := [node for node in found[_TEMPLATE] if node.namespace is Namespace.HTML]:
        _take_out(templates)
        found = _elements_of(document)
    metas = _Metas()
    for node in found[_META]:
        metas.read(node, robots_name=robots_name.lower())
    title = next((node for node in found[_TITLE] if not _is_in_svg(node)), None)
    root = document.root
    return Page(
        title="" if title is None else _one_line(title.text),
        description=metas.description,
        language="" if root is None else (root.attr("lang") or "").strip()[:_MOST_LANGUAGE],
        base=_first_href(found[_BASE]),
        links=_links_in(found) + metas.refreshes,
        robots=metas.robots,
        named=metas.named,
        # The text is read last, because its search removes elements from the tree.
        text=_main_text_of(document.find("body"), found),
    )


def _elements_of(document: Document) -> list[list[Element]]:
    """Return the elements with a role for the reader, by role. The tree is walked once."""
    found: list[list[Element]] = [[] for _ in range(_ROLE_COUNT)]
    for node in document.iter_elements(_ROLES):
        found[_ROLES[node.tag]].append(node)
    return found


def _take_out(nodes: Iterable[Element]) -> None:
    for node in nodes:
        node.extract()


def directives_of_headers(values: Iterable[str], *, robots_name: str) -> RobotsDirectives:
    """Return the directives of X-Robots-Tag headers. A header may begin with the name of its crawler."""
    robots = RobotsDirectives()
    for value in values:
        name, colon, directives = value.partition(":")
        name = name.strip().lower()
        if colon and "," not in name and name not in _VALUED_DIRECTIVES:
            if name not in {"*", robots_name.lower()}:
                continue
        else:
            directives = value
        robots = robots.with_directives(directives.split(","))
    return robots


class _Metas:
    """Collects the facts in the meta elements of a page, one element after the other."""

    def __init__(self) -> None:
        self.description = ""
        self.robots = RobotsDirectives()
        self.refreshes: list[str] = []
        self.named: list[tuple[str, str]] = []

    def read(self, node: Element, *, robots_name: str) -> None:
        content = node.attr("content")
        if not content:
            return
        name = (node.attr("name") or "").strip().lower()
        if name == "description":
            self.description = self.description or _one_line(content)
        elif name == "robots" or (name and name == robots_name):
            self.robots = self.robots.with_directives(content.split(","))
        elif (node.attr("http-equiv") or "").strip().lower() == "refresh":
            target = _REFRESH.match(content)
            if target is not None:
                self.refreshes.append((target[1] or target[2] or target[3] or "").strip())
        else:
            name = name or (node.attr("property") or "").strip().lower()
            if name in _METADATA or name.startswith(_METADATA_BEGINS):
                self.named.append((name, content))


def _links_in(found: list[list[Element]]) -> list[str]:
    links: list[str] = []
    for node in found[_LINK]:
        href = node.attr("href")
        if href:
            relation = node.attr("rel")
            if not relation or "nofollow" not in relation.lower().split():
                links.append(href)
    for node in found[_LINK_ELEMENT]:
        href = node.attr("href")
        if href and not _LINK_RELATIONS.isdisjoint((node.attr("rel") or "").lower().split()):
            links.append(href)
    links.extend(source for node in found[_FRAME] if (source := node.attr("src")))
    return links


def _first_href(nodes: Iterable[Element]) -> str | None:
    """
    Return the href of the first element that has one; None if none has. Later elements do not count, even if the first
    href is invalid.
    """
    return next((href for node in nodes if (href := node.attr("href")) is not None), None)


def _is_in_svg(node: Element) -> bool:
    return isinstance(parent := node.parent, Element) and parent.tag == "svg"


def _main_text_of(body: Element | None, found: list[list[Element]]) -> str:
    if body is None:
        return ""
    for role in (_NO_TEXT, _FRAME, _TITLE):
        _take_out(found[role])
    _take_out([node for node in found[_HEAD_OR_FOOT] if not _is_within_content(node)])
    main = _main_of(found[_CONTENT])
    if main is not None and body in main.ancestors:
        text = _text_of(main)
        if 2 * (len(text) - text.count(_BREAK)) >= len(body.text):
            return _folded(text)
    return _folded(_text_of(body))


def text_of_element(root: Element) -> str:
    """Return the text of an element, with a line for each block and folded blanks."""
    return _folded(_text_of(root))


def _text_of(root: Element) -> str:
    """
    Return the text, with a break between two words wherever a block begins or ends.

    A block begins or ends between two words if their innermost blocks differ.
    """
    pieces: list[str] = []
    block: Node | None = None
    has_begun = False
    for node in root.descendants:
        if type(node) is Text:
            words = node.data
            if words.isspace():
                pieces.append(words)
                continue
            innermost: Node | None = node.parent
            if type(innermost) is Element and innermost.tag not in _BLOCKS:
                innermost = _block_around(innermost)
            if has_begun or innermost is not block:
                pieces.append(_BREAK)
                has_begun, block = False, innermost
            pieces.append(words)
        elif type(node) is Element and node.tag in _BLOCKS:
            has_begun = True
    return "".join(pieces)


def _block_around(node: Node) -> Node | None:
    """
    Return the innermost block around a node. In extremely deep markup, return an ancestor some levels above the node
    instead.
    """
    around: Node | None = node
    for _ in range(_MOST_LEVELS_UP):
        if type(around) is not Element or around.tag in _BLOCKS:
            break
        around = around.parent
    return around


def _main_of(contents: list[Element]) -> Element | None:
    """
    Return the `main` element if there is exactly one. Without a `main`, return the `article` if there is exactly one.
    Otherwise return None.
    """
    for name in ("main", "article"):
        named = [node for node in contents if node.tag == name]
        if named:
            return named[0] if len(named) == 1 else None
    return None


def _is_within_content(node: Element) -> bool:
    """
    True if the node is inside of an article or a similar element. The search ends after some levels, so that it is
    cheap.
    """
    parent = node.parent
    for _ in range(_MOST_LEVELS_UP):
        if not isinstance(parent, Element):
            return False
        if parent.tag in {"main", "article", "section"}:
            return True
        parent = parent.parent
    return True


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_TITLE]


def _folded(text: str) -> str:
    """Return the lines between the breaks, with folded blanks and without empty lines."""
    lines = [line for line in map(str.strip, text.split(_BREAK)) if line]
    folded = "\n".join([" ".join(line.split()) if "\n" in line or "\t" in line else line for line in lines])
    # One search over all lines first. A test of each line with `in` would be slow, because single blanks are
    # everywhere.
    if _TWO_BLANKS.search(folded) is None:
        return folded
    return "\n".join([" ".join(line.split()) if "  " in line else line for line in folded.split("\n")])
