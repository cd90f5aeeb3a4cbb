"""Collects the text of Office and OpenDocument files, with their lines and without hidden elements."""

from collections.abc import Mapping, Set

from jobs.extraction.budget import Budget
from jobs.extraction.formats.xml import XmlHandler


class TextHandler(XmlHandler):
    """
    Collects the text of an XML file.

    Only text within the elements `texts` counts (within all elements if this is empty), except text within the elements
    `hidden`. Each element of `blocks` ends a line. `characters` has elements that stand for a character. The handler
    stops at the limit of the budget.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        texts: Set[str] = frozenset(),
        blocks: Set[str] = frozenset(),
        hidden: Set[str] = frozenset(),
        characters: Mapping[str, str] | None = None,
    ) -> None:
        self._texts, self._blocks, self._hidden = texts, blocks, hidden
        self._characters = characters or {}
        self._pieces: list[str] = []
        self._in_text = 0
        self._in_hidden = 0
        self._left = budget.limits.characters

    @property
    def collected(self) -> str:
        return "".join(self._pieces)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in self._texts:
            self._in_text += 1
        if name in self._hidden:
            self._in_hidden += 1
        elif (character := self._characters.get(name)) is not None:
            self._add(character)

    def end(self, name: str) -> None:
        if name in self._texts:
            self._in_text -= 1
        if name in self._hidden:
            self._in_hidden -= 1
        elif name in self._blocks:
            self._add("\n")

    def text(self, text: str) -> None:
        if (self._in_text or not self._texts) and not self._in_hidden:
            self._add(text)

    def _add(self, text: str) -> None:
        # One character above the limit is kept, which shows later that the text was cut.
        if self._left >= 0:
            self._pieces.append(text[: self._left + 1])
            self._left -= len(text)


class FieldsHandler(XmlHandler):
    """Collects the text of each element, by its local name, in the order of the file."""

    def __init__(self, *, most: int) -> None:
        self.found: list[tuple[str, dict[str, str], str]] = []
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self._most = most

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._open.append((name, attributes, []))

    def text(self, text: str) -> None:
        if self._open and len(self._open[-1][2]) < self._most:
            self._open[-1][2].append(text)

    def end(self, name: str) -> None:
        _name, attributes, pieces = self._open.pop()
        if len(self.found) < self._most:
            self.found.append((name, attributes, "".join(pieces)))
