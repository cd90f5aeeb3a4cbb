"""A part of an export: its next rows, and the types of their columns."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A field of a filter, checked.
Query = Mapping[str, Any]
Row = tuple[Any, ...]


class Type(enum.Enum):
    """The type of a column."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    MOMENT = "moment"


@dataclass(frozen=True, slots=True)
class Part:
    """The next rows of an export, and the cursor after them, which is JSON; None at the end."""

    rows: Sequence[Row]
    next: Any
