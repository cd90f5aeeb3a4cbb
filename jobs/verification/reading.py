"""
Reads the two sides of a verification in groups of buckets: the record of an output in the database, and the documents
in the output.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from jobs.connectors.output.base import Held, Listing, Lists, TooManyDocuments
from jobs.connectors.output.buckets import ranges_of
from jobs.queue.verified import Record, read_records


@dataclass(frozen=True, slots=True)
class Group:
    """
    Some buckets of an output.

    The record and the output were read one after the other, so a document that was written meanwhile may seem to
    differ. `listing` can read such a document again.
    """

    buckets: Sequence[int]
    recorded: Mapping[str, Record]
    held: Mapping[str, Held]
    listing: Listing

    @property
    def hashes(self) -> list[str]:
        """Return the hashes of all documents of the record and of the output, in order."""
        return sorted(self.recorded.keys() | self.held.keys())

    @property
    def last(self) -> str:
        """Return the last hash that can be in these buckets."""
        return ranges_of(self.buckets)[-1][1]


def read_groups(cursor: psycopg.Cursor[Any], output_id: int, output: Lists, buckets: Sequence[int]) -> Iterator[Group]:
    """
    Yield the buckets in groups, in the order of the hash. A group that is too large for the memory is halved.

    Raises:
        OutputError: the output cannot be read.
    """
    size, start = output.buckets_at_once, 0
    while start < len(buckets):
        chosen = buckets[start : start + size]
        listing = output.open_listing(cursor, chosen)
        try:
            try:
                held = {document.hash: document for document in listing}
            except TooManyDocuments:
                size = max(1, len(chosen) // 2)
                continue
            yield Group(chosen, read_records(cursor, output_id, ranges_of(chosen)), held, listing)
        finally:
            listing.close()
        start += len(chosen)
