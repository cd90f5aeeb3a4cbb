"""
The metadata adjuster: a stage that renames, sets and removes metadata.

It works in this order: rename, set, remove, keep. An expression is a text with fields: `${author}` has the values of a
name, and `${url|RE2|1}` a group of each match of an expression. All expressions read the values from before the stage.
A field with several values gives one result for each value, and a field without a value gives no result.

The names `title`, `description` and `language` are those of the document. `url` and `content_type` can only be read.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.metadata import MOST_VALUES, bounded, pairs_of
from jobs.connectors.repository.web.scope import BadPattern, Pattern, compile_pattern
from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.connectors.transformation.base import Item, Refused, Stage, TransformationKind

# Version of the code of this stage. It is part of the description, and grows when results change.
_RULES: Final = 1
_OF_DOCUMENT: Final = ("title", "description", "language")
_READ_ONLY: Final = ("url", "content_type")
_FIELD: Final = re.compile(r"\$\{([^{}|]+)(?:\|((?:[^|\\]|\\.)*)\|(\d{1,2}))?\}")

_SETTINGS: Final = Schema(
    (
        Field(
            name="rename",
            kind=FieldKind.LINES,
            label=_("Rename"),
            help=_("One per line, such as “og:title = headline”."),
        ),
        Field(
            name="set",
            kind=FieldKind.LINES,
            label=_("Set"),
            help=_("One per line, such as “site = intranet” or “label = ${author} (${published})”."),
        ),
        Field(name="remove", kind=FieldKind.LINES, label=_("Remove"), help=_("Names, one per line.")),
        Field(
            name="keep",
            kind=FieldKind.LINES,
            label=_("Keep only"),
            help=_("Names, one per line. If empty, the stage keeps all."),
        ),
    )
)


class MetadataAdjuster(Stage):
    """A stage that adjusts metadata, with its rules."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.description = f"adjust {_RULES} {json.dumps(values, sort_keys=True)}"
        self._rename = [_split(line) for line in values.get("rename", ())]
        self._set = [(name, _read_expression(text)) for name, text in map(_split, values.get("set", ()))]
        self._remove = {name.strip().lower() for name in values.get("remove", ())}
        self._keep = {name.strip().lower() for name in values.get("keep", ())}

    def transform(self, item: Item) -> Sequence[Item] | Refused:
        before: dict[str, tuple[str, ...]] = {
            **item.metadata,
            **{name: (value,) for name in (*_OF_DOCUMENT, *_READ_ONLY) if (value := getattr(item, name))},
        }
        found = dict(item.metadata)
        own: dict[str, Any] = {}

        def put(name: str, values: Sequence[str]) -> None:
            if name in _OF_DOCUMENT:
                own[name] = ", ".join(values)
            else:
                found[name] = tuple(values)

        for old, new in self._rename:
            if old in before:
                put(new.lower(), before[old])
                if old in _OF_DOCUMENT:
                    own[old] = ""
                else:
                    found.pop(old, None)
        for name, expression in self._set:
            if values := expression(before):
                put(name, values)
        kept = {
            name: values
            for name, values in found.items()
            if name not in self._remove and (not self._keep or name in self._keep)
        }
        own.update(dict.fromkeys(self._remove.intersection(_OF_DOCUMENT), ""))
        return (replace(item, metadata=bounded(pairs_of(kept)), **own),)


# A function that returns the values of an expression. Its argument is the metadata from before the stage.
_Expression = Callable[[Mapping[str, tuple[str, ...]]], list[str]]


def _read_expression(text: str) -> _Expression:
    """
    Return a function that computes the values of an expression.

    Raises:
        BadPattern: one of its patterns is invalid.
    """
    parts: list[str | tuple[str, Pattern | None, int]] = []
    end = 0
    for found in _FIELD.finditer(text):
        parts.append(text[end : found.start()])
        pattern = None if found[2] is None else compile_pattern(found[2])
        parts.append((found[1].strip().lower(), pattern, int(found[3] or 0)))
        end = found.end()
    parts.append(text[end:])

    def values(before: Mapping[str, tuple[str, ...]]) -> list[str]:
        choices = [[part] if isinstance(part, str) else list(_values_of(part, before)) for part in parts]
        results: list[str] = []
        for chosen in product(*choices):
            results.append("".join(chosen))
            if len(results) >= MOST_VALUES:
                break
        return results

    return values


def _values_of(part: tuple[str, Pattern | None, int], before: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    name, pattern, group = part
    for value in before.get(name, ()):
        if pattern is None:
            yield value
            continue
        match: Any = pattern.search(value)
        if match is not None and match[group] is not None:
            yield match[group]


def _split(line: str) -> tuple[str, str]:
    """Return the texts before and after the first equals sign. The first text is a name, in lower case."""
    name, _, text = line.partition("=")
    return name.strip().lower(), text.strip()


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    return {
        "rename": list(_problems_of(values.get("rename", ()), example="og:title = headline")),
        "set": list(_problems_of(values.get("set", ()), example="site = intranet", are_expressions=True)),
        "remove": [f"{name} cannot be removed." for name in values.get("remove", ()) if name.lower() in _READ_ONLY],
    }


def _problems_of(lines: Iterable[str], *, example: str, are_expressions: bool = False) -> Iterator[str]:
    for line in lines:
        name, text = _split(line)
        target = name if are_expressions else text.lower()
        if "=" not in line or not name or not text:
            yield f"{line!r} is invalid. Write {example!r}."
        elif target in _READ_ONLY or (not are_expressions and name in _READ_ONLY):
            yield f"{line!r} is invalid: {' and '.join(_READ_ONLY)} can only be read."
        elif are_expressions:
            yield from _problems_of_expression(text)


def _problems_of_expression(text: str) -> Iterator[str]:
    if "${" in _FIELD.sub("", text):
        yield f"{text!r} has a field that is not complete. Write ${{name}} or ${{name|expression|group}}."
    for found in _FIELD.finditer(text):
        if found[2] is None:
            continue
        try:
            groups = getattr(compile_pattern(found[2]), "groups", 0)
        except BadPattern as error:
            yield f"{error}."
            continue
        if int(found[3]) > groups:
            yield f"{found[2]!r} has no group {found[3]}."


ADJUST: Final = TransformationKind(
    name="metadata",
    label=_("Metadata adjuster"),
    help=_("Renames, sets and removes metadata."),
    settings=_SETTINGS,
    open=MetadataAdjuster,
    judge=_judge,
)
