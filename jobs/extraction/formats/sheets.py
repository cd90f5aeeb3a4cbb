"""Reads the cells of workbooks. The text has a line for each row, and cells with dates show dates."""

import datetime as dt
import re
from typing import Final

from jobs.extraction.budget import Budget
from jobs.extraction.formats.container import Container
from jobs.extraction.formats.raw import in_lines
from jobs.extraction.formats.xml import XmlHandler

_SHEET: Final = re.compile(r"xl/worksheets/sheet([0-9]{1,9})\.xml")
# Ids of the built-in number formats that show dates or times.
_DATE_FORMATS: Final = frozenset({*range(14, 23), 27, 30, 36, *range(45, 48), 50, 57})
_LITERALS: Final = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
_DATE_LETTERS: Final = re.compile(r"[dy]|h+:|m+[/-]|[/-]m", re.IGNORECASE)
_EPOCH: Final = dt.datetime(1899, 12, 30)  # noqa: DTZ001 (dates of workbooks have no zone)
_LAST_DAY: Final = 2_958_465


def read_sheets(container: Container, budget: Budget) -> str:
    """
    Return the names of all sheets, and then their texts.

    Raises:
        ExtractionFailed: the file is damaged, encrypted, or larger than the budget.
    """
    strings = _Strings(budget)
    if "xl/sharedStrings.xml" in container:
        container.read_xml("xl/sharedStrings.xml", strings)
    styles = _Styles()
    if "xl/styles.xml" in container:
        container.read_xml("xl/styles.xml", styles)
    names = _SheetNames()
    container.read_xml("xl/workbook.xml", names)
    sheets = sorted((int(found[1]), name) for name in container.names() if (found := _SHEET.fullmatch(name)))
    texts = list(names.found)
    for _number, name in sheets:
        cells = _Cells(strings.found, styles.dates, budget)
        container.read_xml(name, cells)
        texts.append("".join(cells.pieces))
    return in_lines("\n".join(texts))


class _SheetNames(XmlHandler):
    def __init__(self) -> None:
        self.found: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sheet" and attributes.get("name"):
            self.found.append(attributes["name"])


class _Strings(XmlHandler):
    """Reads the table of the texts of a workbook. Cells refer to a text by its number in this table."""

    def __init__(self, budget: Budget) -> None:
        self.found: list[str] = []
        self._pieces: list[str] = []
        self._in_text = self._in_phonetic = 0
        self._left = budget.limits.characters

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._in_text += name == "t"
        self._in_phonetic += name == "rPh"

    def text(self, text: str) -> None:
        if self._in_text and not self._in_phonetic and self._left > 0:
            self._pieces.append(text)
            self._left -= len(text)

    def end(self, name: str) -> None:
        self._in_text -= name == "t"
        self._in_phonetic -= name == "rPh"
        if name == "si":
            self.found.append("".join(self._pieces))
            self._pieces.clear()


class _Styles(XmlHandler):
    """Reads the styles of a workbook. `dates` has True for each style that shows numbers as dates."""

    def __init__(self) -> None:
        self.dates: list[bool] = []
        self._custom: set[int] = set()
        self._in_cells = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        number = _number(attributes.get("numFmtId", ""))
        if name == "numFmt" and _DATE_LETTERS.search(_LITERALS.sub("", attributes.get("formatCode", ""))):
            self._custom.add(number)
        elif name == "cellXfs":
            self._in_cells = True
        elif name == "xf" and self._in_cells:
            self.dates.append(number in _DATE_FORMATS or number in self._custom)

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cells = False


class _Cells(XmlHandler):
    """Reads the cells of one sheet into the lines of its text."""

    def __init__(self, strings: list[str], dates: list[bool], budget: Budget) -> None:
        self.pieces: list[str] = []
        self._strings, self._dates = strings, dates
        self._left = budget.limits.characters
        self._type, self._style = "", -1
        self._value: list[str] = []
        self._in_value = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._type, self._style = attributes.get("t", "n"), _number(attributes.get("s", ""))
            self._value.clear()
        elif name in {"v", "t"}:
            self._in_value = True

    def text(self, text: str) -> None:
        if self._in_value:
            self._value.append(text)

    def end(self, name: str) -> None:
        if name in {"v", "t"}:
            self._in_value = False
        elif name == "c":
            self._add(self._shown("".join(self._value)) + "\t")
        elif name == "row":
            self._add("\n")

    def _add(self, text: str) -> None:
        # The limit counts each use of a shared text: a million cells may use a text of a million characters.
        if self._left >= 0:
            self.pieces.append(text[: self._left + 1])
            self._left -= len(text)

    def _shown(self, value: str) -> str:
        if self._type == "s":
            number = _number(value)
            return self._strings[number] if 0 <= number < len(self._strings) else ""
        if self._type == "b":
            return "TRUE" if value == "1" else "FALSE"
        if self._type == "n" and 0 <= self._style < len(self._dates) and self._dates[self._style]:
            return _date_of(value)
        return value


def _date_of(value: str) -> str:
    try:
        days = float(value)
    except ValueError:
        return value
    if not 0 <= days <= _LAST_DAY:
        return value
    moment = _EPOCH + dt.timedelta(seconds=round(days * 86_400))
    return moment.date().isoformat() if days == int(days) else moment.isoformat(sep=" ")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
