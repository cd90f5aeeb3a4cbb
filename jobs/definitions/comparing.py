"""The fields in which two definitions of an object differ."""

from collections.abc import Iterator
from typing import Any, Final

from jobs.definitions.reading import Definition
from nodes.membership.changes import Differences, differences

# Number of items of a list above which a change shows only the items that differ.
_LONG: Final = 20


def differences_of(before: Definition, after: Definition) -> Differences:
    """Return the fields that differ. A long list shows only the items that differ."""
    old, new = dict(_by_place(before)), dict(_by_place(after))
    for place in old.keys() & new.keys():
        lists = old[place], new[place]
        if all(isinstance(values, list) and len(values) > _LONG for values in lists) and lists[0] != lists[1]:
            known = set(lists[0]), set(lists[1])
            gone = [value for value in lists[0] if value not in known[1]]
            come = [value for value in lists[1] if value not in known[0]]
            if gone or come:
                old[place], new[place] = gone, come
    return differences(old, new)


def _by_place(value: Any, *, place: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 (JSON)
    """Yield the values of nested mappings and lists, each with its place. A list of texts or numbers is one value."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _by_place(inner, place=f"{place}.{name}" if place else name)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, inner in enumerate(value):
            yield from _by_place(inner, place=f"{place}.{number}")
    else:
        yield place, value
