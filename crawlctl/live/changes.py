"""What a newer screen says that the one before did not: so that a page is sent what changed, and not all that it shows."""

from collections.abc import Sequence
from typing import TypeGuard

from jobs.ui.screens import Record


def changes(before: Record, after: Record) -> Record:
    """
    Return the names of a screen whose texts or lists are not what they were.

    Of a list that changed all rows are there, in their order: those that were there before with their `key` and what
    changed of them, new ones as they are.
    """
    found: dict[str, object] = {}
    for name, value in after.items():
        was = before.get(name)
        if value != was:
            found[name] = _rows(was, value) if _is_list(was) and _is_list(value) else value
    return found


def _rows(before: Sequence[Record], after: Sequence[Record]) -> list[Record]:
    known = {row["key"]: row for row in before}
    return [{"key": row["key"], **changes(known[row["key"]], row)} if row["key"] in known else row for row in after]


def _is_list(value: object) -> TypeGuard[Sequence[Record]]:
    return isinstance(value, Sequence) and not isinstance(value, str)
