"""The list of faults that a command prints."""

from collections.abc import Iterator
from typing import Any, Final

from django.db.models import QuerySet

# Faults that a command names without --all.
SHOWN: Final = 20


def lines_of(faults: QuerySet[Any], *, names_all: bool) -> Iterator[str]:
    """Yield a line for each fault, and one with the number of faults that have none."""
    for fault in faults if names_all else faults[:SHOWN]:
        yield f"{fault.kind} {fault} {fault.result}".rstrip()
    left = 0 if names_all else faults.count() - SHOWN
    if left > 0:
        yield f"More faults: {left:,}. Name them with --all."
