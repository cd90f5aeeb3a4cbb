"""
Stored links of documents that were not read: they still apply, and become references again.

The rules may have been narrowed since these links were read, so the links pass the present rules of their job first.
A refused link is not followed: a full run removes its document like any other that it did not reach.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import configuration_of
from jobs.queue.flushing.outcomes import JobFacts, Key, Result
from jobs.queue.sql.arrays import Hashes

_LINKS: Final[LiteralString] = """
SELECT link.hash, link.job_id, link.is_redirect, link.targets
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS source(hash, job_id)
  JOIN jobs_outlinks AS link ON link.hash = source.hash AND link.job_id = source.job_id
"""
_IDENTIFIERS: Final[LiteralString] = """
SELECT item.hash, item.job_id, item.identifier
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS wanted(hash, job_id)
  JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.job_id = wanted.job_id
"""


@dataclass(frozen=True, slots=True)
class StoredLinks:
    """The stored links of one document that was not read. `targets` are hashes that the present rules admit."""

    result: Result
    is_redirect: bool
    targets: Sequence[str]


def read_stored_links(cursor: psycopg.Cursor[Any], unread: Mapping[Key, Result]) -> Iterator[StoredLinks]:
    """Yield the links that are stored for these documents."""
    rows = cursor.execute(_LINKS, _columns(unread)).fetchall()
    refused = _refused_today(cursor, [(row, unread[row.hash.hex, row.job_id]) for row in rows])
    for row in rows:
        targets = [target.hex for target in row.targets]
        if refused:
            targets = [target for target in targets if (target, row.job_id) not in refused]
        yield StoredLinks(unread[row.hash.hex, row.job_id], row.is_redirect, targets)


def _refused_today(cursor: psycopg.Cursor[Any], stored: Sequence[tuple[Any, Result]]) -> set[Key]:
    """
    Return the stored targets that the present rules of their job refuse.

    If the version of a document was made under the present rules, its links were read under them or later. So a run
    without changes of rules looks up no identifier here.
    """
    doubtful: dict[Key, JobFacts] = {}
    for row, result in stored:
        job = result.job
        if job.admits is not None and configuration_of(result.outcome.version) != job.configuration:
            doubtful.update(((target.hex, job.id), job) for target in row.targets)
    if not doubtful:
        return set()
    refused = set()
    for row in cursor.execute(_IDENTIFIERS, _columns(doubtful)):
        key = (row.hash.hex, row.job_id)
        admits = doubtful[key].admits
        if admits is not None and not admits(row.identifier):
            refused.add(key)
    return refused


def _columns(keys: Mapping[Key, object]) -> dict[str, object]:
    return {"hashes": Hashes(key for key, _ in keys), "jobs": [job for _, job in keys]}
