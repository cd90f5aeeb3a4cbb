"""The way from a seed to a document, and the documents that link to it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jobs.models import Link, QueueItem

# Documents that link to the document, at most.
_REFERRERS: Final = 20


@dataclass(frozen=True, slots=True)
class Step:
    """A document on the way. `hash` is its key in the job."""

    hash: uuid.UUID
    identifier: str


@dataclass(frozen=True, slots=True)
class Way:
    """The documents from a seed to the document itself; empty if the way is unknown."""

    steps: Sequence[Step] = field(default_factory=list)
    referrers: Sequence[Step] = field(default_factory=list)


def read_ways(items: Sequence[QueueItem]) -> dict[int, Way]:
    """Return the ways to these documents of different jobs, by job."""
    return {item.job_id: Way(referrers=_read_referrers(item)) for item in items}


def _read_referrers(item: QueueItem) -> list[Step]:
    """Return some documents that link to a document. Only jobs with hop limits store links by their target."""
    if not item.job.hop_limits:
        return []
    sources = Link.objects.filter(job=item.job_id, target=item.hash).values_list("source", flat=True)[:_REFERRERS]
    known = QueueItem.objects.filter(job=item.job_id, hash__in=list(sources))
    return [Step(one.hash, one.identifier) for one in known]
