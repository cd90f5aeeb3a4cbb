"""
The HTML extractor: a stage that takes texts and fields from a page by CSS selectors or XPath.

`text` replaces the text of the page by the text of the chosen elements. A field is a name and a selector. Its values
are the texts of the chosen elements, or one of their attributes:

    price = .offer > .price
    image = img.main @src
    isbn = xpath: //td[text()="ISBN"]/following-sibling::td

Elements that `remove` chooses belong neither to the text nor to a field. Documents that are not HTML pass as they are.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from turbohtml import Document, Element, SelectorSyntaxError, parse

from jobs.connectors.metadata import bounded, pairs_of
from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.connectors.transformation.base import Candidate, Item, Refused, Runs, Stage, TransformationKind
from jobs.reading.page import text_of_element
from jobs.reading.text import decoded

# Version of the code of this stage. It is part of the description, and grows when results change.
_RULES: Final = 1
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_XPATH: Final = "xpath:"
# Fields that set a value of the document instead of its metadata.
_OF_DOCUMENT: Final = ("title", "description", "language")

_SETTINGS: Final = Schema(
    (
        Field(
            name="text",
            kind=FieldKind.LINES,
            label=_("Text"),
            help=_(
                "Selectors of the elements that contain the text, one per line. If empty, the text does not change."
            ),
        ),
        Field(
            name="fields",
            kind=FieldKind.LINES,
            label=_("Fields"),
            help=_(
                "One per line, such as “price = .offer > .price”, “image = img.main @src” or “isbn = xpath: //td[2]”."
            ),
        ),
        Field(
            name="remove",
            kind=FieldKind.LINES,
            label=_("Remove"),
            help=_("Selectors of elements that the stage ignores, one per line."),
        ),
    )
)

_Chosen = Callable[[Document], list[Element | str]]


class HtmlExtractor(Stage):
    """A stage that takes texts from pages, with its selectors."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.description = f"html {_RULES} {json.dumps(values, sort_keys=True)}"
        self._text = [_read_selector(selector) for selector in values.get("text", ())]
        self._fields = [_read_field(line) for line in values.get("fields", ())]
        self._remove = [_read_selector(selector) for selector in values.get("remove", ())]

    def reads(self, candidate: Candidate) -> bool:
        return candidate.content_type in _HTML_TYPES

    def transform(self, item: Item) -> Sequence[Item] | Refused:
        if item.body is None or item.content_type not in _HTML_TYPES:
            return (item,)
        document = parse(decoded(item.body, f"{item.content_type}; charset={item.charset}" if item.charset else ""))
        for choose in self._remove:
            for node in choose(document):
                if isinstance(node, Element):
                    node.extract()
        own: dict[str, Any] = {}
        pairs = list(pairs_of(item.metadata))
        for name, choose, attribute in self._fields:
            values = [value for node in choose(document) if (value := _value_of(node, attribute))]
            if name not in _OF_DOCUMENT:
                # A field replaces the metadata that the page has under the same name.
                pairs = [pair for pair in pairs if pair[0] != name] if values else pairs
                pairs += [(name, value) for value in values]
            elif values:
                own[name] = " ".join(", ".join(values).split())
        text = item.text
        if self._text:
            nodes = [node for choose in self._text for node in choose(document)]
            text = "\n".join(filter(None, (node if isinstance(node, str) else text_of_element(node) for node in nodes)))
        return (replace(item, text=text, metadata=bounded(pairs), **own),)


def _value_of(node: Element | str, attribute: str) -> str:
    if isinstance(node, str):
        return node
    return (node.attr(attribute) or "") if attribute else text_of_element(node).replace("\n", " ")


def _read_field(line: str) -> tuple[str, _Chosen, str]:
    """Return the name of a field, its selector, and the attribute that it takes, or ''."""
    name, _, selector = line.partition("=")
    selector, attribute = selector.strip(), ""
    if not selector.startswith(_XPATH) and " @" in selector:
        selector, _, attribute = selector.rpartition(" @")
    return name.strip().lower(), _read_selector(selector), attribute.strip()


def _read_selector(selector: str) -> _Chosen:
    selector = selector.strip()
    if not selector.startswith(_XPATH):
        return lambda document: list(document.select(selector))
    expression = selector.removeprefix(_XPATH).strip()

    def choose(document: Document) -> list[Element | str]:
        found = document.xpath(expression)
        if isinstance(found, list | tuple):
            return [node if isinstance(node, Element) else str(getattr(node, "data", node)) for node in found]
        return [str(found)]

    return choose


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    problems = {name: list(_problems_of_selectors(values.get(name, ()))) for name in ("text", "remove")}
    problems["fields"] = []
    for line in values.get("fields", ()):
        name, equals, selector = line.partition("=")
        if not equals or not name.strip() or not selector.strip():
            problems["fields"].append(f"{line!r} is invalid. Write 'price = .offer > .price'.")
            continue
        try:
            _read_field(line)[1](parse(""))
        except (SelectorSyntaxError, ValueError) as error:
            problems["fields"].append(f"{line!r} is invalid: {error}.")
    return problems


def _problems_of_selectors(selectors: Sequence[str]) -> Iterator[str]:
    for selector in selectors:
        try:
            _read_selector(selector)(parse(""))
        except (SelectorSyntaxError, ValueError) as error:
            yield f"{selector!r} is invalid: {error}."


HTML: Final = TransformationKind(
    name="html",
    label=_("HTML extractor"),
    help=_("Reads the text and fields of a page with CSS selectors or XPath."),
    settings=_SETTINGS,
    open=HtmlExtractor,
    judge=_judge,
    runs_in=Runs.IN_PROCESS,
)
