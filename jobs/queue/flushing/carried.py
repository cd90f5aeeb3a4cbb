"""Carry-down: the union of the values that the parents of a document pass to it."""

from collections.abc import Iterable, Mapping

from jobs.connectors.repository.base import Carried


def merged(carried: Iterable[Mapping[str, Iterable[str]]]) -> Carried | None:
    """Return the union of the values that several parents pass; None if it is empty."""
    values: dict[str, set[str]] = {}
    for passed in carried:
        for name, some in passed.items():
            values.setdefault(name, set()).update(some)
    return {name: tuple(sorted(some)) for name, some in sorted(values.items()) if some} or None
