"""The difference of two screens, so that a page receives only changed parts."""

from collections.abc import Sequence
from typing import TypeGuard

from nodes.web.screens import Record


def changes(before: Record, after: Record) -> Record:
    """
    Return the names and values of a screen whose texts or lists have changed.

    A changed list has all its rows, in order: earlier ones with their `key` and their changes, new ones as a whole.
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
