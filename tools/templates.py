"""The texts of the templates: marked ones, and visible ones without a mark. It needs Django's settings."""

import re
from collections.abc import Iterator
from typing import Final

from django.template import Template, engines
from django.template.base import FilterExpression, Node, TextNode
from django.templatetags.i18n import BlockTranslateNode, TranslateNode
from django.utils.functional import Promise

from tools.compile_catalogues import ROOT

_TEMPLATES: Final = ROOT / "templates"
# Elements whose content no reader sees, comments, and tags.
_UNSEEN: Final = re.compile(r"<(script|style|svg)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL)
_SEEN_ATTRIBUTE: Final = re.compile(r"""\s(?:alt|aria-label|data-label|placeholder|title)=(["'])(.*?)\1""", re.DOTALL)
_WORD: Final = re.compile(r"[^\W\d_]{2,}(?:[ .,:;-]+[^\W\d_]+)*")
# Stands for a value that a template puts between its texts.
_VALUE: Final = "\0"


def templates() -> Iterator[tuple[str, Template]]:
    """Yield each template with the path of its file."""
    for path in sorted(_TEMPLATES.rglob("*.html")):
        name = str(path.relative_to(_TEMPLATES))
        yield str(path.relative_to(ROOT)), engines["django"].get_template(name).template  # type: ignore[attr-defined]


def messages_of(template: Template) -> Iterator[str | tuple[str, str]]:
    """Yield the texts of a template that are marked for translation, as Django looks them up."""
    for node in _nodes(template):
        if isinstance(node, TranslateNode):
            literal = getattr(node.filter_expression.var, "literal", None)
            # The value of a variable is a word of a table, and `tools/catalogues.py` lists these tables.
            if literal is not None:
                yield str(literal).replace("%", "%%")
        elif isinstance(node, BlockTranslateNode):
            singular, _names = node.render_token_list(node.singular)
            if node.plural:
                plural, _names = node.render_token_list(node.plural)
                yield singular, plural
            else:
                yield singular
        for expression in _expressions(node):
            # `_("…")` is a text that is looked up later.
            if isinstance(expression.var, Promise):
                yield str(expression.var)


def unmarked_of(template: Template) -> list[str]:
    """Return the words of a template that a reader sees, and that are not marked for translation."""
    text = "".join(node.s if isinstance(node, TextNode) else _VALUE for node in _nodes(template))
    seen = [_UNSEEN.sub(" ", text), *(found[2] for found in _SEEN_ATTRIBUTE.finditer(text))]
    return [word for part in seen for word in _WORD.findall(part)]


def _nodes(template: Template) -> list[Node]:
    return template.nodelist.get_nodes_by_type(Node)


def _expressions(node: Node) -> Iterator[FilterExpression]:
    """Yield the expressions of a node, such as the values that `include` passes on."""
    for value in vars(node).values():
        if isinstance(value, FilterExpression):
            yield value
        elif isinstance(value, dict):
            yield from (each for each in value.values() if isinstance(each, FilterExpression))
