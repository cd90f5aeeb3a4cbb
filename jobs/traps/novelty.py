"""
New content: the lines of a page that no page of its host had before.

Lines are better evidence than a hash of the whole page. A calendar has a new date on each page, a sorted list has the
same items in another order, and a missing page repeats its address. None of these pages has a new line. Therefore
dates, the path or its last segment, and words of the query are ignored, and a line of letters is compared without its
numbers. Other words of the path count, because a page of a reference manual may have little new content besides a name.

The memory for each host is limited. A line that did not occur for a long time is forgotten, and counts as new again. So
the radar may count too much new content, but never too little.
"""

import re
from collections.abc import Iterator
from typing import Final

from jobs.traps.templates import Grouped

# Largest numbers of compared lines of a page, and of characters of each line.
_LINES: Final = 300
_LINE_CHARACTERS: Final = 500
# Number of lines that are remembered for a host: at least this number, and at most twice this number.
_REMEMBERED: Final = 8_000
# Number of new lines of numbers alone that make a page new. A page with fewer may be a counter or a clock.
_NEW_NUMBERS: Final = 3
# A line is rare if at most this number of pages at plain addresses had it. The second number is the number of rare
# lines that make a page new.
_COPIES: Final = 2
_RARE_LINES: Final = 2
# Largest number that may be a day, an hour, a minute or a second.
_OF_A_CLOCK: Final = 59
_YEARS: Final = range(1900, 2200)

_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"[0-9][0-9.,:/-]*")
_ID: Final = re.compile(r"(?=[^0-9]*[0-9])[0-9a-z]{8,}")


class Lines:
    """The lines that one host had in one run, each with the number of plain addresses that had it, up to a few."""

    def __init__(self) -> None:
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def is_new(self, address: Grouped, text: str) -> bool:
        """
        True if the page has new content; remember its lines.

        A line that only addresses with a query or an odd path had before is new at a plain address. So a page counts as
        new even if its version for printing was read first.

        A page at a plain address may also differ from another page by a few words only, such as a function that is
        documented for another processor. So lines that few pages had make it new, too. The lines of a trap are soon on
        many pages.
        """
        words = numbers = rare = 0
        for key, has_words in dict(_lines_of(address, text)).items():
            pages = self._young.get(key)
            if pages is None:
                pages = self._old.get(key)
            if pages is None or (address.is_plain and not pages):
                words += has_words
                numbers += not has_words
            elif address.is_plain and pages <= _COPIES:
                rare += has_words
            self._young[key] = min((pages or 0) + address.is_plain, _COPIES + 1)
            if len(self._young) >= _REMEMBERED:
                self._old, self._young = self._young, {}
        return words > 0 or numbers >= _NEW_NUMBERS or rare >= _RARE_LINES


def _lines_of(address: Grouped, text: str) -> Iterator[tuple[int, bool]]:
    """Yield the key of each line that has more than ignored parts, and True if the line has words."""
    for line in text.lower().split("\n", _LINES)[:_LINES]:
        said = line[:_LINE_CHARACTERS]
        for echo in address.echoes:
            if echo in said:
                said = said.replace(echo, " ")
        words = [word for word in _WORD.findall(said) if not word.isdecimal() and not _ID.fullmatch(word)]
        if words:
            # A line that has only words of the query is probably a title. Its words are compared, because nothing else
            # is left.
            own = [word for word in words if word not in address.words] or words
            yield hash(" ".join(own)), True
        elif numbers := [number for number in _NUMBER.findall(said) if not _is_of_a_calendar(number)]:
            yield hash(" ".join(numbers)), False


def _is_of_a_calendar(number: str) -> bool:
    return all(
        len(part) <= 4 and (int(part) <= _OF_A_CLOCK or int(part) in _YEARS)
        for part in re.split("[:/-]", number.strip(".,:/-"))
        if part.isdecimal()
    ) and not re.search("[0-9][.,][0-9]", number)
