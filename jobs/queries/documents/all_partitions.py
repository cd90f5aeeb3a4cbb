"""Lists of documents and stories of documents over all partitions."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs.partitions.merged import Placed, Silent, local_job, merge_lines, numbers_of, read_everywhere
from jobs.queries.documents.lists import (
    A_PAGE,
    ORDERS,
    DocumentFilter,
    DocumentKey,
    DocumentLine,
    DocumentList,
    Order,
    key_of,
    list_documents,
)
from jobs.queries.documents.story import DocumentStory, read_story

_NONE = DocumentList(lines=[], next_key=None)


@dataclass(frozen=True, slots=True)
class DocumentsEverywhere:
    """One page of the documents of all partitions that have answered."""

    lines: Sequence[Placed[DocumentLine]] = ()
    next_key: DocumentKey | None = None
    silent: Sequence[Silent] = ()


def list_documents_everywhere(wanted: DocumentFilter) -> DocumentsEverywhere:
    """
    Return a page of the documents of all partitions that pass the filter, in the same order as in one.

    Raises:
        FilterTooWide, OrderTooWide: as `list_documents`.
    """
    found = read_everywhere(lambda: list_documents(wanted), lambda _name: _list_elsewhere(wanted))
    # All rows with the same hash are in one partition, so their order in this partition stays.
    order = ORDERS.get(wanted.sort)
    is_downwards = order is not None and order.is_downwards
    lines = merge_lines(
        found, lambda page: page.lines, key=lambda line: _place_of(line, order), is_downwards=is_downwards
    )
    has_more = len(lines) > A_PAGE or any(page.next_key is not None for page in (found.own, *found.others.values()))
    shown = lines[:A_PAGE]
    next_key = key_of(shown[-1].line, order) if has_more and shown else None
    return DocumentsEverywhere(shown, next_key, found.silent)


def read_story_everywhere(*, job_id: int, document: uuid.UUID, now: dt.datetime) -> DocumentStory | None:
    """Read all facts about one document in the partition that has it; None if no partition that answers knows it."""
    own = read_story(job_id=job_id, document=document, now=now)
    if own is not None:
        return own

    def elsewhere(name: str) -> DocumentStory | None:
        local = local_job(job_id)
        story = None if local is None else read_story(job_id=local, document=document, now=now)
        if story is None:
            return None
        story.job.pk = story.item.job_id = job_id
        return replace(story, partition=name, job_there=local or 0)

    found = read_everywhere(lambda: None, elsewhere)
    return next((story for story in found.others.values() if story is not None), None)


def _list_elsewhere(wanted: DocumentFilter) -> DocumentList:
    """List documents in the database of this thread, for a filter with ids of the control partition."""
    job_id = None if wanted.job_id is None else local_job(wanted.job_id)
    if wanted.job_id is not None and job_id is None:
        return _NONE
    after = wanted.after
    if after is not None:
        # The id of the job is compared only among documents with the same hash, which are all in one partition. In all
        # other partitions, any id gives the same result, such as 0.
        after = replace(after, job_id=local_job(after.job_id) or 0)
    found = list_documents(replace(wanted, job_id=job_id, after=after))
    numbers = numbers_of({line.job_id for line in found.lines})
    lines = [replace(line, job_id=numbers[line.job_id]) for line in found.lines if line.job_id in numbers]
    return replace(found, lines=lines)


def _place_of(line: DocumentLine, order: Order | None) -> tuple[Any, uuid.UUID]:
    return getattr(line, order.column) if order is not None else None, line.hash
