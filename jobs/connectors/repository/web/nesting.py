"""
Cutting a page before it costs its parser more than a page may.

HTML makes a parser look through all open elements for many tags, and repeat every unclosed formatting
element in each new paragraph. So a page of 200 KB that opens elements and never closes them takes
minutes, or gigabytes, and so does one tag with a hundred thousand attributes, inside one call that nothing can interrupt: the process would miss its heartbeats
and lose all its work. Browsers stop nesting at 512; Lexbor does not, so we weigh the tags beforehand and
read only what comes before the point where the weight gets too much. No honest page comes near it.

Pages with few tags, which are nearly all, cannot weigh much and are only counted.
"""

import re
from typing import Final

_FEW_TAGS: Final = 2000
_SMALL: Final = 64 * 1024
# Steps over open elements; a repeated element costs as much as so many steps. Together about a second.
_MOST_STEPS: Final = 300_000_000
_STEPS_TO_REPEAT: Final = 300

# As a tokenizer reads them: a quote opens a value only after an equals sign. Possessive, so never tried twice.
_ATTRIBUTE: Final = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+))?"""
_TAG: Final = re.compile(rf"<(/?)([a-zA-Z][^\s/>]*+)((?:[\s/]++|{_ATTRIBUTE})*+)")
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
_LONG_TAG: Final = 4096
# Elements that are closed by the next of their kind, or have no content: they do not nest by themselves.
_SHALLOW: Final = frozenset(
    [
        "p",
        "li",
        "dt",
        "dd",
        "tr",
        "td",
        "th",
        "tbody",
        "thead",
        "tfoot",
        "colgroup",
        "col",
        "caption",
        "rp",
        "rt",
        "a",
        "nobr",
        "button",
        "html",
        "head",
        "body",
        "area",
        "base",
        "br",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
_FORMATTING: Final = frozenset(["b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"])
# Of equal unclosed formatting elements, three are repeated.
_MOST_EQUAL: Final = 3


def cut_where_too_deep(html: str) -> str:
    """The page, or its beginning if the rest would cost too much to parse."""
    if html.count("<") <= _FEW_TAGS and len(html) <= _SMALL:
        return html
    end = _end_of_what_is_affordable(html)
    return html if end is None else html[:end]


def _end_of_what_is_affordable(html: str) -> int | None:
    open_elements: dict[str, int] = {}
    repeated = _Repeated()
    depth = steps = 0
    for tag in _TAG.finditer(html):
        name = tag[2].lower()
        if name not in _SHALLOW:
            if not tag[1]:
                open_elements[name] = open_elements.get(name, 0) + 1
                depth += 1
                if name in _FORMATTING:
                    repeated.open(name, tag[3])
            elif open_elements.get(name, 0) > 0:
                open_elements[name] -= 1
                depth -= 1
                if name in _FORMATTING:
                    repeated.close(name)
        steps += depth + _STEPS_TO_REPEAT * repeated.count
        if len(tag[3]) > _LONG_TAG:
            steps += len(_ATTRIBUTES.findall(tag[3])) ** 2 // 2
        if steps > _MOST_STEPS:
            return tag.start()
    return None


class _Repeated:
    """How many unclosed formatting elements a new paragraph repeats."""

    def __init__(self) -> None:
        self.count = 0
        self._open: dict[str, list[str]] = {}
        self._equal: dict[tuple[str, str], int] = {}

    def open(self, name: str, attributes: str) -> None:
        self._open.setdefault(name, []).append(attributes)
        key = name, attributes
        self._equal[key] = self._equal.get(key, 0) + 1
        self.count += self._equal[key] <= _MOST_EQUAL

    def close(self, name: str) -> None:
        key = name, self._open[name].pop()
        self.count -= self._equal[key] <= _MOST_EQUAL
        self._equal[key] -= 1
