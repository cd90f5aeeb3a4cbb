"""
Endings of documents as numbers. A flush compares these numbers to find the documents whose result differs from the run
before.

A result is its outcome and its code in one small number. `endings` of a document are three facts in one number: its last
result, the run of that result, and its result before that run.
"""

import zlib
from enum import StrEnum
from typing import Final, NamedTuple

# A result is 1,000 * outcome + code. Codes that are not a number of three digits are 1 to 99, by their checksum.
_OUTCOME: Final = 1_000
_TEXTS: Final = 99
_BITS: Final = 13
_MASK: Final = (1 << _BITS) - 1
# Number of runs that an ending distinguishes. A document that was not read in 31 runs may look as if it was read in
# this run.
_RUNS: Final = 32
# The number for a document without a result.
NOTHING: Final = 0
_INDEXED: Final = 1
_READ: Final = frozenset({_INDEXED, 2})
# SQL expression for the last result of a document.
LAST_RESULT: Final = f"item.endings & {_MASK}"
# The assumed result of a document that is in an output and has no recorded result.
_KNOWN_ONLY_AS_INDEXED: Final = _OUTCOME * _INDEXED


class Kind(StrEnum):
    """
    Kinds of documents that differ.

    A new document was unknown at the end of the earlier run, and a gone one at the end of the later run. A changed
    document was read in both runs and has another version. The other kinds have another result. A result is worse if
    the document failed or was excluded only in the later run, and better if it failed or was excluded only in the
    earlier run.
    """

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"
    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"


class Flip(NamedTuple):
    """
    A document that ended in a run with the result `after`, and had the result `before` at the start of the run.
    `amount` is 1, or -1 to subtract a flip that was counted earlier.
    """

    before: int
    after: int
    amount: int


def result_of(outcome: int, code: str) -> int:
    """Return an outcome and its code as a result."""
    if code.isdecimal() and len(code) == 3 and code >= "100":
        return _OUTCOME * outcome + int(code)
    return _OUTCOME * outcome + (1 + zlib.crc32(code.encode()) % _TEXTS if code else 0)


def outcome_of(result: int) -> int:
    return result // _OUTCOME


def code_of(result: int) -> str:
    """Return the code of a result if it is a number; '' otherwise."""
    code = result % _OUTCOME
    return str(code) if code > _TEXTS else ""


def kind_of_flip(before: int, after: int) -> Kind | None:
    """Return the kind of change from the first result of a document to the second one; None if nothing changed."""
    if NOTHING in {before, after}:
        return None if before == after else Kind.NEW if before == NOTHING else Kind.GONE
    was_read, is_read = outcome_of(before) in _READ, outcome_of(after) in _READ
    if was_read and is_read:
        return Kind.CHANGED if outcome_of(after) == _INDEXED else None
    if was_read != is_read:
        return Kind.WORSE if was_read else Kind.BETTER
    return Kind.OTHER if before != after else None


def end(endings: int, *, run_no: int, result: int, is_indexed: bool) -> tuple[int, list[Flip]]:
    """
    Return the endings of a document that ends in this run with this result, and its flips.

    A document that `is_indexed` but has no recorded result was read by a release that recorded none.
    """
    last, before, run = endings & _MASK, endings >> _BITS & _MASK, endings >> 2 * _BITS
    flips = []
    if last != NOTHING and run == run_no % _RUNS:
        # The document has ended in this run before: subtract the flip that was counted then.
        if kind_of_flip(before, last):
            flips.append(Flip(before, last, -1))
    else:
        before = last or (_KNOWN_ONLY_AS_INDEXED if is_indexed else NOTHING)
    if kind_of_flip(before, result):
        flips.append(Flip(before, result, 1))
    return (run_no % _RUNS << 2 * _BITS) | (before << _BITS) | result, flips
