"""Pages of definitions: by subject in the order of an import, then by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Q, QuerySet, Sum

from jobs.definitions.subjects import JOB, SUBJECTS, Subject

# Largest number of addresses of seeds on one page. A page with a single job may have more.
_MOST_ADDRESSES: Final = 100_000


@dataclass(slots=True)
class Page:
    """Stored objects with their subjects. `has_more` is True if further objects follow."""

    rows: list[tuple[Subject, Any]] = field(default_factory=list)
    has_more: bool = False


def read_page(subjects: Sequence[Subject], *, name: str | None, limit: int, after: tuple[str, str] | None) -> Page:
    """Return at most `limit` objects of these subjects behind the subject and name `after`, or only the objects with a `name`."""
    page, order = Page(), list(SUBJECTS)
    for subject in subjects:
        rows: QuerySet[Any] = subject.rows().order_by("name")
        if name is not None:
            rows = rows.filter(name=name)
        if after is not None:
            if order.index(subject.name) < order.index(after[0]):
                continue
            if subject.name == after[0]:
                rows = rows.filter(name__gt=after[1])
        found, page.has_more = _take(subject, rows, limit - len(page.rows))
        page.rows += [(subject, row) for row in found]
        if page.has_more:
            break
    return page


def _take(subject: Subject, rows: QuerySet[Any], most: int) -> tuple[list[Any], bool]:
    """Return at most `most` rows, and True if further rows follow."""
    if subject is not JOB:
        found = list(rows[: most + 1])
        return found[:most], len(found) > most
    lengths = Sum("seeds__urls__len", filter=Q(seeds__removed_at=None))
    counted = list(rows.annotate(addresses=lengths).values_list("pk", "addresses")[: most + 1])
    chosen: list[int] = []
    total = 0
    for number, addresses in counted[:most]:
        total += addresses or 0
        if chosen and total > _MOST_ADDRESSES:
            break
        chosen.append(number)
    return list(rows.filter(pk__in=chosen)), len(chosen) < len(counted)
