"""
Typed reading of environment variables.

A variable that is unset or empty means the default: compose files and unit files can often only
write `NAME=`, not leave the name out. A value that cannot be what it should be is refused with a
sentence, never replaced by the default, since the operator meant something by it.
"""

import datetime as dt
import math
import os
import re

# What PostgreSQL's bigint holds; far more digits would also cost int() far more time.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}

# A century is longer than any duration that we wait for, and short enough to be added to any date.
_LONGEST_SECONDS = 100 * 365 * 24 * 3600


class SettingError(ValueError):
    """An environment variable holds a value that the setting cannot have."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        super().__init__(f"{name} is {value!r}: it must be {expected}")


def text(name: str, *, default: str = "") -> str:
    """Return the variable's value as it stands."""
    return os.environ.get(name) or default


def words(name: str) -> tuple[str, ...]:
    """Return what the variable names, separated by commas; blanks around a word do not count."""
    return tuple(word.strip() for word in text(name).split(",") if word.strip())


def integer(name: str, *, default: int, least: int = 0, most: int | None = None) -> int:
    """
    Return the variable as a whole number from `least` to `most`.

    Raises:
        SettingError: it is no whole number, or outside of that range.
    """
    value = text(name)
    if not value:
        return default
    found = int(value) if _INTEGER.fullmatch(value.strip()) else None
    if found is None or found < least or (most is not None and found > most):
        raise SettingError(name, value, f"a whole number {_range_in_words(least, most)}")
    return found


def number(name: str, *, default: float, least: float = 0, most: float | None = None) -> float:
    """
    Return the variable as a number from `least` to `most`.

    Raises:
        SettingError: it is no finite number, or outside of that range.
    """
    value = text(name)
    if not value:
        return default
    return _read_number(name, value, what="a number", least=least, most=most)


def flag(name: str, *, default: bool) -> bool:
    """
    Return the variable as a yes or no.

    Raises:
        SettingError: it is none of the usual spellings of the two.
    """
    value = text(name)
    if not value:
        return default
    try:
        return _FLAGS[value.strip().lower()]
    except KeyError:
        raise SettingError(name, value, "1, true, yes or on, or else 0, false, no or off") from None


def seconds(name: str, *, default: float, least: float = 0) -> dt.timedelta:
    """
    Return the variable, a number of seconds, as a duration of at least `least` seconds.

    Raises:
        SettingError: it is no number of seconds, or less than that, or more than a century.
    """
    value = text(name)
    if not value:
        return dt.timedelta(seconds=default)
    return dt.timedelta(
        seconds=_read_number(name, value, what="a number of seconds", least=least, most=_LONGEST_SECONDS)
    )


def _read_number(name: str, value: str, *, what: str, least: float, most: float | None) -> float:
    found = float(value) if _NUMBER.fullmatch(value.strip()) else math.nan
    if not math.isfinite(found) or found < least or (most is not None and found > most):
        raise SettingError(name, value, f"{what} {_range_in_words(least, most)}")
    return found


def _range_in_words(least: float, most: float | None) -> str:
    return f"from {least} up" if most is None else f"from {least} to {most}"
