"""
What a setting's value can be: how it is read from a text (environment, command line) and from JSON.

A value that cannot be is refused with a sentence, never replaced by the default, since the operator
meant something by it.
"""

import datetime as dt
import re
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

# What PostgreSQL's bigint holds; far more digits would also cost int() far more time.
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

# A century is longer than any duration that we wait for, and short enough to be added to any date.
A_CENTURY: Final = 100 * 365 * 24 * 3600


class NotOfThisKind(ValueError):
    """A setting cannot have this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[_T]):
    """One kind of values. `allowed` says in words what they are."""

    @property
    def allowed(self) -> str:
        raise NotImplementedError

    def from_text(self, text: str) -> _T:
        """
        Read what stands in a variable or on a command line.

        Raises:
            NotOfThisKind: it cannot be that.
        """
        raise NotImplementedError

    def from_json(self, value: object) -> _T:
        """
        Read a value of parsed JSON.

        Raises:
            NotOfThisKind: it cannot be that.
        """
        raise NotImplementedError

    def as_json(self, value: _T) -> object:
        """The value as JSON has it; `from_json` reads it back."""
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Kind[str]):
    """
    A line of text. `most` characters at most, and `ascii_only` where it goes into a header.

    It `matches` an expression as a whole, which `what` puts into words.
    """

    what: str = "a text"
    most: int | None = None
    ascii_only: bool = False
    matches: str = ""

    @property
    def allowed(self) -> str:
        limits = [f"of at most {self.most} characters"] if self.most else []
        limits += ["in printable ASCII, not empty"] if self.ascii_only else []
        return " ".join([self.what, *limits])

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
    """One of some words, in any case of letters."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)

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
    """Words apart by commas, or by blanks; blanks around a word do not count."""

    apart_by: str = ","

    @property
    def allowed(self) -> str:
        return "words, separated by " + ("commas" if self.apart_by == "," else "blanks")

    def from_text(self, text: str) -> tuple[str, ...]:
        parts = text.split(",") if self.apart_by == "," else text.split()
        return tuple(word.strip() for word in parts if word.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNumber(Kind[int]):
    """A whole number in a range, of `unit`s."""

    least: int = 0
    most: int
    unit: str = ""

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def from_text(self, text: str) -> int:
        if not _INTEGER.fullmatch(text.strip()):
            raise NotOfThisKind
        return self._in_range(int(text))

    def from_json(self, value: object) -> int:
        # Python takes true for a 1.
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotOfThisKind
        return self._in_range(value)

    def _in_range(self, value: int) -> int:
        if not self.least <= value <= self.most:
            raise NotOfThisKind
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Kind[bool]):
    """Yes or no."""

    @property
    def allowed(self) -> str:
        return "true or false"

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

    @property
    def allowed(self) -> str:
        return f"a number of seconds from {self.least:.15g} to {self.most:.15g}"

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
        # Infinity is above the most, and what is no number is not in between.
        if not self.least <= value <= self.most:
            raise NotOfThisKind
        return dt.timedelta(seconds=value)
