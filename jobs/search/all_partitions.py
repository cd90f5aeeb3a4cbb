"""
A search in all partitions, best matches first.

The rank of a document depends on its text and the query alone, so ranks of several databases can be compared. Tokens of
the reader come from the authorities of the control partition: a token names its group, and groups have the same names
everywhere.
"""

import datetime as dt
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from jobs.models import OutputConnection
from jobs.partitions import this_partition
from jobs.partitions.merged import Silent, merge_lines, read_everywhere
from jobs.queries.documents.search import Hit, SearchPage, position_of, search
from jobs.queries.documents.search_lag import longest_lag, read_search_lag


@dataclass(frozen=True, slots=True)
class FoundEverywhere:
    """
    A page of hits of the partitions that answered. If other partitions are `silent`, its `total` is a lower limit.

    `behind_since` is the time of the oldest text that an index lacks; None if all indexes are complete.
    """

    page: SearchPage = field(default_factory=SearchPage)
    silent: tuple[Silent, ...] = ()
    behind_since: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """The page of hits of one partition, the names of its outputs by id, and the lag of its index."""

    page: SearchPage
    outputs: dict[int, str]
    behind_since: dt.datetime | None


def has_others() -> bool:
    """True if this is the control partition, and there are other partitions."""
    placement = this_partition.placement()
    return placement is not None and placement.is_control


def search_everywhere(query: str, *, tokens: Collection[str], limit: int, after: str | None) -> FoundEverywhere:
    """
    Return a page of the documents of all partitions that match and that these tokens may see.

    Raises:
        BadQuery, TooSlow: as `search`.
    """

    def part_of(partition: str) -> _Part:
        found = search(query, tokens=tokens, limit=limit, after=after, partition=partition)
        return _Part(found, _names(found.hits) if partition else {}, read_search_lag())

    found = read_everywhere(lambda: part_of(""), part_of)
    parts = {"": found.own, **found.others}
    merged = [one.line for one in merge_lines(found, lambda part: part.page.hits, key=lambda hit: -hit.rank)]
    shown, pages = merged[:limit], [part.page for part in parts.values()]
    numbers = _numbers({name for part in found.others.values() for name in part.outputs.values()})
    return FoundEverywhere(
        SearchPage(
            hits=tuple(_seen_here(hit, parts[hit.partition].outputs, numbers) for hit in shown),
            total=sum(page.total for page in pages),
            has_more=any(page.has_more for page in pages),
            next=position_of(shown[-1])
            if len(merged) > limit or (shown and any(page.next is not None for page in pages))
            else None,
        ),
        tuple(found.silent),
        longest_lag(part.behind_since for part in parts.values()),
    )


def _seen_here(hit: Hit, names: dict[int, str], numbers: dict[str, int]) -> Hit:
    """
    Return a hit with the id of its output in the control partition. The id is None if no output there has the same
    name.
    """
    if not hit.partition or hit.output_id is None:
        return hit
    return replace(hit, output_id=numbers.get(names.get(hit.output_id, "")))


def _names(hits: Iterable[Hit]) -> dict[int, str]:
    outputs = {hit.output_id for hit in hits if hit.output_id is not None}
    return dict(OutputConnection.objects.filter(pk__in=outputs).values_list("pk", "name"))


def _numbers(names: set[str]) -> dict[str, int]:
    return dict(OutputConnection.objects.filter(name__in=names).values_list("name", "pk")) if names else {}
