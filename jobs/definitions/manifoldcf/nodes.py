"""
ManifoldCF's JSON as a tree that knows which of its parts were converted.

An attribute has the prefix `_attribute_`, a text beside attributes is `_value_`, several children of one type are a
list, and `_children_` keeps children of mixed types in their order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_ATTRIBUTE: Final = "_attribute_"
_VALUE: Final = "_value_"
_CHILDREN: Final = "_children_"
_TYPE: Final = "_type_"
_NO_PLACE: Final = "crawlctl has no equivalent."


@dataclass(frozen=True, slots=True)
class Note:
    """A part that was not converted, or not exactly, with its place and the reason."""

    place: str
    why: str


@dataclass(slots=True)
class Part:
    """
    One object of the JSON. A converter takes its children one after the other. At the end, `left` notes the children
    that were not taken.
    """

    kind: str
    place: str
    notes: list[Note]
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Part"] = field(default_factory=list)

    def take_attribute(self, name: str) -> str:
        return self.attributes.pop(name, "")

    def take_text(self) -> str:
        text, self.text = self.text, ""
        return text

    def take(self, kind: str) -> list["Part"]:
        """Take the children of this type, and return them. They no longer count as left over."""
        found = [child for child in self.children if child.kind == kind]
        self.children = [child for child in self.children if child.kind != kind]
        return found

    def take_one(self, kind: str) -> str:
        """Return the text of the only child of this type, or "" if there is none."""
        found = self.take(kind)
        for other in found[1:]:
            other.refuse("It is given twice. The first one was taken.")
        return found[0].take_text().strip() if found else ""

    def refuse(self, why: str = _NO_PLACE) -> None:
        """Note that this part was not converted, unless it is empty."""
        if self._has_content():
            self.notes.append(Note(self.place, why))
        self.text, self.attributes, self.children = "", {}, []

    def note(self, why: str) -> None:
        self.notes.append(Note(self.place, why))

    def left(self) -> None:
        """Note each part that was not taken."""
        for name, value in self.attributes.items():
            if value:
                self.notes.append(Note(f"{self.place}.{_ATTRIBUTE}{name}", _NO_PLACE))
        if self.text.strip():
            self.notes.append(Note(self.place, _NO_PLACE))
        for child in self.children:
            child.refuse()

    def _has_content(self) -> bool:
        values = [self.text, *self.attributes.values()]
        return any(value.strip() for value in values) or any(child._has_content() for child in self.children)  # noqa: SLF001 (of the same class)


def parts_of(raw: object, *, kind: str, place: str, notes: list[Note]) -> Iterator[Part]:
    """Yield a `Part` for each value of a list, or for the one value that is no list."""
    if isinstance(raw, list):
        for number, one in enumerate(raw):
            yield _part(one, kind=kind, place=f"{place}[{number}]", notes=notes)
    else:
        yield _part(raw, kind=kind, place=place, notes=notes)


def _part(raw: object, *, kind: str, place: str, notes: list[Note]) -> Part:
    part = Part(kind, place, notes)
    if not isinstance(raw, Mapping):
        part.text = _as_text(raw)
        return part
    for name, value in raw.items():
        if name == _VALUE:
            part.text = _as_text(value)
        elif name.startswith(_ATTRIBUTE):
            part.attributes[name.removeprefix(_ATTRIBUTE)] = _as_text(value)
        elif name == _CHILDREN:
            part.children += list(_mixed(value, place=place, notes=notes))
        elif name != _TYPE:
            part.children += list(parts_of(value, kind=name, place=f"{place}.{name}", notes=notes))
    return part


def _mixed(raw: Any, *, place: str, notes: list[Note]) -> Iterator[Part]:  # noqa: ANN401 (JSON)
    for number, one in enumerate(raw if isinstance(raw, list) else [raw]):
        kind = str(one.get(_TYPE, "")) if isinstance(one, Mapping) else ""
        yield _part(one, kind=kind, place=f"{place}.{_CHILDREN}[{number}]", notes=notes)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else "" if value is None else str(value)
