"""
The kinds of values that a setting can have: how each is parsed from text (environment, command line) and from JSON.

An invalid value is refused with a sentence. It is never replaced by the default, because the operator wanted another
value.
"""

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

# Whole numbers with at most 18 digits, which PostgreSQL's bigint can hold. With far more digits int() would also take
# far more time.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLAGS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}

# Upper limit of a duration (seconds): longer than any wait, and short enough to be added to any date.
A_CENTURY: Final = 100 * 365 * 24 * 3600


class NotOfThisKind(ValueError):
    """A setting cannot have this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[_T]):
    """One kind of values."""

    @property
    def allowed(self) -> str:
        """Return a description of the values, in English."""
        return self.describe(str)

    def describe(self, translate: Callable[[str], str]) -> str:
        """Return a description of the values. `translate` gets each text of it before values are inserted."""
        raise NotImplementedError

    def from_text(self, text: str) -> _T:
        """
        Parse the text of a variable or of a command line.

        Raises:
            NotOfThisKind: the value is invalid.
        """
        raise NotImplementedError

    def from_json(self, value: object) -> _T:
        """
        Check a value of parsed JSON, and return it as a value of this kind.

        Raises:
            NotOfThisKind: the value is invalid.
        """
        raise NotImplementedError

    def as_json(self, value: _T) -> object:
        """Return the value as JSON. `from_json` reads it back."""
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Kind[str]):
    """
    A line of text of at most `most` characters. `ascii_only` is for values that go into a header.

    The whole text matches the expression `matches`, which `what` describes.
    """

    what: str = "a text"
    most: int | None = None
    ascii_only: bool = False
    matches: str = ""

    def describe(self, translate: Callable[[str], str]) -> str:
        limits = [translate("of at most %(most)s characters") % {"most": self.most}] if self.most else []
        limits += [translate("in printable ASCII, not empty")] if self.ascii_only else []
        return " ".join([translate(self.what), *limits])

    def from_text(self, text: str) -> str:
        if self.most is not None and len(text) > self.most:
            raise NotOfThisKind
        if self.ascii_only and not (text.isascii() and text.isprintable() and text.strip()):
            raise NotOfThisKind
        if self.matches and re.fullmatch(self.matches, text) is None:
            raise NotOfThisKind
        return text

    def from_json(self, value: object) -> str:
        if not isinstance(value, str):
            raise NotOfThisKind
        return self.from_text(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Kind[str]):
    """One of several words, in capitals or small letters."""

    words: tuple[str, ...]

    def describe(self, translate: Callable[[str], str]) -> str:
        return translate("one of %(words)s") % {"words": ", ".join(self.words)}

    def from_text(self, text: str) -> str:
        if text.strip().upper() not in self.words:
            raise NotOfThisKind
        return text.strip().upper()

    def from_json(self, value: object) -> str:
        if not isinstance(value, str):
            raise NotOfThisKind
        return self.from_text(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(Kind[tuple[str, ...]]):
    """
    Words separated by commas or by blanks. Blanks around a word are ignored.

    Each word matches the expression `matches`, which `what` describes.
    """

    apart_by: str = ","
    what: str = "words"
    matches: str = ""

    def describe(self, translate: Callable[[str], str]) -> str:
        separated = "%(what)s, separated by commas" if self.apart_by == "," else "%(what)s, separated by blanks"
        return translate(separated) % {"what": translate(self.what)}

    def from_text(self, text: str) -> tuple[str, ...]:
        parts = text.split(",") if self.apart_by == "," else text.split()
        words = tuple(word.strip() for word in parts if word.strip())
        if self.matches and not all(re.fullmatch(self.matches, word) for word in words):
            raise NotOfThisKind
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNumber(Kind[int]):
    """A whole number in a range, in `unit`s."""

    least: int = 0
    most: int
    unit: str = ""

    def describe(self, translate: Callable[[str], str]) -> str:
        return translate("a whole number from %(least)s to %(most)s") % {"least": self.least, "most": self.most}

    def from_text(self, text: str) -> int:
        if not _INTEGER.fullmatch(text.strip()):
            raise NotOfThisKind
        return self._in_range(int(text))

    def from_json(self, value: object) -> int:
        # In Python, bool is a subclass of int: without this check, true would count as 1.
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotOfThisKind
        return self._in_range(value)

    def _in_range(self, value: int) -> int:
        if not self.least <= value <= self.most:
            raise NotOfThisKind
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Kind[bool]):
    """True or false."""

    def describe(self, translate: Callable[[str], str]) -> str:
        return translate("true or false")

    def from_text(self, text: str) -> bool:
        try:
            return _FLAGS[text.strip().lower()]
        except KeyError:
            raise NotOfThisKind from None

    def from_json(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise NotOfThisKind
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds(Kind[dt.timedelta]):
    """A duration, given as a number of seconds in a range."""

    least: float = 0
    most: float = A_CENTURY

    def describe(self, translate: Callable[[str], str]) -> str:
        limits = {"least": f"{self.least:.15g}", "most": f"{self.most:.15g}"}
        return translate("a number of seconds from %(least)s to %(most)s") % limits

    def from_text(self, text: str) -> dt.timedelta:
        if not _NUMBER.fullmatch(text.strip()):
            raise NotOfThisKind
        return self._in_range(float(text))

    def from_json(self, value: object) -> dt.timedelta:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise NotOfThisKind
        return self._in_range(value)

    def as_json(self, value: dt.timedelta) -> object:
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds

    def _in_range(self, value: float) -> dt.timedelta:
        # Refuses infinity, which is above `most`, and NaN, which compares false.
        if not self.least <= value <= self.most:
            raise NotOfThisKind
        return dt.timedelta(seconds=value)
