"""
The difference of two texts, piece by piece: a line, or a sentence of a long line.

The pieces of a longest common subsequence are equal (Hunt and McIlroy 1976; computed by RapidFuzz, bit-parallel after
Hyyrö 2004). The cost is bounded by the number of pieces, also for a hostile text.
"""

import enum
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import Indel

# Largest number of pieces of each text that are compared.
MOST_PIECES: Final = 5_000
# Longest piece (characters).
_LONGEST: Final = 500
# Number of equal pieces that are shown before and after a change.
_CONTEXT: Final = 2
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")


class Kind(enum.StrEnum):
    """The kind of a line of a difference."""

    EQUAL = "equal"
    REMOVED = "removed"
    ADDED = "added"
    # Pieces that are equal in both texts, and are left out. The text of the line is empty.
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference; `amount` is its number of pieces, 1 unless pieces are left out."""

    kind: Kind
    text: str
    amount: int = 1


@dataclass(frozen=True, slots=True)
class Difference:
    """The lines of a difference, with the numbers of pieces. `is_cut` is true if only the beginnings were compared."""

    lines: Sequence[Line]
    removed: int
    added: int
    is_cut: bool


def compare_texts(earlier: str, later: str) -> Difference:
    """Return the difference of two texts."""
    before, after = pieces_of(earlier), pieces_of(later)
    is_cut = max(len(before), len(after)) > MOST_PIECES
    before, after = before[:MOST_PIECES], after[:MOST_PIECES]
    lines: list[Line] = []
    for step in Indel.opcodes(before, after):
        if step.tag == "equal":
            is_first, is_last = not lines, step.src_end == len(before) and step.dest_end == len(after)
            lines += _shortened(before[step.src_start : step.src_end], is_first=is_first, is_last=is_last)
        else:
            lines += [Line(Kind.REMOVED, piece) for piece in before[step.src_start : step.src_end]]
            lines += [Line(Kind.ADDED, piece) for piece in after[step.dest_start : step.dest_end]]
    return Difference(
        lines=_removed_first(lines),
        removed=sum(line.kind is Kind.REMOVED for line in lines),
        added=sum(line.kind is Kind.ADDED for line in lines),
        is_cut=is_cut,
    )


def pieces_of(text: str) -> list[str]:
    """Return the pieces of a text without empty ones."""
    return [
        sentence[start : start + _LONGEST]
        for line in text.splitlines()
        for sentence in _SENTENCE_ENDS.split(line.strip())
        for start in range(0, len(sentence), _LONGEST)
    ]


def _shortened(equal: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[Line]:
    """Yield the lines of a run of equal pieces. Pieces far from a change are left out."""
    head = 0 if is_first else _CONTEXT
    tail = 0 if is_last else _CONTEXT
    left_out = len(equal) - head - tail
    if left_out < 2:
        yield from (Line(Kind.EQUAL, piece) for piece in equal)
        return
    yield from (Line(Kind.EQUAL, piece) for piece in equal[:head])
    yield Line(Kind.LEFT_OUT, "", left_out)
    yield from (Line(Kind.EQUAL, piece) for piece in equal[len(equal) - tail :])


def _removed_first(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; in each change, removed lines come before added lines."""
    changes = itertools.groupby(lines, lambda line: line.kind in {Kind.REMOVED, Kind.ADDED})
    return [line for _, group in changes for line in sorted(group, key=lambda line: line.kind is Kind.ADDED)]
