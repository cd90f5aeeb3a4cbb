"""
Metadata of documents: values by name, bounded in number and size.

Names are in lower case. A source uses its own names (`og:title`). Some names are the same for all sources: `author`,
`keywords`, `categories`, `published`, `modified`, `last_modified`, `owner`. `last_modified` is a date of the file or of
the answer, not of its text. So it does not belong to the version of a document: if only this date changes, the document
is not written to the outputs again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

# Values by name. An absent name has no values.
Metadata = Mapping[str, tuple[str, ...]]

LAST_MODIFIED: Final = "last_modified"
# Names whose values do not belong to the version of a document.
PASSING: Final = frozenset({LAST_MODIFIED})
# Largest numbers in one document: names, values of a name, characters of a name, of a value, and in total.
MOST_NAMES: Final = 100
MOST_VALUES: Final = 20
LONGEST_NAME: Final = 100
LONGEST_VALUE: Final = 1_000
MOST_CHARACTERS: Final = 16_384
# Names that pages use for the dates `published` and `modified`. The most exact name is the first.
_DATES: Final = {
    "published": (
        "article:published_time",
        "citation_publication_date",
        "dcterms.issued",
        "dc.date",
        "pubdate",
        "date",
    ),
    "modified": ("article:modified_time", "og:updated_time", "dcterms.modified", "last-modified"),
}


def bounded(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """
    Return the values by name. Each value occurs once, in the given order.

    Blanks are folded. Values beyond the limits are cut or left out.
    """
    found: dict[str, tuple[str, ...]] = {}
    size = 0
    for given, text in pairs:
        value = " ".join(text[: 2 * LONGEST_VALUE].split())[:LONGEST_VALUE]
        name = given.strip().lower()[:LONGEST_NAME]
        values = found.get(name, ())
        if not name or not value or value in values:
            continue
        size += len(value) + (0 if values else len(name))
        if size > MOST_CHARACTERS or len(values) >= MOST_VALUES or (not values and len(found) >= MOST_NAMES):
            # Once the size is above its limit, it stays there. So nothing after this value is kept, not even a short
            # one.
            continue
        found[name] = (*values, value)
    return found


def of_page(named: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the metadata of a page's meta elements, with its dates under the names that all sources have."""
    if not named:
        return {}
    found = bounded(named)
    for name, names in _DATES.items():
        if name not in found and (date := next((found[other] for other in names if other in found), None)):
            found[name] = date[:1]
    return found


def pairs_of(metadata: Metadata) -> Iterable[tuple[str, str]]:
    """Yield each value with its name."""
    for name, values in metadata.items():
        for value in values:
            yield name, value


def lasting(metadata: Metadata) -> list[tuple[str, tuple[str, ...]]]:
    """Return the values that are part of a version, sorted by name."""
    return sorted((name, values) for name, values in metadata.items() if name not in PASSING)


def read_stored(stored: object) -> dict[str, tuple[str, ...]]:
    """Return metadata as it was stored as JSON; None and anything unknown has no values."""
    if not isinstance(stored, Mapping):
        return {}
    return {
        str(name): tuple(str(value) for value in values) for name, values in stored.items() if isinstance(values, list)
    }
