"""What a document is given by all of its parents together."""

from collections.abc import Iterable, Mapping

from jobs.connectors.repository.base import Carried


def merged(carried: Iterable[Mapping[str, Iterable[str]]]) -> Carried | None:
    """What several parents pass, together; None if that is nothing."""
    values: dict[str, set[str]] = {}
    for passed in carried:
        for name, some in passed.items():
            values.setdefault(name, set()).update(some)
    return {name: tuple(sorted(some)) for name, some in sorted(values.items()) if some} or None
