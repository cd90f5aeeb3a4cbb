"""
Durations and windows as text in a form: `1 d 12 h`, and `days of week 1-5; hours 22; open 8 h; zone Europe/Berlin;
minimal`. The printed form can be parsed again.
"""

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any, Final

from jobs.lifecycle.schedule import Window

_UNITS: Final = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|s)\b")
_FIELDS: Final = ("days_of_week", "days_of_month", "months", "years", "hours", "minutes")
_MOST_NUMBERS: Final = 1_000


def parse_span(text: str) -> dt.timedelta:
    """
    Parse a duration.

    Raises:
        ValueError: the text is not a duration. The message can be shown.
    """
    if _SPAN.sub("", text).strip() or not text.strip():
        raise ValueError(f"{text!r} is not a duration. Write one such as 90 s, 15 min, 8 h or 1 d 12 h.")
    try:
        return dt.timedelta(seconds=sum(float(amount) * _UNITS[unit] for amount, unit in _SPAN.findall(text)))
    except OverflowError:
        raise ValueError(f"{text!r} is too long.") from None


def span_in_words(span: dt.timedelta) -> str:
    left = span.total_seconds()
    parts = []
    for unit, seconds in _UNITS.items():
        amount = left if unit == "s" else left // seconds
        if amount:
            parts.append(f"{amount:g} {unit}" if unit == "s" else f"{amount:.0f} {unit}")
        left -= amount * seconds
    return " ".join(parts) or "0 s"


def parse_window(text: str) -> Window:
    """
    Parse a window.

    Raises:
        ValueError: the text is not a window. The message can be shown.
    """
    said: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, value = _read_part(part)
        if name in said:
            raise ValueError(f"{part!r}: this field is given twice.")
        said[name] = value
    return Window(**said)


def window_in_words(window: Window) -> str:
    parts = [f"{name.replace('_', ' ')} {_ranges(numbers)}" for name in _FIELDS if (numbers := getattr(window, name))]
    if window.duration is not None:
        parts.append(f"open {span_in_words(window.duration)}")
    if window.time_zone != "UTC":
        parts.append(f"zone {window.time_zone}")
    if window.minimal:
        parts.append("minimal")
    return "; ".join(parts)


def _read_part(part: str) -> tuple[str, object]:
    if part == "minimal":
        return "minimal", True
    word, _, rest = part.partition(" ")
    if word == "open":
        return "duration", parse_span(rest)
    if word == "zone":
        return "time_zone", rest.strip()
    for name in _FIELDS:
        shown = name.replace("_", " ")
        if part.startswith(f"{shown} "):
            return name, _read_numbers(part.removeprefix(shown))
    known = ", ".join(name.replace("_", " ") for name in _FIELDS)
    raise ValueError(f"{part!r} is not a part of a window. Write one of: {known}, open, zone, minimal.")


def _read_numbers(text: str) -> tuple[int, ...]:
    numbers: set[int] = set()
    for piece in text.split(","):
        first, dash, last = (side.strip() for side in piece.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 9:
            raise ValueError(f"{text.strip()!r}: write numbers like 1-5,7.")
        begin, end = int(first), int(last) if dash else int(first)
        if end < begin or end - begin > _MOST_NUMBERS:
            raise ValueError(f"{piece.strip()!r}: write the smaller number first.")
        numbers |= set(range(begin, end + 1))
    return tuple(sorted(numbers))


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
