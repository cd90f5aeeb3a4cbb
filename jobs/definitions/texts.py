"""
Definitions as YAML and JSON.

The reader of YAML accepts what the writer writes and what people write by hand: mappings with texts as keys, lists,
texts, numbers, `true`, `false` and `null`. It refuses aliases, tags and repeated keys, and reads no dates and no `yes`.
So a small file never becomes a large value, and a value never has an unexpected type.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from rest_framework.exceptions import ParseError

from nodes.api.parsing import read_json

YAML: Final = "yaml"
JSON: Final = "json"
FORMATS: Final = (YAML, JSON)
# Largest file that is read (bytes). A job with 100,000 addresses has about 8 MB.
MOST_BYTES: Final = 64 * 1024 * 1024
# Largest depth of mappings and lists inside each other.
_MOST_DEPTH: Final = 60
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# Longest line before the writer folds a text (characters).
_WIDTH: Final = 10_000
# Texts that the writer quotes: without quotes, a reader would not read them as texts.
_NULL: Final = re.compile(r"~|null|Null|NULL|")
_TRUTH: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?")
# Longest number (characters).
_MOST_DIGITS: Final = 400


class BadText(ValueError):
    """A text is not YAML or JSON, or has a part that definitions never have. The message is a sentence."""


class _Writer(_Dumper):  # type: ignore[misc]  # one of two classes
    """Writes a list of numbers on one line, and every other list and mapping in block style. It writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _write_list(writer: Any, values: list[Any]) -> yaml.Node:  # noqa: ANN401 (the dumper has no types)
    short = all(isinstance(value, int) for value in values)
    node: yaml.Node = writer.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=short)
    return node


_Writer.add_representer(list, _write_list)


def write(definitions: Iterable[dict[str, Any]], *, text_format: str) -> Iterator[str]:
    """Yield the text of these definitions in parts: YAML documents, or a list in JSON."""
    if text_format == YAML:
        for place, definition in enumerate(definitions):
            yield ("---\n" if place else "") + as_yaml(definition)
        return
    before = "["
    for definition in definitions:
        yield f"{before}\n{as_json(definition)}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def as_yaml(value: object) -> str:
    text: str = yaml.dump(
        value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=False
    )
    return text


def as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def read(text: bytes, *, text_format: str) -> list[Any]:
    """
    Return the values of a text: one value from JSON, or one for each document of YAML.

    Raises:
        BadText: the text is not valid in its format, or has a part that definitions never have.
    """
    if len(text) > MOST_BYTES:
        raise BadText(f"It has more than {MOST_BYTES:,} bytes. Split it.")
    if text_format == YAML:
        return read_yaml(text)
    try:
        return [read_json(text)]
    except ParseError as error:
        raise BadText(str(error.detail).replace("The body", "It", 1)) from None


def read_yaml(text: bytes) -> list[Any]:
    """
    Return the value of each document of a text in YAML.

    Raises:
        BadText: the text is not valid YAML, or has a part that definitions never have.
    """
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadText(f"It is not UTF-8, at byte {error.start}.") from None
    documents: list[Any] = []
    building = _Building()
    try:
        for event in yaml.parse(decoded, Loader=_Loader):
            match event:
                case yaml.DocumentStartEvent():
                    building = _Building()
                case yaml.DocumentEndEvent():
                    documents.append(building.value)
                case yaml.StreamStartEvent() | yaml.StreamEndEvent():
                    pass
                case _:
                    building.add(event)
    except yaml.YAMLError as error:
        raise BadText(f"It is not YAML{_where(getattr(error, 'problem_mark', None))}.") from None
    return documents


@dataclass(slots=True)
class _Open:
    """A mapping or a list that is being read. `key` is the key of the next value."""

    holds: dict[str, Any] | list[Any]
    key: str | None = None


@dataclass(slots=True)
class _Building:
    """The value of one document, made from the events of its text."""

    value: Any = None
    _open: list[_Open] = field(default_factory=list)

    def add(self, event: Any) -> None:  # noqa: ANN401 (a union of the library's classes)
        """
        Add the next part of the text.

        Raises:
            BadText: definitions have no such part.
        """
        where = _where(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            raise BadText(f"It has an alias (*{event.anchor}){where}. Write the value out.")
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._open.pop()
            return
        if event.tag is not None and event.tag != "!":
            raise BadText(f"It has a tag ({event.tag[:40]}){where}. Leave it out.")
        if isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event, where), where=where, is_text=True)
        else:
            self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], where=where)

    def _begin(self, holds: dict[str, Any] | list[Any], *, where: str) -> None:
        if len(self._open) >= _MOST_DEPTH:
            raise BadText(f"It is nested too deeply{where}.")
        self._put(holds, where=where, is_text=False)
        self._open.append(_Open(holds))

    def _put(self, value: Any, *, where: str, is_text: bool) -> None:  # noqa: ANN401 (any value of YAML)
        if not self._open:
            self.value = value
            return
        around = self._open[-1]
        if isinstance(around.holds, list):
            around.holds.append(value)
        elif around.key is not None:
            around.holds[around.key] = value
            around.key = None
        elif not is_text or not isinstance(value, str):
            raise BadText(f"It has a key that is not a text{where}. Put the key in quotes.")
        elif value in around.holds:
            raise BadText(f"It has the key {value[:40]!r} twice{where}.")
        else:
            around.key = value


def _scalar(event: yaml.ScalarEvent, where: str) -> str | int | float | bool | None:
    text: str = event.value
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise BadText(f"It has a character that cannot be stored{where}.")
    if not event.implicit[0]:
        return text
    if _NULL.fullmatch(text):
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    is_whole = _WHOLE.fullmatch(text) is not None
    if not is_whole and not _NUMBER.fullmatch(text):
        return text
    if len(text) > _MOST_DIGITS:
        raise BadText(f"It has a number that is out of range{where}.")
    number = int(text) if is_whole else float(text)
    if number in {float("inf"), float("-inf")}:
        raise BadText(f"It has a number that is out of range{where}.")
    return number


def _where(mark: Any) -> str:  # noqa: ANN401 (a class of either loader)
    return "" if mark is None else f", at line {mark.line + 1}, column {mark.column + 1}"
