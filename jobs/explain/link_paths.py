"""The way from a seed to a document, and the documents that link to it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, LiteralString

from django.db import connection

from jobs.models import Link, OutLinks, QueueItem
from jobs.queue.sql.rows import named_rows

# Largest number of linking documents that are read.
_REFERRERS: Final = 20
# Largest number of steps of a way that are followed.
_LONGEST: Final = 200
# Each step is a look-up by the primary key. A document may be found again after its removal, so ways can have circles.
_WAYS: Final[LiteralString] = """
WITH RECURSIVE way AS (
    SELECT job_id, hash, identifier, found_on, 0 AS place
      FROM jobs_queueitem WHERE hash = %(hash)s AND job_id = ANY(%(jobs)s)
     UNION ALL
    SELECT item.job_id, item.hash, item.identifier, item.found_on, way.place + 1
      FROM way JOIN jobs_queueitem AS item ON item.hash = way.found_on AND item.job_id = way.job_id
     WHERE way.found_on <> way.hash AND way.place < %(longest)s
) CYCLE hash, job_id SET is_circle USING visited
SELECT job_id, hash, identifier, found_on, coalesce(found_on = hash, false) AS is_seed
  FROM way WHERE NOT is_circle ORDER BY place DESC
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A document on the way. `hash` is its key in the job."""

    hash: uuid.UUID
    identifier: str


@dataclass(frozen=True, slots=True)
class Way:
    """
    The documents from a seed to the document itself, and some documents that link to it.

    If the way is not complete, its first step is the earliest known document.
    """

    steps: Sequence[Step] = field(default_factory=list)
    is_complete: bool = False
    referrers: Sequence[Step] = field(default_factory=list)


def read_ways(items: Sequence[QueueItem]) -> dict[int, Way]:
    """Return the ways to these documents, which have one hash and different jobs, by job."""
    connection.ensure_connection()
    facts = {"hash": items[0].hash, "jobs": [item.job_id for item in items], "longest": _LONGEST}
    with named_rows(connection.connection) as cursor:
        rows = cursor.execute(_WAYS, facts).fetchall()
    ways: dict[int, Way] = {}
    for item in items:
        mine = [row for row in rows if row.job_id == item.job_id]
        steps = [Step(row.hash, row.identifier) for row in mine]
        ways[item.job_id] = Way(steps, bool(mine) and mine[0].is_seed, _read_referrers(item, steps))
    return ways


def _read_referrers(item: QueueItem, steps: Sequence[Step]) -> list[Step]:
    """
    Return some documents that link to a document.

    Only jobs with hop limits store links by their target. In other jobs, only the document on which the address was
    found is known.
    """
    if item.job.hop_limits:
        sources = Link.objects.filter(job=item.job_id, target=item.hash).values_list("source", flat=True)[:_REFERRERS]
        known = QueueItem.objects.filter(job=item.job_id, hash__in=list(sources))
        return [Step(one.hash, one.identifier) for one in known]
    found_on = steps[-2] if len(steps) > 1 else None
    if found_on is None:
        return []
    links = OutLinks.objects.filter(hash=found_on.hash, job=item.job_id, targets__contains=[item.hash])
    return [found_on] if links.exists() else []
