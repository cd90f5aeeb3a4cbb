"""Rows by column: a statement takes many rows as one array for each of their columns."""

from collections.abc import Sequence
from typing import Any


def columns_of(rows: Sequence[tuple[Any, ...]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return each column of `rows` under its name; empty columns if there are no rows."""
    if not rows:
        return {name: [] for name in names}
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
